#include "tests/verbs/endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_join.h"

namespace sluice::verbs {
namespace {

// False: the CQ is lost.
bool Drain(ibv_cq* cq, std::vector<ibv_wc>* to) {
  ibv_wc batch[16];
  while (true) {
    const int count = ibv_poll_cq(cq, 16, batch);
    if (count < 0) return false;
    if (count == 0) return true;
    to->insert(to->end(), batch, batch + count);
  }
}

std::vector<ibv_wc> Take(std::vector<ibv_wc>* from, size_t count) {
  EXPECT_TRUE(Until([=] { return from->size() >= count; }))
      << from->size() << " completions, not " << count;
  return std::exchange(*from, {});
}

}  // namespace

Endpoint::Endpoint(rdma_cm_id* from, const EndpointOptions& options)
    : id(from), options_(options) {
  pd = options.pd != nullptr ? options.pd : Api().alloc_pd(id->verbs);
  if (pd == nullptr) return;
  memory_ = std::make_unique<Region>(pd, options.memory_bytes);
  send_channel = Api().create_comp_channel(id->verbs);
  recv_channel =
      options.one_channel ? send_channel : Api().create_comp_channel(id->verbs);
  if (send_channel == nullptr || recv_channel == nullptr) return;
  SetNonblocking(send_channel->fd);
  SetNonblocking(recv_channel->fd);
  send_cq = options.send_cq != nullptr ? options.send_cq
                                       : Api().create_cq(id->verbs, options.cqe,
                                                         this, send_channel, 0);
  recv_cq = options.recv_cq != nullptr ? options.recv_cq
                                       : Api().create_cq(id->verbs, options.cqe,
                                                         this, recv_channel, 0);
  if (send_cq == nullptr || recv_cq == nullptr) return;
  ibv_qp_init_attr attr = {};
  attr.send_cq = send_cq;
  attr.recv_cq = recv_cq;
  attr.srq = options.srq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = options.signal_all ? 1 : 0;
  attr.cap.max_send_wr = options.send_wr;
  attr.cap.max_recv_wr = options.srq != nullptr ? 0 : options.recv_wr;
  attr.cap.max_send_sge = attr.cap.max_recv_sge =
      std::min(options.sge, static_cast<uint32_t>(Device().attr.max_sge));
  attr.cap.max_inline_data = options.inline_bytes;
  made = Api().create_qp(id, pd, &attr) == 0;
  cap = attr.cap;
}

Endpoint::~Endpoint() {
  DestroyQp();
  EXPECT_EQ(Api().destroy_id(id), 0);
  for (ibv_cq* cq : {send_cq, recv_cq}) {
    const bool is_others = cq == options_.send_cq || cq == options_.recv_cq;
    if (cq == nullptr || is_others) continue;
    EXPECT_EQ(Api().destroy_cq(cq), 0);
  }
  if (recv_channel != nullptr && recv_channel != send_channel) {
    EXPECT_EQ(Api().destroy_comp_channel(recv_channel), 0);
  }
  if (send_channel != nullptr) {
    EXPECT_EQ(Api().destroy_comp_channel(send_channel), 0);
  }
  memory_ = nullptr;
  if (pd != nullptr && options_.pd == nullptr) {
    EXPECT_EQ(Api().dealloc_pd(pd), 0);
  }
}

void Endpoint::Pump() {
  if (held || recv_cq == nullptr) return;
  // Receives first: they may be fewer than the sends that caused them, never
  // more.
  recv_cq_failed |= !Drain(recv_cq, &received);
  send_cq_failed |= !Drain(send_cq, &sent);
}

void Endpoint::DestroyQp() {
  if (id->qp != nullptr) Api().destroy_qp(id);
}

int Endpoint::Post(const SendWork& work) {
  std::vector<ibv_sge> sges = work.sges;
  ibv_send_wr wr = {};
  wr.wr_id = work.wr_id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  wr.opcode = work.opcode;
  wr.send_flags = work.flags;
  if (work.opcode == IBV_WR_SEND_WITH_INV || work.opcode == IBV_WR_LOCAL_INV) {
    wr.invalidate_rkey = work.invalidate;
    wr.wr.rdma.rkey = work.invalidate;  // libsiw reads every key from there
  } else {
    wr.wr.rdma.remote_addr = work.remote.address;
    wr.wr.rdma.rkey = work.remote.rkey;
  }
  ibv_send_wr* bad_wr = nullptr;
  return std::abs(ibv_post_send(qp(), &wr, &bad_wr));  // siw: negative
}

int Endpoint::PostSend(uint64_t wr_id, ibv_sge sge, unsigned flags) {
  return Post({.wr_id = wr_id, .sges = {sge}, .flags = flags});
}

int Endpoint::PostWrite(uint64_t wr_id, ibv_sge sge, Remote to,
                        unsigned flags) {
  return Post({.wr_id = wr_id,
               .opcode = IBV_WR_RDMA_WRITE,
               .sges = {sge},
               .flags = flags,
               .remote = to});
}

int Endpoint::PostRead(uint64_t wr_id, ibv_sge sge, Remote from,
                       unsigned flags) {
  return Post({.wr_id = wr_id,
               .opcode = IBV_WR_RDMA_READ,
               .sges = {sge},
               .flags = flags,
               .remote = from});
}

int Endpoint::PostRecv(uint64_t wr_id, ibv_sge sge) {
  return PostRecv(wr_id, std::vector<ibv_sge>{sge});
}

int Endpoint::PostRecv(uint64_t wr_id, const std::vector<ibv_sge>& sges) {
  std::vector<ibv_sge> list = sges;
  ibv_recv_wr wr = {.wr_id = wr_id,
                    .next = nullptr,
                    .sg_list = list.data(),
                    .num_sge = static_cast<int>(list.size())};
  ibv_recv_wr* bad_wr = nullptr;
  if (options_.srq != nullptr) {
    return std::abs(ibv_post_srq_recv(options_.srq, &wr, &bad_wr));
  }
  return std::abs(ibv_post_recv(qp(), &wr, &bad_wr));
}

int Endpoint::Modify(ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  return std::abs(Api().modify_qp(qp(), &attr, IBV_QP_STATE));
}

int Endpoint::Grant(unsigned rights) {
  ibv_qp_attr attr = {};
  attr.qp_access_flags = rights;
  return std::abs(Api().modify_qp(qp(), &attr, IBV_QP_ACCESS_FLAGS));
}

ibv_qp_state Endpoint::State() {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(Api().query_qp(qp(), &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

std::vector<ibv_wc> Endpoint::TakeSent(size_t count) {
  return Take(&sent, count);
}

std::vector<ibv_wc> Endpoint::TakeReceived(size_t count) {
  return Take(&received, count);
}

std::vector<uint64_t> WrIds(const std::vector<ibv_wc>& completions) {
  std::vector<uint64_t> wr_ids;
  for (const ibv_wc& wc : completions) wr_ids.push_back(wc.wr_id);
  return wr_ids;
}

std::string Statuses(const std::vector<ibv_wc>& completions) {
  return absl::StrJoin(completions, " ", [](std::string* to, const ibv_wc& wc) {
    to->append(StatusName(wc.status));
  });
}

}  // namespace sluice::verbs
