// A raw peer that connects to a listener of the provider's: MPA's request, as
// it should be and in every way that it should not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_test.h"
#include "transport/iwarp/limits.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

class WireStart : public WireTest {
 protected:
  // Nothing comes of it but the end of the stream.
  void ExpectClosed(RawStream* raw) {
    EXPECT_TRUE(side_.Until(raw, [raw] { return raw->at_end(); }));
    EXPECT_EQ(raw->collected().size(), 0U);
    EXPECT_EQ(side_.request_count(), 0U);
  }

  void ExpectRejected(RawStream* raw) {
    Bytes reply;
    ASSERT_TRUE(side_.Until(raw, [&] { return raw->TakeMpa(&reply); }));
    EXPECT_EQ(First(reply, 16), ToBytes("MPA ID Rep Frame"));
    EXPECT_EQ(reply[16] & std::byte{kReject}, std::byte{kReject});
    EXPECT_EQ(reply[16] & std::byte{kMarkers}, std::byte{0});
    ExpectClosed(raw);
  }

  // A request that came in is answered, and the connection works.
  void ExpectServed(RawStream* raw) {
    ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
    WireConnection* connection = side_.Accept(side_.NextRequest());
    Bytes reply;
    ASSERT_TRUE(side_.Until(raw, [&] { return raw->TakeMpa(&reply); }));
    ExpectSend(raw, connection, 1);
    side_.Destroy(connection);
  }

  // A SEND arrives in a receive.
  void ExpectSend(RawStream* raw, WireConnection* connection, uint32_t msn) {
    const size_t before = connection->completions.size();
    ASSERT_TRUE(raw->Send(
        Seal(Untagged(kSendLast, 0, 0, msn, 0, ToBytes("hello")), false)));
    ASSERT_TRUE(side_.Until(
        [&] { return connection->completions.size() == before + 1; }));
    EXPECT_EQ(connection->completions.back().status, IBV_WC_SUCCESS);
    EXPECT_EQ(connection->completions.back().byte_len, 5u);
  }

  void PostEmptySend(WireConnection* connection) {
    ibv_send_wr wr = {};
    wr.wr_id = 7;
    wr.opcode = IBV_WR_SEND;
    side_.PostSend(connection, wr);
  }

  // Somebody in good order is served, whatever others do.
  void ExpectOthersServed() {
    RawStream good;
    WireConnection* connection = side_.Establish(&good, false);
    ExpectSend(&good, connection, 1);
    side_.Destroy(connection);
  }
};

TEST_F(WireStart, ARequestMayComeInTwoPieces) {
  const Bytes text = MpaText({.data = Bytes(40, std::byte{7})});

  for (size_t cut = 1; cut < text.size(); ++cut) {
    SCOPED_TRACE(cut);
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(First(text, cut)));
    Settle();
    ASSERT_TRUE(raw.Send(Behind(text, cut)));
    ExpectServed(&raw);
  }
}

TEST_F(WireStart, ARequestMayComeByteByByte) {
  const Bytes text = MpaText({.data = Bytes(100, std::byte{7})});
  RawStream raw = RawStream::Connect(side_.port());

  for (const std::byte each : text) {
    ASSERT_TRUE(raw.Send({each}));
    Settle();
  }

  ExpectServed(&raw);
}

TEST_F(WireStart, WhoEndsInARequestIsForgotten) {
  const Bytes text = MpaText({.data = Bytes(40, std::byte{7})});

  for (size_t cut = 0; cut < text.size(); ++cut) {
    SCOPED_TRACE(cut);
    RawStream finished = RawStream::Connect(side_.port());
    ASSERT_TRUE(finished.Send(First(text, cut)));
    finished.Finish();
    ExpectClosed(&finished);
    for (const bool read_first : {false, true}) {
      RawStream reset = RawStream::Connect(side_.port());
      ASSERT_TRUE(reset.Send(First(text, cut)));
      if (read_first) Settle();
      reset.Reset();
      Settle();
      EXPECT_EQ(side_.request_count(), 0U);
    }
  }
  ExpectOthersServed();
}

