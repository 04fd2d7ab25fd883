// The byte stream as TCP may deliver it, and as a peer may mistreat it: cut
// anywhere, ended anywhere, never read, never answered.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "core/clock.h"
#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {
namespace {

constexpr uint64_t kReceive = WireSide::kReceiveId;

Bytes Piece(const Bytes& bytes, size_t from, size_t count) {
  const auto start = bytes.begin() + static_cast<std::ptrdiff_t>(from);
  return Bytes(start, start + static_cast<std::ptrdiff_t>(count));
}

Bytes Pattern(size_t bytes) {
  Bytes pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    pattern[i] = static_cast<std::byte>(i * 31 + i / 253);
  }
  return pattern;
}

class WireStream : public testing::TestWithParam<bool> {
 protected:
  ~WireStream() override { MutableOptions() = Options(); }

  bool crc() const { return GetParam(); }
  Bytes Sealed(Bytes fpdu) const { return Seal(std::move(fpdu), crc()); }

  // A little of everything that is allowed.
  Bytes Traffic() {
    GuardedRegion& to = side_.writable();
    return Sealed(Tagged(kWriteLast, to.key(), to.address(), Pattern(9))) +
           Sealed(Untagged(kSendLast, 0, 0, 1, 0, Pattern(5))) +
           Sealed(Untagged(kSendLast & ~kLastBit, 0, 0, 2, 0,
                           Piece(Pattern(100), 0, 60))) +
           Sealed(
               Untagged(kSendLast, 0, 0, 2, 60, Piece(Pattern(100), 60, 40))) +
           Sealed(ReadRequest({.sink_stag = 5,
                               .sink_to = 6,
                               .bytes = 16,
                               .source_stag = side_.readable().key(),
                               .source_to = side_.readable().address()})) +
           Sealed(Tagged(kWriteLast, 0, 0)) +
           Sealed(Untagged(kSendSolicitedLast, 0, 0, 3, 0, Pattern(3))) +
           Sealed(
               Tagged(kWriteLast, to.key(), to.address() + 100, Pattern(50)));
  }

  void Clear() {
    for (GuardedRegion* region : {&side_.writable(), &side_.local()}) {
      std::memset(region->data(), 0, region->size());
    }
  }

  void ExpectTraffic(RawStream* raw, WireConnection* connection) {
    GuardedRegion& to = side_.writable();
    ASSERT_TRUE(side_.Until(raw, [&] {
      return connection->completions.size() == 3 &&
             to.Copy(100, 50) == Pattern(50);
    }));
    const uint32_t bytes[] = {5, 100, 3};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(connection->completions[i].wr_id, kReceive + i);
      EXPECT_EQ(connection->completions[i].status, IBV_WC_SUCCESS);
      EXPECT_EQ(connection->completions[i].byte_len, bytes[i]);
      const uint64_t place =
          (kReceive + i) % (GuardedRegion::kBytes / WireSide::kReceiveBytes);
      EXPECT_EQ(side_.local().Copy(place * WireSide::kReceiveBytes, bytes[i]),
                Pattern(bytes[i]));
    }
    EXPECT_EQ(to.Copy(0, 9), Pattern(9));
    Bytes response;
    ASSERT_TRUE(side_.Until(raw, [&] { return raw->TakeFpdu(&response); }));
    EXPECT_EQ(response, Sealed(Tagged(kReadResponseLast, 5, 6,
                                      side_.readable().Copy(0, 16))));
    EXPECT_EQ(raw->collected().size(), 0U);
    EXPECT_TRUE(side_.AreGuardsIntact());
  }

  void ExpectDown(WireConnection* connection) {
    EXPECT_TRUE(side_.Until([&] {
      return connection->IsDrained() &&
             connection->Saw(RDMA_CM_EVENT_DISCONNECTED);
    }));
  }

  void PostSendOf(WireConnection* connection, uint64_t wr_id,
                  const GuardedRegion& region, uint32_t key) {
    ibv_sge sge = {region.address(), static_cast<uint32_t>(region.size()), key};
    ibv_send_wr wr = {};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    side_.PostSend(connection, wr);
  }

  WireSide side_;
};

