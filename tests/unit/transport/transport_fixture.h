// A target's side of connections on the fake provider, on a reactor moved by
// hand, with raw hosts in the same thread.
//
//   Transport t;                       // one device
//   Connection c(&t);                  // a host, connected to a QueuePair
//   c.host.Send(Read(c, 0, 4, 4096));  // cid 0: four pieces of 4 KiB
//   t.Settle();
//   EXPECT_EQ(c.host.responses.size(), 1U);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/task.h"
#include "nvme/sqe.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/test_reactor.h"
#include "tests/unit/support/fake_pair.h"
#include "transport/cm_channel.h"
#include "transport/cq_engine.h"
#include "transport/extent_pool.h"
#include "transport/local_device.h"
#include "transport/queue_pair.h"

namespace sluice::transport {

// What the host's buffer is used for.
inline constexpr size_t kDataBytes = 65536;
inline constexpr size_t kCapsulesAt = kDataBytes;
inline constexpr size_t kResponsesAt = kDataBytes + 65536;

// The test's own commands: how many pieces of what size, and where.
enum Opcode : uint8_t { kNothing = 0, kToTarget = 1, kToHost = 2 };

inline std::byte PatternByte(uint16_t cid, size_t i) {
  return static_cast<std::byte>(7 * cid + 13 * (i / 512) + i + 1);
}

struct TransportOptions {
  FakeDeviceOptions device;
  LocalDeviceOptions local;
  CqEngineOptions engine;
  bool arms_last = false;  // ReactorOptions
  size_t pool_bytes = size_t{4} << 20;
};

// Takes connection requests.
class RequestSink final : public CmSink {
 public:
  void OnCmEvent(const rdma_cm_event& event) override {
    if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
    event.id->context = nullptr;
    id = event.id;
  }
  rdma_cm_id* id = nullptr;
};

class Transport {
 public:
  explicit Transport(const TransportOptions& options = {},
                     bool with_device = true)
      : fabric(std::vector<FakeDeviceOptions>{options.device}),
        reactor(TestClock::kFake, ReactorOptionsOf(options)),
        options_(options) {
    engine = std::make_unique<CqEngine>(reactor.get(), options_.engine);
    pool = *ExtentPool::Create(reactor.get(), options.pool_bytes);
    channel = *CmChannel::Create(reactor.get(), api());
    EXPECT_EQ(api().create_id(channel->channel(), &listener,
                              static_cast<CmSink*>(&sink), RDMA_PS_TCP),
              0);
    sockaddr_in address = V4("127.0.0.1", 0);
    EXPECT_EQ(api().bind_addr(listener, Raw(address)), 0);
    EXPECT_EQ(api().listen(listener, 16), 0);
    if (!with_device) return;
    EXPECT_TRUE(AddDevice().ok());
  }
  ~Transport() {
    device.reset();
    if (listener != nullptr) api().destroy_id(listener);
    channel.reset();
    pool.reset();
    engine.reset();
    reactor.RunReady();
  }

  const VerbsApi& api() const { return fabric.api(); }
  FakeFaults& faults() { return fabric.faults(); }
  ibv_context* context() const { return fabric.context("fake0"); }

  absl::Status AddDevice() {
    auto traits = QueryTraits(api(), context());
    if (!traits.ok()) return traits.status();
    auto made = LocalDevice::Create(engine.get(), api(), context(), *traits,
                                    pool.get(), options_.local);
    if (!made.ok()) return made.status();
    device = *std::move(made);
    return absl::OkStatus();
  }
  // Ticks until nothing moves, through the arming too.
  void Settle() {
    for (int i = 0; i < 4; ++i) {
      reactor.RunReady();
      reactor->Sleep(absl::ZeroDuration());
    }
    reactor.RunReady();
  }

  FakeFabric fabric;
  TestReactor reactor;
  std::unique_ptr<CqEngine> engine;
  std::unique_ptr<ExtentPool> pool;
  std::unique_ptr<CmChannel> channel;
  RequestSink sink;
  rdma_cm_id* listener = nullptr;
  std::unique_ptr<LocalDevice> device;

 private:
  static ReactorOptions ReactorOptionsOf(const TransportOptions& options) {
    ReactorOptions reactor;
    reactor.arms_last = options.arms_last;
    return reactor;
  }