TEST_F(WireStart, EveryByteOfTheKeyCounts) {
  for (size_t at = 0; at < 16; ++at) {
    SCOPED_TRACE(at);
    Bytes text = MpaText({});
    text[at] ^= std::byte{0x20};
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(text));
    ExpectClosed(&raw);
  }
  ExpectOthersServed();
}

TEST_F(WireStart, OtherProtocolsAreClosedAtOnce) {
  for (const char* text : {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "SSH-2.0",
                           "MPA ID Rep Frame", "\n"}) {
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(ToBytes(text)));
    ExpectClosed(&raw);
  }
}

TEST_F(WireStart, UnknownRevisionsAreClosed) {
  for (const int revision : {0, 3, 255}) {
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(
        raw.Send(MpaText({.revision = static_cast<uint8_t>(revision)})));
    ExpectClosed(&raw);
  }
}

TEST_F(WireStart, PrivateDataHasALimit) {
  for (const int bytes : {513, 1024, 32768, 65535}) {
    Bytes text = MpaText({.data = Bytes(1000)});
    Write16(&text, 18, static_cast<uint16_t>(bytes));
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(text));
    EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
    EXPECT_EQ(side_.request_count(), 0U);
  }
  RawStream longest = RawStream::Connect(side_.port());
  ASSERT_TRUE(longest.Send(MpaText({.data = Bytes(508)})));
  ExpectServed(&longest);
}

TEST_F(WireStart, AnEnhancedRequestHasItsBlock) {
  for (uint16_t bytes = 0; bytes < 4; ++bytes) {
    Bytes text = MpaText({.enhanced = false, .data = Bytes(bytes)});
    text[16] |= std::byte{0x10};
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(text));
    ExpectRejected(&raw);
  }
}

TEST_F(WireStart, MarkersAreRejected) {
  for (const int revision : {1, 2}) {
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(MpaText({.more_flags = kMarkers,
                                  .revision = static_cast<uint8_t>(revision),
                                  .enhanced = revision == 2})));
    ExpectRejected(&raw);
  }
}

TEST_F(WireStart, ReservedFlagsAndRejectAreIgnored) {
  RawStream raw = RawStream::Connect(side_.port());
  ASSERT_TRUE(raw.Send(MpaText({.more_flags = 0x2f})));
  ExpectServed(&raw);
}

TEST_F(WireStart, TheReplySaysWhatWasAgreed) {
  for (const bool crc : {false, true}) {
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(MpaText({.crc = crc, .ird = 2, .ord = 200})));
    ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
    side_.Accept(side_.NextRequest(), {.ird = 4, .ord = 8}, ToBytes("answer"));
    Bytes reply;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeMpa(&reply); }));

    // Its READs are as many as the peer serves; it serves what it can.
    EXPECT_EQ(reply, MpaText({.reply = true,
                              .crc = crc,
                              .ird = kReadDepthMax,
                              .ord = 2,
                              .data = ToBytes("answer")}));
  }
}

TEST_F(WireStart, RevisionOneIsAnsweredInKind) {
  RawStream raw = RawStream::Connect(side_.port());
  ASSERT_TRUE(raw.Send(MpaText(
      {.revision = 1, .enhanced = false, .data = Bytes(255, std::byte{1})})));
  ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
  WireConnection* connection = side_.Accept(side_.NextRequest());
  Bytes reply;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeMpa(&reply); }));

  EXPECT_EQ(reply, MpaText({.reply = true, .revision = 1, .enhanced = false}));
  ExpectSend(&raw, connection, 1);
}

TEST_F(WireStart, UnchangedDepthsAreEchoed) {
  RawStream raw = RawStream::Connect(side_.port());
  ASSERT_TRUE(raw.Send(MpaText({.ird = 0x3fff, .ord = 0x3fff})));
  ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
  side_.Accept(side_.NextRequest());
  Bytes reply;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeMpa(&reply); }));

  EXPECT_EQ(Read16(reply, 20), 0x3fff);
  EXPECT_EQ(Read16(reply, 22), 0x3fff);
}

// What an initiator that speaks first may send to show it [iwarp §1.3].
enum class Opening { kWrite, kRead, kSend };