TEST_P(WireStream, MayBeCutAnywhere) {
  const Bytes text = Traffic();
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    SCOPED_TRACE(cut);
    Clear();
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, crc());

    ASSERT_TRUE(raw.Send(Piece(text, 0, cut)));
    side_.Advance();
    ASSERT_TRUE(raw.Send(Piece(text, cut, text.size() - cut)));

    ExpectTraffic(&raw, connection);
    side_.Destroy(connection);
  }
}

TEST_P(WireStream, MayComeByteByByte) {
  Clear();
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc());

  for (const std::byte each : Traffic()) {
    ASSERT_TRUE(raw.Send({each}));
    side_.Advance();
  }

  ExpectTraffic(&raw, connection);
}

TEST_P(WireStream, MayEndAnywhere) {
  const Bytes text = Traffic();
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    SCOPED_TRACE(cut);
    for (const bool reset : {false, true}) {
      RawStream raw;
      WireConnection* connection = side_.Establish(&raw, crc());
      ASSERT_TRUE(raw.Send(Piece(text, 0, cut)));
      if (cut % 2 == 0) side_.Advance();
      if (reset) {
        raw.Reset();
      } else {
        raw.Finish();
      }
      ExpectDown(connection);
      // What was not whole has not happened.
      const auto received = std::ranges::count(connection->completions,
                                               IBV_WC_SUCCESS, &ibv_wc::status);
      EXPECT_LE(received, 3);
      if (cut < 30) {
        EXPECT_EQ(received, 0);
      }
      EXPECT_TRUE(side_.AreGuardsIntact());
      side_.Destroy(connection);
    }
  }
}

// Payloads that are read to where they belong, in pieces of any size.
TEST_P(WireStream, LargePayloadsMayBeCutAnywhere) {
  constexpr size_t kBytes = 60000;
  GuardedRegion region(
      side_.pd(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 2 * kBytes);
  const Bytes payload = Pattern(kBytes);
  for (const size_t piece : {size_t{61}, size_t{1448}, size_t{16384},
                             size_t{16385}, size_t{50000}, size_t{200000}}) {
    SCOPED_TRACE(piece);
    std::memset(region.data(), 0, region.size());
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
    ibv_sge sges[4] = {
        {region.address() + kBytes, 1, region.key()},
        {region.address() + kBytes + 1, 30001, region.key()},
        {region.address(), 0, region.key()},
        {region.address() + kBytes + 30002, kBytes - 30002, region.key()}};
    side_.PostReceive(connection, kReceive, absl::MakeSpan(sges));
    const Bytes text =
        Sealed(Tagged(kWriteLast, region.key(), region.address(), payload)) +
        Sealed(Untagged(kSendLast, 0, 0, 1, 0, payload));

    size_t sent = 0;
    ASSERT_TRUE(side_.Until(&raw, [&] {
      if (sent < text.size()) {
        const ssize_t taken = raw.SendSome(
            Piece(text, sent, std::min(piece, text.size() - sent)), 0);
        if (taken > 0) sent += static_cast<size_t>(taken);
      }
      return connection->completions.size() == 1;
    }));

    EXPECT_EQ(connection->completions[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(connection->completions[0].byte_len, kBytes);
    EXPECT_EQ(region.Copy(0, kBytes), payload);
    EXPECT_EQ(region.Copy(kBytes, kBytes), payload);
    EXPECT_TRUE(region.IsUntouched(false));
    side_.Destroy(connection);
  }
}

// The region goes while its WRITE comes in: no byte is written after that.
TEST_P(WireStream, ARegionMayGoInAWrite) {
  constexpr size_t kBytes = 60000;
  for (const size_t cut : {size_t{16}, size_t{17}, size_t{100}, size_t{30000},
                           size_t{59000}, size_t{60015}}) {
    SCOPED_TRACE(cut);
    GuardedRegion region(
        side_.pd(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, kBytes);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, crc());
    const Bytes text = Sealed(
        Tagged(kWriteLast, region.key(), region.address(), Bytes(kBytes)));
    ASSERT_TRUE(raw.Send(Piece(text, 0, cut)));
    side_.Advance();
    region.Deregister();
    std::memset(region.data(), 0x3c, region.size());

    ASSERT_TRUE(raw.Send(Piece(text, cut, text.size() - cut)));

    ExpectDown(connection);
    EXPECT_TRUE(connection->SawAsync(IBV_EVENT_QP_ACCESS_ERR));
    EXPECT_TRUE(region.IsUntouched(true));
    side_.Destroy(connection);
  }
}

// --- receives that are late ---

TEST_P(WireStream, ASendWaitsForItsReceive) {
  MutableOptions().receive_wait = absl::Seconds(30);
  Clear();
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
  RawStream other_raw;
  WireConnection* other = side_.Establish(&other_raw, crc());
  ASSERT_TRUE(raw.Send(Traffic()));
  for (int i = 0; i < 10; ++i) side_.Advance();
  EXPECT_EQ(connection->completions.size(), 0U);
  // Others do not wait with it.
  ASSERT_TRUE(other_raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0))));
  ASSERT_TRUE(side_.Until([&] { return other->completions.size() == 1; }));

  for (uint64_t i = 0; i < 3; ++i) {
    side_.PostReceive(connection, kReceive + i);
    ASSERT_TRUE(
        side_.Until([&] { return connection->completions.size() == i + 1; }));
  }

  ExpectTraffic(&raw, connection);
}

