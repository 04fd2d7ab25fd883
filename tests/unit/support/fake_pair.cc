#include "tests/unit/support/fake_pair.h"

#include <arpa/inet.h>
#include <poll.h>

#include <string>

namespace sluice {

sockaddr_in V4(std::string_view address, uint16_t port) {
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, std::string(address).c_str(), &result.sin_addr),
            1);
  return result;
}

sockaddr_in6 V6(std::string_view address, uint16_t port) {
  sockaddr_in6 result = {};
  result.sin6_family = AF_INET6;
  result.sin6_port = htons(port);
  EXPECT_EQ(
      inet_pton(AF_INET6, std::string(address).c_str(), &result.sin6_addr), 1);
  return result;
}

rdma_cm_event TakeEvent(const VerbsApi& api, rdma_event_channel* channel,
                        rdma_cm_event_type type) {
  SetNonblocking(channel->fd);
  rdma_cm_event* event = nullptr;
  if (api.get_cm_event(channel, &event) != 0) {
    ADD_FAILURE() << "no event, expected " << type;
    return {};
  }
  EXPECT_EQ(event->event, type);
  const rdma_cm_event copy = *event;
  EXPECT_EQ(api.ack_cm_event(event), 0);
  return copy;
}

void SetNonblocking(int fd) {
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

bool IsReadable(int fd) {
  pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) == 1;
}

std::vector<ibv_wc> Poll(ibv_cq* cq) {
  std::vector<ibv_wc> completions(256);
  const int count =
      ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
  EXPECT_GE(count, 0);
  completions.resize(static_cast<size_t>(count));
  return completions;
}

std::vector<uint64_t> WrIds(const std::vector<ibv_wc>& completions) {
  std::vector<uint64_t> wr_ids;
  for (const ibv_wc& wc : completions) wr_ids.push_back(wc.wr_id);
  return wr_ids;
}

std::vector<ibv_wc_status> Statuses(const std::vector<ibv_wc>& completions) {
  std::vector<ibv_wc_status> statuses;
  for (const ibv_wc& wc : completions) statuses.push_back(wc.status);
  return statuses;
}

