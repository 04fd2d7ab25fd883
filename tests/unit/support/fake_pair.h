// Two connected queue pairs on a FakeFabric, for its own tests. Everything in
// the fabric is synchronous, so one thread can play both sides.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/support/fake_verbs.h"

namespace sluice {

struct FakePairOptions {
  int cqe = 64;
  int max_send_wr = 16;
  int max_recv_wr = 16;
  uint8_t read_depth = 4;
  uint8_t rnr_retry = 7;
  bool sq_sig_all = false;
  bool connect = true;
};

sockaddr_in V4(std::string_view address, uint16_t port);
sockaddr_in6 V6(std::string_view address, uint16_t port);
inline sockaddr* Raw(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}
inline sockaddr* Raw(sockaddr_in6& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

// Expects this event next, acknowledges it and returns a copy, without its
// private data.
rdma_cm_event TakeEvent(const VerbsApi& api, rdma_event_channel* channel,
                        rdma_cm_event_type type);

// Makes the descriptor O_NONBLOCK.
void SetNonblocking(int fd);
bool IsReadable(int fd);
std::vector<ibv_wc> Poll(ibv_cq* cq);
// wr_ids and statuses of completions, for matchers.
std::vector<uint64_t> WrIds(const std::vector<ibv_wc>& completions);
std::vector<ibv_wc_status> Statuses(const std::vector<ibv_wc>& completions);

// One side. A buffer of 64 KiB is registered for everything; `offset`s are in
// it. Post functions return what ibv_post_* returned.
struct FakeNode {
  void Make(FakeFabric* on, rdma_cm_id* with_id,
            const FakePairOptions& options);
  void Destroy();  // the queue pair, if it is there, and all but the id

  ibv_sge Sge(size_t offset, uint32_t length_bytes) const;
  uint64_t Address(size_t offset) const { return Sge(offset, 0).addr; }
  int PostRecv(uint64_t wr_id, size_t offset = 0, uint32_t length_bytes = 64);
  int PostSend(uint64_t wr_id, ibv_wr_opcode opcode = IBV_WR_SEND,
               unsigned int flags = IBV_SEND_SIGNALED, size_t offset = 0,
               uint32_t length_bytes = 64);
  // A WRITE or READ of `length_bytes` at `offset` on both sides.
  int PostRdma(uint64_t wr_id, ibv_wr_opcode opcode, const FakeNode& peer,
               unsigned int flags = IBV_SEND_SIGNALED, size_t offset = 0,
               uint32_t length_bytes = 64);
  int Post(ibv_send_wr wr);

  FakeFabric* fabric = nullptr;
  const VerbsApi* api = nullptr;
  rdma_cm_id* id = nullptr;
  ibv_pd* pd = nullptr;
  std::vector<char> buffer = std::vector<char>(65536);
  ibv_mr* mr = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
};

class FakePair {
 public:
  explicit FakePair(FakeFabric* fabric, FakePairOptions options = {});
  ~FakePair();
  FakePair(const FakePair&) = delete;
  FakePair& operator=(const FakePair&) = delete;

  FakeFabric* fabric;
  const VerbsApi& api;
  rdma_event_channel* active_events;
  rdma_event_channel* passive_events;
  rdma_cm_id* listener = nullptr;
  FakeNode active;
  FakeNode passive;
};

}  // namespace sluice