TEST_P(WireStream, ASendDoesNotWaitForEver) {
  MutableOptions().receive_wait = absl::Milliseconds(30);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});

  ASSERT_TRUE(raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)))));

  Bytes terminate;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&terminate); }));
  EXPECT_EQ(terminate[20], std::byte{0x12});
  EXPECT_EQ(terminate[21], std::byte{2});
  ExpectDown(connection);
  EXPECT_TRUE(connection->SawAsync(IBV_EVENT_QP_REQ_ERR));
}

TEST_P(WireStream, ASendMayWaitForEver) {
  MutableOptions().receive_wait = absl::InfiniteDuration();
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
  ASSERT_TRUE(raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)))));
  for (int i = 0; i < 10; ++i) side_.Advance();
  EXPECT_FALSE(connection->Saw(RDMA_CM_EVENT_DISCONNECTED));

  side_.PostReceive(connection, kReceive);

  ASSERT_TRUE(side_.Until([&] { return connection->IsDrained(); }));
  EXPECT_EQ(connection->Find(kReceive)->status, IBV_WC_SUCCESS);
}

TEST_P(WireStream, WhatWaitsIsNotReadAhead) {
  MutableOptions().receive_wait = absl::Seconds(30);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
  const Bytes send = Sealed(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)));
  Bytes more;
  while (more.size() < 65536) more = std::move(more) + send;
  // TCP's buffers fill up, and then it stops.
  size_t total = 0;
  int full = 0;
  while (full < 50 && total < (size_t{64} << 20)) {
    const ssize_t taken = raw.SendSome(more, 0);
    ASSERT_GE(taken, 0);
    full = taken == 0 ? full + 1 : 0;
    total += static_cast<size_t>(taken);
    side_.Advance();
  }
  EXPECT_LT(total, size_t{64} << 20);
  EXPECT_EQ(connection->completions.size(), 0U);

  side_.api().disconnect(connection->id);
  raw.Close();
  ExpectDown(connection);
}

TEST_P(WireStream, AWaitEndsWithTheConnection) {
  MutableOptions().receive_wait = absl::Milliseconds(100);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
  ASSERT_TRUE(raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)))));
  for (int i = 0; i < 4; ++i) side_.Advance();

  raw.Reset();

  ExpectDown(connection);
}

// --- a peer that does not read ---

class Unread : public WireStream {
 protected:
  static constexpr size_t kRegion = size_t{1} << 20;
  static constexpr uint32_t kReads = 16;

  // Asks for more than what TCP's buffers hold, and reads nothing of it.
  void AskForMuch() {
    connection_ = side_.Establish(&raw_, crc());
    Bytes text;
    for (uint32_t i = 0; i < kReads; ++i) {
      text = std::move(text) +
             Sealed(ReadRequest({.msn = i + 1,
                                 .sink_to = i * kRegion,
                                 .bytes = kRegion,
                                 .source_stag = region_.key(),
                                 .source_to = region_.address()}));
    }
    ASSERT_TRUE(raw_.Send(text));
    for (int i = 0; i < 100; ++i) side_.Advance();
  }

