// A stream of FPDUs as a peer may send it, to a queue pair that is attached to
// one end of a socket pair. The keys of registered regions can be named
// (iwarp_input.h). Whatever comes: no byte outside of what the peer may write
// changes, every work request completes once, and what goes out is in order.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>

#include "core/check.h"
#include "core/log.h"
#include "tests/fuzz/iwarp_input.h"
#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/device.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

constexpr int kReceives = 4;
constexpr uint32_t kReceiveBytes = 1000;
constexpr int kReads = 3;
constexpr uint32_t kReadBytes = 96;
constexpr uint32_t kDepth = 4;
constexpr size_t kPiecesMax = 200;
constexpr size_t kLargeRegion = size_t{128} * 1024;
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kAllRights =
    kLocalWrite | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// What all runs share.
struct World {
  World() {
    SetLogLevel(LogLevel::kError);
    Options& options = MutableOptions();
    options.receive_wait = absl::ZeroDuration();
    options.linger = absl::Seconds(5);
    context = Device::Get().shared_context()->verbs();
    SLUICE_CHECK(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    pd = AllocPd(context);
    other_pd = AllocPd(context);
    cq = CreateCq(context, 64, nullptr, nullptr, 0);
    SLUICE_CHECK(cq != nullptr);
  }

  // Regions as at the start: peers may have invalidated some. One is new in
  // each run, for it may go.
  void Renew() {
    regions[kFuzzMortal].reset();
    constexpr int kRemoteWrite = kLocalWrite | IBV_ACCESS_REMOTE_WRITE;
    Keep(kFuzzWritable, pd, kRemoteWrite, kLargeRegion);
    Keep(kFuzzReadable, pd, IBV_ACCESS_REMOTE_READ, 4096);
    Keep(kFuzzLocal, pd, kLocalWrite, 8192);
    Keep(kFuzzSink, pd, kLocalWrite, 4096);
    Keep(kFuzzStranger, other_pd, kAllRights, 4096);
    Keep(kFuzzMortal, pd, kAllRights, 4096);
  }

  // Those that no peer has rights to are there for ever.
  void Keep(uint32_t number, ibv_pd* owner, int access, size_t bytes) {
    std::unique_ptr<GuardedRegion>& region = regions[number];
    if (region != nullptr) {
      Mr* mr = Device::Get().memory.Pin(region->key());
      if (mr != nullptr) MrTable::Unpin(mr);
      if (mr != nullptr) return;
      SLUICE_CHECK(number == kFuzzWritable || number == kFuzzReadable);
    }
    region = std::make_unique<GuardedRegion>(owner, access, bytes);
  }

  ibv_context* context;
  ibv_pd* pd;
  ibv_pd* other_pd;
  ibv_cq* cq;
  std::array<std::unique_ptr<GuardedRegion>, kFuzzRegions> regions;
};

// Real keys and addresses for their marks.
void PutNames(const World& world, Bytes* bytes) {
  for (size_t at = 0; at + 4 <= bytes->size(); ++at) {
    const std::byte first = bytes->data()[at];
    if (first != std::byte{kKeyMark >> 24} &&
        first != std::byte{kAddressMark >> 24}) {
      continue;
    }
    const uint32_t mark = Read32(*bytes, at);
    const uint32_t number = mark & 0xffff;
    if (number >= kFuzzRegions) continue;
    Bytes name;
    if ((mark & 0xffff0000) == kKeyMark) {
      Append32(&name, world.regions[number]->key());
    } else if ((mark & 0xffff0000) == kAddressMark && at + 8 <= bytes->size()) {
      const auto offset = static_cast<int32_t>(Read32(*bytes, at + 4));
      Append64(&name, world.regions[number]->address() +
                          static_cast<uint64_t>(int64_t{offset}));
    } else {
      continue;
    }
    std::ranges::copy(name, bytes->begin() + static_cast<ptrdiff_t>(at));
    at += name.size() - 1;
  }
}

Bytes StreamOf(const World& world, const uint8_t* data, size_t size,
               uint8_t flags) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  if ((flags & kFuzzRecords) == 0) {
    Bytes stream(bytes, bytes + size);
    PutNames(world, &stream);
    return stream;
  }
  Bytes stream;
  for (size_t at = 0; at < size;) {
    size_t more = 0;
    if (data[at] == 0 && at + 2 < size) {
      more = size_t{data[at + 1]} * kFuzzMoreBytes;
      at += 2;
    }
    const size_t length = std::min<size_t>(data[at], size - at - 1);
    Bytes fpdu(2);
    fpdu.insert(fpdu.end(), bytes + at + 1, bytes + at + 1 + length);
    at += 1 + length;
    Write16(&fpdu, 0, static_cast<uint16_t>(length + more));
    PutNames(world, &fpdu);
    fpdu.resize(fpdu.size() + more);
    stream = std::move(stream) + Seal(std::move(fpdu), (flags & kFuzzCrc) != 0);
  }
  return stream;
}