TEST_F(WireStart, PeerToPeerIsEstablishedByTheFirstFpdu) {
  for (int offer = 0; offer < 8; ++offer) {
    for (const Opening first :
         {Opening::kWrite, Opening::kRead, Opening::kSend}) {
      SCOPED_TRACE(testing::Message()
                   << "offer " << offer << ", first " << int(first));
      const bool write = (offer & 2) != 0;
      const bool read = (offer & 4) != 0;
      RawStream raw = RawStream::Connect(side_.port());
      ASSERT_TRUE(raw.Send(MpaText(
          {.ird = static_cast<uint16_t>(kHighBit | ((offer & 1) * kLowBit)),
           .ord = static_cast<uint16_t>((write ? kHighBit : 0) |
                                        (read ? kLowBit : 0) | 1)})));
      ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
      WireConnection* connection =
          side_.Accept(side_.NextRequest(), {.ird = 0, .ord = 0});
      Bytes reply;
      ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeMpa(&reply); }));
      // A WRITE where one is offered, a READ if only that is.
      const bool read_chosen = read && !write;
      EXPECT_EQ(Read16(reply, 20) & 0xc000, kHighBit);
      EXPECT_EQ(Read16(reply, 22) & 0xc000, read_chosen ? kLowBit : kHighBit);
      EXPECT_GE(Read16(reply, 20) & 0x3fff, 1);
      Settle();
      EXPECT_FALSE(connection->Saw(RDMA_CM_EVENT_ESTABLISHED));

      switch (first) {
        case Opening::kWrite:
          raw.Send(Seal(Tagged(kWriteLast, 1, 0), false));
          break;
        case Opening::kRead:
          raw.Send(Seal(ReadRequest({}), false));
          break;
        case Opening::kSend:
          raw.Send(Seal(Untagged(kSendLast, 0, 0, 1, 0), false));
          break;
      }
      EXPECT_TRUE(side_.Until(
          [&] { return connection->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
      if (first == Opening::kRead) {
        Bytes response;
        ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&response); }));
        EXPECT_EQ(response, Seal(Tagged(kReadResponseLast, 1, 0), false));
      }
      EXPECT_EQ(
          std::ranges::count(connection->events, RDMA_CM_EVENT_ESTABLISHED), 1);
      side_.Destroy(connection);
    }
  }
}

class WirePromise : public WireStart {
 protected:
  // A connection whose initiator has agreed to speak first.
  WireConnection* Agree(RawStream* raw) {
    MutableOptions().request_timeout = absl::Milliseconds(50);
    *raw = RawStream::Connect(side_.port());
    EXPECT_TRUE(raw->Send(MpaText({.ird = kHighBit | 1, .ord = kHighBit | 1})));
    EXPECT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
    WireConnection* connection = side_.Accept(side_.NextRequest());
    Bytes reply;
    EXPECT_TRUE(side_.Until(raw, [&] { return raw->TakeMpa(&reply); }));
    return connection;
  }

  void WaitTwice() {
    const int64_t end = Clock::Real()->NowNanos() + 100 * kNanosPerMilli;
    EXPECT_TRUE(side_.Until([end] { return Clock::Real()->NowNanos() > end; }));
  }
};

TEST_F(WirePromise, WhoseInitiatorIsSilentEnds) {
  for (const bool half : {false, true}) {
    RawStream raw;
    WireConnection* connection = Agree(&raw);
    if (half) {
      ASSERT_TRUE(raw.Send(First(Seal(Tagged(kWriteLast, 1, 0), false), 7)));
    }

    ASSERT_TRUE(side_.Until(
        [&] { return connection->Saw(RDMA_CM_EVENT_UNREACHABLE); }));

    EXPECT_EQ(connection->statuses.back(), -ETIMEDOUT);
    EXPECT_TRUE(side_.Until(&raw, [&] { return raw.at_end(); }));
    EXPECT_TRUE(side_.Until([&] { return connection->IsDrained(); }));
    EXPECT_EQ(connection->events.size(), 1U);
    side_.Destroy(connection);
  }
}