  const TransportOptions options_;
};

struct HostResponse {
  nvme::Cqe cqe;
  uint32_t invalidated_key = 0;
};

// A raw peer. Polls when told to.
class Host {
 public:
  Host(Transport* transport, const FakePairOptions& options)
      : api(transport->api()), events(api.create_event_channel()) {
    node.buffer.resize(kResponsesAt + 65536);
    SetNonblocking(events->fd);
    sockaddr_in address = V4("127.0.0.1", 0);
    address.sin_port = api.get_src_port(transport->listener);
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(api.create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(api.resolve_addr(id, nullptr, Raw(address), 1000), 0);
    TakeEvent(api, events, RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(api.resolve_route(id, 1000), 0);
    TakeEvent(api, events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    node.Make(&transport->fabric, id, options);
    rdma_conn_param param = {};
    param.initiator_depth = options.read_depth;
    param.responder_resources = options.read_depth;
    param.rnr_retry_count = options.rnr_retry;
    EXPECT_EQ(api.connect(id, &param), 0);
  }
  ~Host() {
    Vanish();
    node.Destroy();
    EXPECT_EQ(api.destroy_id(node.id), 0);
    api.destroy_event_channel(events);
  }
  Host(const Host&) = delete;

  // As when its machine dies: the queue pair is gone without a word.
  void Vanish() {
    if (node.id->qp != nullptr) api.destroy_qp(node.id);
  }
  bool alive() const { return node.id->qp != nullptr; }

  // The command goes out; its cid is below 512.
  void Send(const nvme::Sqe& sqe, uint32_t extra_bytes = 0) {
    const size_t at = kCapsulesAt + size_t{sqe.cid} * 128;
    nvme::WriteSqe(
        sqe, absl::MakeSpan(reinterpret_cast<std::byte*>(&node.buffer[at]),
                            nvme::kSqeBytes));
    EXPECT_EQ(node.PostRecv(sqe.cid, kResponsesAt + size_t{sqe.cid} * 16, 16),
              0);
    const unsigned flags =
        solicits ? IBV_SEND_SIGNALED | IBV_SEND_SOLICITED : IBV_SEND_SIGNALED;
    EXPECT_EQ(node.PostSend(sqe.cid, IBV_WR_SEND, flags, at, 64 + extra_bytes),
              0);
  }
  void Poll() {
    for (const ibv_wc& wc : sluice::Poll(node.send_cq)) {
      if (wc.status != IBV_WC_SUCCESS) ++errors;
    }
    for (const ibv_wc& wc : sluice::Poll(node.recv_cq)) {
      if (wc.status != IBV_WC_SUCCESS) {
        ++errors;
        continue;
      }
      HostResponse response;
      response.cqe = nvme::ReadCqe(
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(
                                  &node.buffer[kResponsesAt + wc.wr_id * 16]),
                              nvme::kCqeBytes));
      if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) {
        response.invalidated_key = wc.invalidated_rkey;
      }
      responses.push_back(response);
    }
  }
  bool HoldsPattern(uint16_t cid, size_t bytes) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (static_cast<std::byte>(node.buffer[i]) != PatternByte(cid, i)) {
        return false;
      }
    }
    return true;
  }
  void FillPattern(uint16_t cid, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      node.buffer[i] = static_cast<char>(PatternByte(cid, i));
    }
  }

  const VerbsApi& api;
  rdma_event_channel* events;
  FakeNode node;
  std::vector<HostResponse> responses;
  int errors = 0;
  bool solicits = false;  // marks its commands
};

// The target's queue, in small: serves the test's commands.
class Server final : public CapsuleHandler {
 public:
  void OnCommand(CommandContext* command) override {
    ++commands;
    if (hold) {
      held.push_back(command);
    } else {
      scope.Spawn(Serve(this, command));
    }
  }
  void OnDown(const char* reason) override {
    ++downs;
    why = reason;
  }
  void ServeHeld() {
    hold = false;
    for (CommandContext* command : std::exchange(held, {})) {
      scope.Spawn(Serve(this, command));
    }
  }
  void ReleaseHeld() {
    for (CommandContext* command : std::exchange(held, {})) {
      command->qp->Release(command);
    }
  }