class Run {
 public:
  Run(World* world, uint8_t flags) : world_(world), flags_(flags) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = world->cq;
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    attr.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 2,
                .max_recv_sge = 3,
                .max_inline_data = 0};
    qp_ = CreateQp(world->pd, &attr);
    SLUICE_CHECK(qp_ != nullptr);
    if ((flags & kFuzzNoReceives) == 0) PostReceives();
    int fds[2];
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                            0, fds) == 0);
    peer_ = RawStream(fds[1]);
    StreamOptions options;
    options.passive = (flags & kFuzzPassive) != 0;
    options.crc = (flags & kFuzzCrc) != 0;
    options.ird = options.ord = kDepth;
    SLUICE_CHECK(AttachStream(Qp::From(qp_), fds[0], options));
    if ((flags & kFuzzReads) != 0) {
      for (int i = 0; i < kReads; ++i) PostSendOf(IBV_WR_RDMA_READ, kFuzzSink);
    }
    if ((flags & kFuzzSends) != 0) {
      PostSendOf(IBV_WR_SEND, kFuzzMortal);
      PostSendOf(IBV_WR_RDMA_WRITE, kFuzzMortal);
    }
    Advance();
  }

  void Feed(const Bytes& stream, size_t piece) {
    if (piece == 0) piece = std::max<size_t>(stream.size(), 1);
    piece = std::max(piece, stream.size() / kPiecesMax);
    bool half = false;
    for (size_t at = 0; at < stream.size();) {
      const size_t end = std::min(at + piece, stream.size());
      const Bytes part(stream.begin() + static_cast<ptrdiff_t>(at),
                       stream.begin() + static_cast<ptrdiff_t>(end));
      const ssize_t sent = peer_.SendSome(part, 0);
      Advance();
      if (sent <= 0) break;  // full, and not read any more; or closed
      at += static_cast<size_t>(sent);
      if (half || at < stream.size() / 2) continue;
      half = true;
      if ((flags_ & kFuzzDeregister) != 0) {
        world_->regions[kFuzzMortal]->Deregister();
        gone_ = world_->regions[kFuzzMortal]->Copy(0, 4096);
      }
      if ((flags_ & kFuzzNoReceives) != 0) PostReceives();
    }
  }

  void End() {
    if ((flags_ & kFuzzDisconnect) != 0) {
      ibv_qp_attr attr = {};
      attr.qp_state = IBV_QPS_SQD;
      SLUICE_CHECK(ModifyQp(qp_, &attr, IBV_QP_STATE) == 0);
      Advance();
    }
    peer_.Finish();
    Advance();
    // All is over: what was posted has completed, each once.
    SLUICE_CHECK(posted_ == completed_);
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    SLUICE_CHECK(QueryQp(qp_, &attr, IBV_QP_STATE, &init) == 0);
    SLUICE_CHECK(attr.qp_state == IBV_QPS_ERR);
    CheckOutput();
    CheckMemory();
    ibv_async_event event;
    int events = 0;
    while (GetAsyncEvent(world_->context, &event) == 0) {
      AckAsyncEvent(&event);
      ++events;
    }
    SLUICE_CHECK(events <= 1);
    SLUICE_CHECK(DestroyQp(qp_) == 0);
  }

 private:
  void PostReceives() {
    const GuardedRegion& region = *world_->regions[kFuzzLocal];
    for (uint64_t i = 0; i < kReceives; ++i) {
      const uint64_t address = region.address() + i * kReceiveBytes;
      ibv_sge sges[3] = {{address, 3, region.key()},
                         {address + 3, 0, region.key()},
                         {address + 3, kReceiveBytes - 3, region.key()}};
      ibv_recv_wr wr = {};
      wr.wr_id = ++next_id_;
      wr.sg_list = sges;
      wr.num_sge = 3;
      ibv_recv_wr* bad;
      SLUICE_CHECK(PostRecv(qp_, &wr, &bad) == 0);
      ++posted_[wr.wr_id];
    }
  }

  void PostSendOf(ibv_wr_opcode opcode, uint32_t number) {
    const GuardedRegion& region = *world_->regions[number];
    ibv_sge sge = {region.address(), kReadBytes, region.key()};
    ibv_send_wr wr = {};
    wr.wr_id = ++next_id_;
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = 0x1000;
    wr.wr.rdma.rkey = 0x77;
    ibv_send_wr* bad;
    SLUICE_CHECK(PostSend(qp_, &wr, &bad) == 0);
    ++posted_[wr.wr_id];
  }

  void Advance() {
    for (int i = 0; i < 2; ++i) {
      ibv_wc wc[16];
      int count;
      while ((count = PollCq(world_->cq, 16, wc)) > 0) {
        for (int j = 0; j < count; ++j) {
          SLUICE_CHECK(wc[j].qp_num == qp_->qp_num);
          ++completed_[wc[j].wr_id];
        }
      }
      SLUICE_CHECK(count == 0);
      peer_.Collect();
    }
  }

  // FPDUs one after the other, a Terminate last if there is one. Where the
  // stream was cut there may be less than one.
  void CheckOutput() {
    Bytes fpdu;
    bool terminated = false;
    while (peer_.TakeFpdu(&fpdu)) {
      SLUICE_CHECK(!terminated);
      SLUICE_CHECK(Read16(fpdu, 0) >= 14);
      SLUICE_CHECK((ControlOf(fpdu) & 0x3ff0) == 0x0140);
      SLUICE_CHECK(OpcodeOf(fpdu) <= 7);
      SLUICE_CHECK(IsSealed(fpdu, (flags_ & kFuzzCrc) != 0));
      terminated = OpcodeOf(fpdu) == 7;
    }
  }

  void CheckMemory() {
    for (uint32_t number = 0; number < kFuzzRegions; ++number) {
      const bool fixed = number == kFuzzReadable || number == kFuzzStranger;
      SLUICE_CHECK(world_->regions[number]->IsUntouched(fixed));
    }
    if (!gone_.empty()) {
      SLUICE_CHECK(world_->regions[kFuzzMortal]->Copy(0, 4096) == gone_);
    }
  }

  World* const world_;
  const uint8_t flags_;
  ibv_qp* qp_;
  RawStream peer_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, int> posted_;
  std::map<uint64_t, int> completed_;
  Bytes gone_;  // what was in the region that went
};

}  // namespace
}  // namespace sluice::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::iwarp;  // NOLINT: the entry point has no namespace
  static auto* world = new World;
  if (size < 2) return 0;
  world->Renew();
  Run run(world, data[0]);
  run.Feed(StreamOf(*world, data + 2, size - 2, data[0]), data[1]);
  run.End();
  return 0;
}