TEST_F(WirePromise, IsKeptInTime) {
  RawStream raw;
  WireConnection* connection = Agree(&raw);
  ASSERT_TRUE(raw.Send(Seal(Tagged(kWriteLast, 1, 0), false)));
  WaitTwice();

  EXPECT_EQ(connection->events, std::vector{RDMA_CM_EVENT_ESTABLISHED});
  ExpectSend(&raw, connection, 1);
}

// It has a deadline on whatever channel.
TEST_F(WirePromise, MovesWithItsId) {
  RawStream raw;
  WireConnection* connection = Agree(&raw);
  rdma_event_channel* other = side_.api().create_event_channel();
  ASSERT_EQ(fcntl(other->fd, F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(side_.api().migrate_id(connection->id, other), 0);

  rdma_cm_event* event = nullptr;
  ASSERT_TRUE(side_.Until(
      [&] { return side_.api().get_cm_event(other, &event) == 0; }));

  EXPECT_EQ(event->event, RDMA_CM_EVENT_UNREACHABLE);
  side_.api().ack_cm_event(event);
  side_.Destroy(connection);
  side_.api().destroy_event_channel(other);
}

TEST_F(WireStart, FpdusMayFollowTheRequestAtOnce) {
  const Bytes text =
      MpaText({}) +
      Seal(Untagged(kSendLast, 0, 0, 1, 0, ToBytes("first")), false) +
      Seal(Untagged(kSendLast, 0, 0, 2, 0, ToBytes("second")), false);
  RawStream raw = RawStream::Connect(side_.port());
  ASSERT_TRUE(raw.Send(text));

  ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
  WireConnection* connection = side_.Accept(side_.NextRequest());

  ASSERT_TRUE(side_.Until([&] { return connection->completions.size() == 2; }));
  EXPECT_EQ(connection->completions[0].byte_len, 5u);
  EXPECT_EQ(connection->completions[1].byte_len, 6u);
}

// The responder says nothing before the initiator has [iwarp §1.4].
TEST_F(WireStart, TheResponderSpeaksSecond) {
  MutableOptions().listen_first = absl::Seconds(60);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, false);
  PostEmptySend(connection);
  Settle();
  raw.Collect();
  EXPECT_EQ(raw.collected().size(), 0U);

  ASSERT_TRUE(raw.Send(Seal(Tagged(kWriteLast, 0, 0), false)));

  Bytes send;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&send); }));
  EXPECT_EQ(send, Seal(Untagged(kSendLast, 0, 0, 1, 0), false));
}

// But not for ever.
TEST_F(WireStart, AnInitiatorThatListensIsSpokenTo) {
  MutableOptions().listen_first = absl::Milliseconds(30);
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, false);
  PostEmptySend(connection);

  Bytes send;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&send); }));
  EXPECT_EQ(send, Seal(Untagged(kSendLast, 0, 0, 1, 0), false));
}

TEST_F(WireStart, SilenceEndsAfterAWhile) {
  MutableOptions().request_timeout = absl::Milliseconds(50);
  RawStream silent = RawStream::Connect(side_.port());
  RawStream half = RawStream::Connect(side_.port());
  ASSERT_TRUE(half.Send(First(MpaText({.data = Bytes(9)}), 25)));

  ExpectClosed(&silent);
  ExpectClosed(&half);
  ExpectOthersServed();
}

// Each byte comes in time, the request does not: no grace for the diligent.
TEST_F(WireStart, DripsDoNotExtendTheTime) {
  MutableOptions().request_timeout = absl::Milliseconds(50);
  const Bytes text = MpaText({.data = Bytes(500)});
  RawStream raw = RawStream::Connect(side_.port());

  size_t sent = 0;
  EXPECT_TRUE(side_.Until(&raw, [&] {
    if (sent + 1 < text.size() && raw.SendSome({text[sent]}, 0) == 1) ++sent;
    return raw.at_end();
  }));
  EXPECT_EQ(side_.request_count(), 0U);
}

