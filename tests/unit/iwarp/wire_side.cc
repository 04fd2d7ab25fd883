#include "tests/unit/iwarp/wire_side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "transport/iwarp/calls.h"

namespace sluice::iwarp {
namespace {

constexpr std::byte kGuardByte{0xa5};
constexpr std::byte kDataByte{0x3c};
constexpr int64_t kPatience = 20 * kNanosPerSecond;

void MakeNonBlocking(int fd) {
  SLUICE_CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

// `data` must live as long as the result.
rdma_conn_param ParamOf(const WireConnection& connection,
                        const WireQpOptions& options, const Bytes& data) {
  rdma_conn_param param = {};
  param.qp_num = connection.qp->qp_num;
  param.responder_resources = options.ird;
  param.initiator_depth = options.ord;
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  return param;
}

constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kAllRights =
    kLocalWrite | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

// --- memory ---

GuardedRegion::GuardedRegion(ibv_pd* pd, int access, size_t bytes)
    : bytes_(bytes), memory_(new std::byte[bytes + 2 * kGuard]) {
  std::fill_n(memory_.get(), bytes_ + 2 * kGuard, kGuardByte);
  std::fill_n(data(), bytes_, kDataByte);
  mr_ = VerbsApi::Iwarp().reg_mr(pd, data(), bytes_, access);
  SLUICE_CHECK(mr_ != nullptr);
  key_ = mr_->rkey;
}

GuardedRegion::~GuardedRegion() { Deregister(); }

void GuardedRegion::Deregister() {
  if (mr_ == nullptr) return;
  SLUICE_CHECK(VerbsApi::Iwarp().dereg_mr(mr_) == 0);
  mr_ = nullptr;
}

Bytes GuardedRegion::Copy(size_t from, size_t bytes) const {
  return Bytes(data() + from, data() + from + bytes);
}

bool GuardedRegion::IsUntouched(bool with_data) const {
  const auto all = [](const std::byte* from, size_t bytes, std::byte value) {
    return *from == value && std::memcmp(from, from + 1, bytes - 1) == 0;
  };
  return all(memory_.get(), kGuard, kGuardByte) &&
         all(data() + bytes_, kGuard, kGuardByte) &&
         (!with_data || all(data(), bytes_, kDataByte));
}

// --- connections ---

bool WireConnection::Saw(rdma_cm_event_type type) const {
  return std::ranges::find(events, type) != events.end();
}

bool WireConnection::SawAsync(ibv_event_type type) const {
  return std::ranges::find(async_events, type) != async_events.end();
}

const ibv_wc* WireConnection::Find(uint64_t wr_id) const {
  for (const ibv_wc& wc : completions) {
    if (wc.wr_id == wr_id) return &wc;
  }
  return nullptr;
}

// --- the side ---

WireSide::WireSide() : api_(VerbsApi::Iwarp()) {
  channel_ = api_.create_event_channel();
  SLUICE_CHECK(channel_ != nullptr);
  MakeNonBlocking(channel_->fd);
  SLUICE_CHECK(api_.create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) == 0);
  sockaddr_in at = Loopback(0);
  SLUICE_CHECK(api_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&at)) ==
               0);
  SLUICE_CHECK(api_.listen(listener_, 0) == 0);
  port_ = ntohs(api_.get_src_port(listener_));
  context_ = listener_->verbs;
  MakeNonBlocking(context_->async_fd);
  comp_channel_ = api_.create_comp_channel(context_);
  SLUICE_CHECK(comp_channel_ != nullptr);
  MakeNonBlocking(comp_channel_->fd);
  pd_ = api_.alloc_pd(context_);
  other_pd_ = api_.alloc_pd(context_);
  const auto make = [](ibv_pd* pd, int access) {
    return std::make_unique<GuardedRegion>(pd, access);
  };
  writable_ = make(pd_, kLocalWrite | IBV_ACCESS_REMOTE_WRITE);
  readable_ = make(pd_, IBV_ACCESS_REMOTE_READ);
  local_ = make(pd_, kLocalWrite);
  sink_ = make(pd_, kLocalWrite);
  stranger_ = make(other_pd_, kAllRights);
  gone_ = make(pd_, kAllRights);
  gone_->Deregister();
}

