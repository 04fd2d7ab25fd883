// One end of a connection: an id and its queue pair, with a PD, a CQ for sends,
// one for receives and memory of its own. Everything in it may be used
// directly: that is what the tests are about.
//
// The destructor takes it down in the order that verbs want, and fails the test
// where that is refused.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/verbs/pump.h"
#include "tests/verbs/region.h"

namespace sluice::verbs {

struct EndpointOptions {
  uint32_t send_wr = 16;
  uint32_t recv_wr = 16;
  uint32_t sge = 4;  // less, where the device has no more
  uint32_t inline_bytes = 0;
  int cqe = 256;  // of each CQ
  bool signal_all = false;
  bool one_channel = true;  // for both CQs, or one each
  size_t memory_bytes = 256 * 1024;
  ibv_pd* pd = nullptr;  // a shared one; null: its own
  ibv_srq* srq = nullptr;
  // Another's, which outlives it; null: its own.
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
};

// An element of a send queue.
struct SendWork {
  uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::vector<ibv_sge> sges = {};
  unsigned flags = IBV_SEND_SIGNALED;
  Remote remote = {};
  uint32_t invalidate = 0;
};

class Endpoint : public Pumped {
 public:
  // Takes the id, which must know its device.
  Endpoint(rdma_cm_id* id, const EndpointOptions& options);
  ~Endpoint() override;

  // Moves completions to `sent` and `received`, unless `held`.
  void Pump() override;
  void DestroyQp();

  // Each returns 0 or the errno.
  int Post(const SendWork& work);
  int PostSend(uint64_t wr_id, ibv_sge sge, unsigned flags = IBV_SEND_SIGNALED);
  int PostWrite(uint64_t wr_id, ibv_sge sge, Remote to,
                unsigned flags = IBV_SEND_SIGNALED);
  int PostRead(uint64_t wr_id, ibv_sge sge, Remote from,
               unsigned flags = IBV_SEND_SIGNALED);
  int PostRecv(uint64_t wr_id, ibv_sge sge);  // or to the SRQ
  int PostRecv(uint64_t wr_id, const std::vector<ibv_sge>& sges);
  int Modify(ibv_qp_state state);
  int Grant(unsigned rights);  // to peers: IBV_ACCESS_REMOTE_*
  ibv_qp_state State();        // as ibv_query_qp says

  // Waits until so many completions are there, then takes all that are.
  std::vector<ibv_wc> TakeSent(size_t count);
  std::vector<ibv_wc> TakeReceived(size_t count);

  ibv_qp* qp() const { return id->qp; }
  Region& memory() { return *memory_; }
  ibv_sge Sge(size_t offset, uint32_t length_bytes) const {
    return memory_->Sge(offset, length_bytes);
  }
  Remote At(size_t offset) const { return memory_->At(offset); }

  rdma_cm_id* id;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* send_channel = nullptr;
  ibv_comp_channel* recv_channel = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_qp_cap cap = {};  // as granted
  bool made = false;    // all of it

  bool held = false;  // completions stay where they are
  std::vector<ibv_wc> sent;
  std::vector<ibv_wc> received;
  bool send_cq_failed = false;  // ibv_poll_cq was negative
  bool recv_cq_failed = false;

 private:
  const EndpointOptions options_;
  std::unique_ptr<Region> memory_;
};

std::vector<uint64_t> WrIds(const std::vector<ibv_wc>& completions);
// Their statuses' names; "" for none.
std::string Statuses(const std::vector<ibv_wc>& completions);

}  // namespace sluice::verbs