TEST_F(WireStart, SilentOnesDoNotKeepOthersOut) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 4 * kHalfOpenMax) GTEST_SKIP() << "few descriptors";
  std::vector<RawStream> silent;
  for (int i = 0; i < kHalfOpenMax + 100; ++i) {
    silent.push_back(RawStream::Connect(side_.port()));
    if (i % 16 == 0) side_.Advance();
  }

  ExpectOthersServed();

  // The oldest made room.
  EXPECT_TRUE(side_.Until(&silent[0], [&] { return silent[0].at_end(); }));
  silent.back().Collect();
  EXPECT_FALSE(silent.back().at_end());
}

TEST_F(WireStart, MoreRequestsThanTheBacklogAreDropped) {
  std::vector<RawStream> raws;
  // Nobody takes events while they come.
  for (int i = 0; i < 8; ++i) {
    raws.push_back(RawStream::Connect(side_.port()));
    ASSERT_TRUE(raws.back().Send(MpaText({})));
  }
  ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 8; }));

  while (rdma_cm_id* id = side_.NextRequest()) {
    side_.api().reject(id, "no", 2);
    side_.api().destroy_id(id);
  }
  for (RawStream& raw : raws) {
    Bytes reply;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeMpa(&reply); }));
    EXPECT_EQ(reply, MpaText({.reply = true,
                              .more_flags = kReject,
                              .ird = 0,
                              .ord = 0,
                              .data = ToBytes("no")}));
    ExpectClosed(&raw);
  }
}

// A queue pair that the program made itself is disconnected by its id.
TEST_F(WireStart, AnOwnQueuePairIsDisconnected) {
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, false, {.is_own = true});
  ExpectSend(&raw, connection, 1);

  ASSERT_EQ(side_.api().disconnect(connection->id), 0);

  EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
  raw.Close();
  EXPECT_TRUE(side_.Until([&] {
    return connection->Saw(RDMA_CM_EVENT_DISCONNECTED) &&
           connection->IsDrained();
  }));
}

// What cannot be accepted is not: the peer has no reply yet, and gets another
// one.
TEST_F(WireStart, ADeadQueuePairCannotBeAccepted) {
  RawStream raw = RawStream::Connect(side_.port());
  ASSERT_TRUE(raw.Send(MpaText({})));
  ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
  WireConnection* connection = side_.NewConnection(side_.NextRequest(), {});
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(side_.api().modify_qp(connection->qp, &attr, IBV_QP_STATE), 0);

  EXPECT_FALSE(side_.TryAccept(connection, {}, {}));
  EXPECT_EQ(errno, EINVAL);
  Settle();
  raw.Collect();
  EXPECT_EQ(raw.collected().size(), 0U);

  EXPECT_EQ(side_.api().reject(connection->id, nullptr, 0), 0);
  ExpectRejected(&raw);
  EXPECT_EQ(connection->events.size(), 0U);
}

// A peer that is gone by the time that it is accepted.
TEST_F(WireStart, WhoIsGoneCannotBeAccepted) {
  for (const bool reset : {false, true}) {
    RawStream raw = RawStream::Connect(side_.port());
    ASSERT_TRUE(raw.Send(MpaText({})));
    ASSERT_TRUE(side_.Until([this] { return side_.request_count() == 1; }));
    if (reset) {
      raw.Reset();
    } else {
      raw.Close();
    }
    WireConnection* connection = side_.NewConnection(side_.NextRequest(), {});

    if (side_.TryAccept(connection, {}, {})) {
      EXPECT_TRUE(side_.Until(
          [&] { return connection->Saw(RDMA_CM_EVENT_DISCONNECTED); }));
      EXPECT_TRUE(connection->IsDrained());
    }
    side_.Destroy(connection);
  }
  ExpectOthersServed();
}

// The process has no descriptor left, and none that it could take back.
TEST_F(WireStart, NoDescriptorIsNoEndlessLoop) {
  RawStream good;
  WireConnection* connection = side_.Establish(&good, false);
  RawStream late = RawStream::Connect(side_.port());
  ASSERT_TRUE(late.Send(MpaText({})));
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);

  for (int i = 0; i < 10; ++i) side_.Advance();
  ExpectSend(&good, connection, 1);

  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ExpectServed(&late);
}

}  // namespace
}  // namespace sluice::iwarp