void FakeNode::Make(FakeFabric* on, rdma_cm_id* with_id,
                    const FakePairOptions& options) {
  fabric = on;
  api = &on->api();
  id = with_id;
  pd = api->alloc_pd(id->verbs);
  ASSERT_NE(pd, nullptr);
  mr = api->reg_mr(pd, buffer.data(), buffer.size(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  channel = api->create_comp_channel(id->verbs);
  SetNonblocking(channel->fd);
  send_cq = api->create_cq(id->verbs, options.cqe, this, channel, 0);
  recv_cq = api->create_cq(id->verbs, options.cqe, this, channel, 0);
  ASSERT_NE(recv_cq, nullptr);
  ibv_qp_init_attr attr = {};
  attr.send_cq = send_cq;
  attr.recv_cq = recv_cq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = options.sq_sig_all ? 1 : 0;
  attr.cap.max_send_wr = static_cast<uint32_t>(options.max_send_wr);
  attr.cap.max_recv_wr = static_cast<uint32_t>(options.max_recv_wr);
  attr.cap.max_send_sge = 4;
  attr.cap.max_recv_sge = 4;
  ibv_device_attr device = {};
  EXPECT_EQ(api->query_device(id->verbs, &device), 0);
  attr.cap.max_inline_data =
      id->verbs->device->transport_type == IBV_TRANSPORT_IB ? 128 : 0;
  ASSERT_EQ(api->create_qp(id, pd, &attr), 0);
}

void FakeNode::Destroy() {
  if (api == nullptr) return;
  if (id->qp != nullptr) api->destroy_qp(id);
  EXPECT_EQ(api->destroy_cq(recv_cq), 0);
  EXPECT_EQ(api->destroy_cq(send_cq), 0);
  EXPECT_EQ(api->destroy_comp_channel(channel), 0);
  EXPECT_EQ(api->dereg_mr(mr), 0);
  EXPECT_EQ(api->dealloc_pd(pd), 0);
}

ibv_sge FakeNode::Sge(size_t offset, uint32_t length_bytes) const {
  return {.addr = reinterpret_cast<uint64_t>(buffer.data() + offset),
          .length = length_bytes,
          .lkey = mr->lkey};
}

int FakeNode::PostRecv(uint64_t wr_id, size_t offset, uint32_t length_bytes) {
  ibv_sge sge = Sge(offset, length_bytes);
  ibv_recv_wr wr = {
      .wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad_wr = nullptr;
  return ibv_post_recv(id->qp, &wr, &bad_wr);
}

int FakeNode::PostSend(uint64_t wr_id, ibv_wr_opcode opcode, unsigned int flags,
                       size_t offset, uint32_t length_bytes) {
  ibv_sge sge = Sge(offset, length_bytes);
  ibv_send_wr wr = {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  return Post(wr);
}

int FakeNode::PostRdma(uint64_t wr_id, ibv_wr_opcode opcode,
                       const FakeNode& peer, unsigned int flags, size_t offset,
                       uint32_t length_bytes) {
  ibv_sge sge = Sge(offset, length_bytes);
  ibv_send_wr wr = {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  wr.wr.rdma.remote_addr = peer.Address(offset);
  wr.wr.rdma.rkey = peer.mr->rkey;
  return Post(wr);
}

int FakeNode::Post(ibv_send_wr wr) {
  ibv_send_wr* bad_wr = nullptr;
  const int result = ibv_post_send(id->qp, &wr, &bad_wr);
  if (result != 0) {
    EXPECT_EQ(bad_wr, &wr);
  }
  return result;
}

FakePair::FakePair(FakeFabric* on, FakePairOptions options)
    : fabric(on),
      api(on->api()),
      active_events(api.create_event_channel()),
      passive_events(api.create_event_channel()) {
  EXPECT_EQ(api.create_id(passive_events, &listener, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = V4("127.0.0.1", 0);
  EXPECT_EQ(api.bind_addr(listener, Raw(address)), 0);
  EXPECT_EQ(api.listen(listener, 0), 0);
  address.sin_port = api.get_src_port(listener);

  rdma_cm_id* id = nullptr;
  EXPECT_EQ(api.create_id(active_events, &id, nullptr, RDMA_PS_TCP), 0);
  EXPECT_EQ(api.resolve_addr(id, nullptr, Raw(address), 1000), 0);
  TakeEvent(api, active_events, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(api.resolve_route(id, 1000), 0);
  TakeEvent(api, active_events, RDMA_CM_EVENT_ROUTE_RESOLVED);
  active.Make(fabric, id, options);
  if (!options.connect) return;

  rdma_conn_param param = {};
  param.initiator_depth = options.read_depth;
  param.responder_resources = options.read_depth;
  param.rnr_retry_count = options.rnr_retry;
  EXPECT_EQ(api.connect(id, &param), 0);
  const rdma_cm_event request =
      TakeEvent(api, passive_events, RDMA_CM_EVENT_CONNECT_REQUEST);
  passive.Make(fabric, request.id, options);
  EXPECT_EQ(api.accept(request.id, &param), 0);
  TakeEvent(api, passive_events, RDMA_CM_EVENT_ESTABLISHED);
  TakeEvent(api, active_events, RDMA_CM_EVENT_ESTABLISHED);
}

FakePair::~FakePair() {
  active.Destroy();
  passive.Destroy();
  for (rdma_cm_id* id : {active.id, passive.id}) {
    if (id == nullptr) continue;
    EXPECT_EQ(api.destroy_id(id), 0);
  }
  EXPECT_EQ(api.destroy_id(listener), 0);
  api.destroy_event_channel(active_events);
  api.destroy_event_channel(passive_events);
}

}  // namespace sluice