  GuardedRegion region_{
      side_.pd(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, kRegion};
  RawStream raw_;
  WireConnection* connection_ = nullptr;
};

TEST_P(Unread, AnswersComeWhenItReads) {
  const Bytes pattern = Pattern(kRegion);
  std::memcpy(region_.data(), pattern.data(), kRegion);
  AskForMuch();

  size_t got = 0;
  ASSERT_TRUE(side_.Until(&raw_, [&] {
    Bytes fpdu;
    while (raw_.TakeFpdu(&fpdu)) {
      EXPECT_EQ(OpcodeOf(fpdu), 2);
      EXPECT_TRUE(IsSealed(fpdu, crc()));
      EXPECT_EQ(Read64(fpdu, 8), got);
      const Bytes payload = PayloadOf(fpdu, 16);
      EXPECT_EQ(payload, Piece(pattern, got % kRegion, payload.size()));
      got += payload.size();
    }
    return got == kReads * kRegion || testing::Test::HasFailure();
  }));
  ASSERT_TRUE(raw_.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0))));
  EXPECT_TRUE(
      side_.Until([&] { return connection_->completions.size() == 1; }));
}

TEST_P(Unread, DisconnectEndsIt) {
  MutableOptions().linger = absl::Milliseconds(50);
  AskForMuch();

  side_.api().disconnect(connection_->id);

  ExpectDown(connection_);
}

TEST_P(Unread, DestroyingEndsIt) {
  AskForMuch();
  for (uint64_t i = 0; i < 8; ++i) {
    PostSendOf(connection_, i, region_, region_.key());
  }
  side_.Destroy(connection_);
}

TEST_P(Unread, AFaultEndsIt) {
  MutableOptions().linger = absl::Milliseconds(50);
  AskForMuch();
  for (uint64_t i = 0; i < 8; ++i) {
    PostSendOf(connection_, i, region_, region_.key());
  }

  ASSERT_TRUE(raw_.Send(Sealed(Untagged(kSendLast, 0, 0, 9, 0))));

  ExpectDown(connection_);
}

TEST_P(Unread, ItsRegionMayGo) {
  MutableOptions().linger = absl::Milliseconds(50);
  AskForMuch();
  region_.Deregister();
  std::memset(region_.data(), 0x77, kRegion);

  // What is left is not sent any more: no byte of after the deregistration.
  ASSERT_TRUE(side_.Until(&raw_, [&] { return raw_.at_end(); }));
  EXPECT_TRUE(std::ranges::search(raw_.collected(), Bytes(16, std::byte{0x77}))
                  .empty());
  ExpectDown(connection_);
}

// Work requests count in 32 bits, and go round.
TEST_P(WireStream, NoReadIsTakenForAnother) {
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc());
  {
    Qp* qp = Qp::From(connection->qp);
    const GroupLock lock(qp->group.get());
    qp->sends.head = qp->sends.next = qp->sends.tail = UINT32_MAX - 1;
  }
  ASSERT_TRUE(raw.Send(Sealed(Tagged(kWriteLast, 0, 0))));
  for (uint64_t i = 0; i < 4; ++i) side_.PostRead(connection, i, 64);
  for (int i = 0; i < 4; ++i) {
    Bytes request;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&request); }));
    ASSERT_TRUE(raw.Send(Sealed(Tagged(kReadResponseLast, side_.sink().key(),
                                       side_.sink().address(), Bytes(64)))));
  }

  ASSERT_TRUE(side_.Until([&] { return connection->completions.size() == 4; }));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(connection->completions[i].wr_id, i);
    EXPECT_EQ(connection->completions[i].status, IBV_WC_SUCCESS);
  }
}

// A receive of more than a message can have: its end is not passed by one whose
// offsets go round.
TEST_P(WireStream, AMessageHas32Bits) {
  constexpr uint32_t kHalf = 0xa0000000;
  constexpr uint32_t kNearlyAll = 0xfffffff8;
  void* memory = mmap(nullptr, size_t{2} * kHalf, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ibv_mr* mr = side_.api().reg_mr(side_.pd(), memory, size_t{2} * kHalf,
                                  IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc(), {.post = 0});
  const auto address = reinterpret_cast<uint64_t>(memory);
  ibv_sge sges[2] = {{address, kHalf, mr->lkey},
                     {address + kHalf, kHalf, mr->lkey}};
  side_.PostReceive(connection, kReceive, absl::MakeSpan(sges));
  Qp* qp = Qp::From(connection->qp);
  ASSERT_TRUE(
      raw.Send(Sealed(Untagged(kSendLast & ~kLastBit, 0, 0, 1, 0, Bytes(8)))));
  ASSERT_TRUE(side_.Until([qp] {
    const GroupLock lock(qp->group.get());
    return qp->rx.message_bytes == 8;
  }));
  {
    // As if the rest had come.
    const GroupLock lock(qp->group.get());
    qp->rx.message_bytes = kNearlyAll;
    qp->rx.sge_index = 1;
    qp->rx.sge_offset = kNearlyAll - kHalf;
  }

  ASSERT_TRUE(
      raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, kNearlyAll, Bytes(8)))));

  ExpectDown(connection);
  EXPECT_EQ(connection->Find(kReceive)->status, IBV_WC_LOC_LEN_ERR);
  side_.Destroy(connection);
  EXPECT_EQ(side_.api().dereg_mr(mr), 0);
  munmap(memory, size_t{2} * kHalf);
}