WireSide::~WireSide() {
  while (!connections_.empty()) Destroy(connections_.back().get());
  for (rdma_cm_id* id : requests_) api_.destroy_id(id);
  api_.destroy_id(listener_);
  api_.destroy_event_channel(channel_);
  SLUICE_CHECK(api_.destroy_comp_channel(comp_channel_) == 0);
  for (auto* region :
       {&writable_, &readable_, &local_, &sink_, &stranger_, &gone_}) {
    region->reset();
  }
  SLUICE_CHECK(api_.dealloc_pd(pd_) == 0);
  SLUICE_CHECK(api_.dealloc_pd(other_pd_) == 0);
}

void WireSide::TakeCmEvents() {
  rdma_cm_event* event;
  while (api_.get_cm_event(channel_, &event) == 0) {
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      event->id->context = nullptr;
      requests_.push_back(event->id);
    } else if (event->id->context != nullptr) {
      auto* connection = static_cast<WireConnection*>(event->id->context);
      const rdma_conn_param& param = event->param.conn;
      const auto* data = static_cast<const std::byte*>(param.private_data);
      connection->events.push_back(event->event);
      connection->statuses.push_back(event->status);
      connection->private_data.emplace_back(data,
                                            data + param.private_data_len);
    }
    api_.ack_cm_event(event);
  }
}

void WireSide::TakeAsyncEvents() {
  ibv_async_event event;
  while (api_.get_async_event(context_, &event) == 0) {
    for (const auto& connection : connections_) {
      if (connection->qp != event.element.qp) continue;
      connection->async_events.push_back(event.event_type);
    }
    api_.ack_async_event(&event);
  }
}

void WireSide::Poll(WireConnection* connection) {
  if (connection->cq == nullptr) return;
  ibv_wc wc[8];
  int count;
  while ((count = ibv_poll_cq(connection->cq, 8, wc)) > 0) {
    for (int i = 0; i < count; ++i) {
      connection->completions.push_back(wc[i]);
      ++connection->completed[wc[i].wr_id];
    }
  }
}

void WireSide::Advance() {
  TakeCmEvents();
  for (const auto& connection : connections_) Poll(connection.get());
  TakeAsyncEvents();
}

bool WireSide::Until(const std::function<bool()>& done) {
  return Until(nullptr, done);
}

bool WireSide::Until(RawStream* raw, const std::function<bool()>& done) {
  const int64_t start = Clock::Real()->NowNanos();
  for (int round = 0;; ++round) {
    Advance();
    if (raw != nullptr) raw->Collect();
    if (done()) return true;
    if (Clock::Real()->NowNanos() - start > kPatience) return false;
    if (round < 16) continue;
    pollfd waits[] = {
        {channel_->fd, POLLIN, 0},
        {comp_channel_->fd, POLLIN, 0},
        {raw != nullptr && !raw->at_end() ? raw->fd() : -1, POLLIN, 0}};
    poll(waits, 3, 1);
  }
}

rdma_cm_id* WireSide::NextRequest() {
  if (requests_.empty()) return nullptr;
  rdma_cm_id* id = requests_.front();
  requests_.erase(requests_.begin());
  return id;
}

WireConnection* WireSide::NewConnection(rdma_cm_id* id,
                                        const WireQpOptions& options) {
  connections_.push_back(std::make_unique<WireConnection>());
  WireConnection* connection = connections_.back().get();
  connection->id = id;
  id->context = connection;
  const int entries = static_cast<int>(options.sends + options.receives);
  connection->cq = api_.create_cq(context_, entries, nullptr, comp_channel_, 0);
  SLUICE_CHECK(connection->cq != nullptr);
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = connection->cq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap.max_send_wr = options.sends;
  attr.cap.max_recv_wr = options.receives;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 4;
  if (options.is_own) {
    connection->qp = CreateQp(pd_, &attr);
  } else {
    SLUICE_CHECK(api_.create_qp(id, pd_, &attr) == 0);
    connection->qp = id->qp;
  }
  SLUICE_CHECK(connection->qp != nullptr);
  for (int i = 0; i < options.post; ++i) {
    PostReceive(connection, kReceiveId + static_cast<uint64_t>(i));
  }
  return connection;
}

bool WireSide::TryAccept(WireConnection* connection,
                         const WireQpOptions& options, const Bytes& data) {
  rdma_conn_param param = ParamOf(*connection, options, data);
  return api_.accept(connection->id, &param) == 0;
}