  static Task<void> Serve(Server* self, CommandContext* command) {
    QueuePair* qp = command->qp;
    const nvme::Sqe sqe = command->sqe;
    std::vector<nvme::KeyedDescriptor> remote(sqe.cdw10);
    for (uint32_t i = 0; i < sqe.cdw10; ++i) {
      remote[i].address = sqe.mptr + uint64_t{i} * sqe.cdw11;
      remote[i].length_bytes = sqe.cdw11;
      remote[i].key = sqe.cdw12;
    }
    const uint32_t bytes = sqe.cdw10 * sqe.cdw11;
    const bool in_place = sqe.opcode == kToHost && !self->lent.empty();
    Extent extent;
    if (in_place) {
      extent.data = self->lent.data();
      extent.bytes = static_cast<uint32_t>(self->lent.size());
    } else if (bytes > 0) {
      auto request = qp->extents()->Take(bytes);
      extent = co_await request;
    }
    bool ok = true;
    if (sqe.opcode == kToTarget) {
      ok = co_await qp->ReadRemote(remote, extent);
      for (uint32_t i = 0; ok && i < bytes; ++i) {
        if (extent.data[i] != PatternByte(sqe.cid, i)) ++self->bad_bytes;
      }
    } else {
      for (uint32_t i = 0; i < bytes; ++i) {
        extent.data[i] = PatternByte(sqe.cid, i);
      }
    }
    nvme::Cqe cqe;
    cqe.cid = sqe.cid;
    const uint32_t written = sqe.opcode == kToHost ? bytes : 0;
    if (ok) {
      ok =
          co_await qp->Respond(command, cqe, remote, extent, written, sqe.cdw13,
                               self->silent && (written == 0 || in_place));
    }
    ++(ok ? self->answered : self->failed);
    if (bytes > 0 && !in_place) {
      // Who still reads it now reads it too late.
      std::memset(extent.data, 0xEE, bytes);
      qp->extents()->Give(extent);
    }
    qp->Release(command);
  }

  bool hold = false;
  bool silent = false;  // responses with nothing to give back may be
  // Registered; what goes to the host is in it, and stays.
  absl::Span<std::byte> lent;
  std::vector<CommandContext*> held;
  Scope scope;
  uint64_t commands = 0;
  uint64_t answered = 0;
  uint64_t failed = 0;
  uint64_t bad_bytes = 0;
  int downs = 0;
  std::string why;
};

struct ConnectionOptions {
  QueuePairOptions qp{.depth = 16,
                      .cq_depth_factor = 4,
                      .in_capsule_bytes = 4096,
                      .read_depth = 4};
  FakePairOptions host{
      .cqe = 4096, .max_send_wr = 1024, .max_recv_wr = 1024, .read_depth = 4};
};

class Connection {
 public:
  explicit Connection(Transport* transport,
                      const ConnectionOptions& options = {}, bool accept = true)
      : t(transport), host(transport, options.host) {
    EXPECT_TRUE(t->reactor.RunUntil([this] { return t->sink.id != nullptr; }));
    rdma_cm_id* id = std::exchange(t->sink.id, nullptr);
    auto made =
        QueuePair::Create(t->engine.get(), t->device.get(), id, options.qp);
    status = made.status();
    if (!made.ok()) {
      t->api().reject(id, nullptr, 0);
      t->api().destroy_id(id);
      return;
    }
    qp = *std::move(made);
    id->context = static_cast<CmSink*>(qp.get());
    qp->set_handler(&server);
    if (accept) Accept();
  }
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;

  void Accept() {
    qp->Accept();
    t->Settle();
    if (qp->up()) TakeEvent(host.api, host.events, RDMA_CM_EVENT_ESTABLISHED);
  }
  // The end in order. True when every work request was accounted for.
  bool Close() {
    if (qp == nullptr) return true;
    qp->Break("the test ends");
    bool drained = false;
    bool closed = false;
    server.ReleaseHeld();
    Scope closing;
    closing.Spawn(CloseTask(this, &drained, &closed));
    t->Settle();
    for (int i = 0; i < 10 && !closed; ++i) {
      t->reactor.Advance(absl::Seconds(1));
      t->Settle();
    }
    EXPECT_TRUE(closed);
    qp.reset();
    return drained;
  }

  nvme::Sqe Command(uint8_t opcode, uint16_t cid, uint32_t pieces = 0,
                    uint32_t piece_bytes = 0) const {
    nvme::Sqe sqe;
    sqe.opcode = opcode;
    sqe.cid = cid;
    sqe.mptr = host.node.Address(0);
    sqe.cdw10 = pieces;
    sqe.cdw11 = piece_bytes;
    sqe.cdw12 = host.node.mr->rkey;
    return sqe;
  }
  // Moves both sides until `count` responses have come in all.
  bool RunUntilAnswered(size_t count) {
    return t->reactor.RunUntil(
        [this, count] {
          host.Poll();
          return host.responses.size() >= count;
        },
        20'000);
  }

  Transport* const t;
  Host host;
  Server server;
  absl::Status status;
  std::unique_ptr<QueuePair> qp;

 private:
  static Task<void> CloseTask(Connection* self, bool* drained, bool* closed) {
    *drained = co_await self->qp->Drained(absl::Seconds(2));
    self->qp->Destroy();
    co_await self->server.scope.Close();
    *closed = true;
  }
};

}  // namespace sluice::transport