// Work requests of pieces that are not all there leave nothing pinned.
TEST_P(WireStream, AWorkRequestThatCannotBeSentPinsNothing) {
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc());
  ASSERT_TRUE(raw.Send(Sealed(Tagged(kWriteLast, 0, 0))));
  for (int i = 0; i < 4; ++i) side_.Advance();
  ibv_sge sges[2] = {{side_.local().address(), 8, side_.local().key()},
                     {side_.local().address(), 8, 0x12345678}};
  ibv_send_wr wr = {};
  wr.wr_id = 1;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = sges;
  wr.num_sge = 2;
  side_.PostSend(connection, wr);
  ExpectDown(connection);
  EXPECT_EQ(connection->Find(1)->status, IBV_WC_LOC_PROT_ERR);

  std::thread deregisters([this] { side_.local().Deregister(); });
  deregisters.join();
}

// Who sleeps on a channel sleeps while there is nothing.
TEST_P(WireStream, AnIdleChannelIsQuiet) {
  std::vector<RawStream> raws(4);
  for (RawStream& raw : raws) {
    WireConnection* connection = side_.Establish(&raw, crc());
    ASSERT_TRUE(raw.Send(Sealed(Untagged(kSendLast, 0, 0, 1, 0))));
    ASSERT_TRUE(
        side_.Until([&] { return connection->completions.size() == 1; }));
    for (int i = 0; i < 10; ++i) side_.Advance();
    ibv_cq* cq;
    void* context;
    EXPECT_EQ(side_.api().get_cq_event(connection->cq->channel, &cq, &context),
              -1);

    pollfd waits[] = {{connection->cq->channel->fd, POLLIN, 0},
                      {side_.channel()->fd, POLLIN, 0}};
    EXPECT_EQ(poll(waits, 2, 0), 0)
        << waits[0].revents << " " << waits[1].revents;
  }
}

INSTANTIATE_TEST_SUITE_P(Crc, WireStream, testing::Bool(),
                         [](const auto& param_info) {
                           return param_info.param ? "On" : "Off";
                         });
INSTANTIATE_TEST_SUITE_P(Crc, Unread, testing::Bool(),
                         [](const auto& param_info) {
                           return param_info.param ? "On" : "Off";
                         });

// A peer that sends faster than it is read keeps nobody inside of a call.
TEST(WireFlood, ACallForEventsReturns) {
  WireSide side;
  RawStream raw;
  WireConnection* connection = side.Establish(&raw, false);
  const Bytes one = Seal(Tagged(kWriteLast, 0, 0), false);
  Bytes many;
  while (many.size() < 65536) many = std::move(many) + one;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> sent{0};
  std::thread flood([&] {
    size_t from = 0;
    const int64_t end = Clock::Real()->NowNanos() + 20 * kNanosPerSecond;
    while (!stop.load() && Clock::Real()->NowNanos() < end) {
      const ssize_t taken = raw.SendSome(many, from);
      if (taken < 0) break;
      from = (from + static_cast<size_t>(taken)) % many.size();
      sent.fetch_add(static_cast<uint64_t>(taken));
    }
    stop.store(true);
  });
  while (sent.load() < many.size()) std::this_thread::yield();

  ibv_cq* cq;
  void* context;
  EXPECT_EQ(side.api().get_cq_event(connection->cq->channel, &cq, &context),
            -1);

  EXPECT_FALSE(stop.load());
  stop.store(true);
  flood.join();
}

}  // namespace
}  // namespace sluice::iwarp