WireConnection* WireSide::Accept(rdma_cm_id* id, const WireQpOptions& options,
                                 const Bytes& data) {
  WireConnection* connection = NewConnection(id, options);
  SLUICE_CHECK(TryAccept(connection, options, data));
  return connection;
}

WireConnection* WireSide::Connect(uint16_t port, const WireQpOptions& options,
                                  const Bytes& data) {
  rdma_cm_id* id;
  SLUICE_CHECK(api_.create_id(channel_, &id, nullptr, RDMA_PS_TCP) == 0);
  sockaddr_in to = Loopback(port);
  SLUICE_CHECK(api_.resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to),
                                 1000) == 0);
  SLUICE_CHECK(api_.resolve_route(id, 1000) == 0);
  WireConnection* connection = NewConnection(id, options);
  rdma_conn_param param = ParamOf(*connection, options, data);
  SLUICE_CHECK(api_.connect(id, &param) == 0);
  return connection;
}

void WireSide::Destroy(WireConnection* connection) {
  if (connection->id->qp != nullptr) {
    api_.destroy_qp(connection->id);
  } else if (connection->qp != nullptr) {
    SLUICE_CHECK(DestroyQp(connection->qp) == 0);
  }
  SLUICE_CHECK(api_.destroy_id(connection->id) == 0);
  SLUICE_CHECK(api_.destroy_cq(connection->cq) == 0);
  std::erase_if(connections_, [connection](const auto& each) {
    return each.get() == connection;
  });
}

WireConnection* WireSide::Establish(RawStream* raw, bool crc,
                                    const WireQpOptions& options) {
  *raw = RawStream::Connect(port_);
  SLUICE_CHECK(raw->Send(MpaText({.crc = crc})));
  SLUICE_CHECK(Until([this] { return !requests_.empty(); }));
  WireConnection* connection = Accept(NextRequest(), options);
  Bytes reply;
  SLUICE_CHECK(Until(raw, [&] { return raw->TakeMpa(&reply); }));
  SLUICE_CHECK(
      Until([&] { return connection->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
  return connection;
}

void WireSide::PostReceive(WireConnection* connection, uint64_t wr_id,
                           uint32_t bytes) {
  const uint64_t place = wr_id % (GuardedRegion::kBytes / kReceiveBytes);
  ibv_sge sges[3] = {};
  const uint32_t pieces[3] = {std::min(bytes, 7u), 0,
                              bytes - std::min(bytes, 7u)};
  uint64_t address = local_->address() + place * kReceiveBytes;
  for (int i = 0; i < 3; ++i) {
    sges[i] = {address, pieces[i], local_->key()};
    address += pieces[i];
  }
  PostReceive(connection, wr_id, absl::MakeSpan(sges));
}

void WireSide::PostReceive(WireConnection* connection, uint64_t wr_id,
                           absl::Span<ibv_sge> sges) {
  ibv_recv_wr wr = {};
  wr.wr_id = wr_id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad;
  SLUICE_CHECK(ibv_post_recv(connection->qp, &wr, &bad) == 0);
  ++connection->posted[wr_id];
}

void WireSide::PostSend(WireConnection* connection, ibv_send_wr wr) {
  ibv_send_wr* bad;
  SLUICE_CHECK(ibv_post_send(connection->qp, &wr, &bad) == 0);
  ++connection->posted[wr.wr_id];
}

void WireSide::PostRead(WireConnection* connection, uint64_t wr_id,
                        uint32_t bytes) {
  ibv_sge sge = {sink_->address(), bytes, sink_->key()};
  ibv_send_wr wr = {};
  wr.wr_id = wr_id;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.sg_list = &sge;
  wr.num_sge = bytes > 0 ? 1 : 0;
  wr.wr.rdma.remote_addr = 0x1000;
  wr.wr.rdma.rkey = 0x77;
  PostSend(connection, wr);
}

bool WireSide::AreGuardsIntact() const {
  return writable_->IsUntouched(false) && readable_->IsUntouched(true) &&
         local_->IsUntouched(false) && sink_->IsUntouched(false) &&
         stranger_->IsUntouched(true) && gone_->IsUntouched(true);
}

bool WireSide::IsNothingWritten() const {
  return AreGuardsIntact() && writable_->IsUntouched(true) &&
         local_->IsUntouched(true) && sink_->IsUntouched(true);
}

}  // namespace sluice::iwarp
