// The provider connects to a raw listener: what it asks for, and what it makes
// of every wrong answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_test.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

class WireConnect : public WireTest {
 protected:
  WireConnect() : listener_(RawStream::Listen(&port_)) {}
  ~WireConnect() override { close(listener_); }

  // A connection whose request has come.
  WireConnection* Begin(RawStream* raw, Bytes* request,
                        const WireQpOptions& options = {},
                        const Bytes& data = {}) {
    WireConnection* connection = side_.Connect(port_, options, data);
    TakeRequest(raw, request);
    return connection;
  }

  // One that has got so much of the reply.
  WireConnection* BeginReply(RawStream* raw, const Bytes& start) {
    Bytes request;
    WireConnection* connection = Begin(raw, &request);
    EXPECT_TRUE(raw->Send(start));
    Settle();
    return connection;
  }

  void TakeRequest(RawStream* raw, Bytes* request) {
    *raw = RawStream();
    EXPECT_TRUE(side_.Until([&] {
      if (!raw->ok()) *raw = RawStream::Accept(listener_);
      return raw->ok();
    }));
    EXPECT_TRUE(side_.Until(raw, [&] { return raw->TakeMpa(request); }));
  }

  void ExpectEstablished(RawStream* raw, WireConnection* connection,
                         bool crc = false) {
    ASSERT_TRUE(side_.Until(
        [&] { return connection->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    EXPECT_EQ(connection->statuses.back(), 0);
    ASSERT_TRUE(raw->Send(
        Seal(Untagged(kSendLast, 0, 0, 1, 0, ToBytes("hello")), crc)));
    ASSERT_TRUE(
        side_.Until([&] { return connection->completions.size() == 1; }));
    EXPECT_EQ(connection->completions[0].byte_len, 5u);
  }

  void ExpectEvent(WireConnection* connection, rdma_cm_event_type type,
                   int status) {
    ASSERT_TRUE(side_.Until([&] { return connection->Saw(type); }));
    EXPECT_EQ(connection->statuses.back(), status);
    EXPECT_FALSE(connection->Saw(RDMA_CM_EVENT_ESTABLISHED));
  }

  // The reply is of no use: the connection does not come about, and ends.
  void ExpectRefused(const Bytes& reply, rdma_cm_event_type type, int status) {
    RawStream raw;
    Bytes request;
    WireConnection* connection = Begin(&raw, &request);
    ASSERT_TRUE(raw.Send(reply));
    ExpectEvent(connection, type, status);
    EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
    side_.Destroy(connection);
  }

  uint16_t port_ = 0;
  int listener_;
};

TEST_F(WireConnect, AsksForWhatItIsToldTo) {
  RawStream raw;
  Bytes request;
  WireConnection* connection =
      Begin(&raw, &request, {.ird = 3, .ord = 5}, ToBytes("data"));

  EXPECT_EQ(request, MpaText({.ird = 3, .ord = 5, .data = ToBytes("data")}));
  ASSERT_TRUE(raw.Send(MpaText({.reply = true, .ird = 5, .ord = 3})));
  ExpectEstablished(&raw, connection);
}

TEST_F(WireConnect, EitherSideMayWantChecksums) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      MutableOptions().crc = ours ? CrcPolicy::kOn : CrcPolicy::kOff;
      RawStream raw;
      Bytes request;
      WireConnection* connection = Begin(&raw, &request);
      EXPECT_EQ(request, MpaText({.crc = ours, .ird = 4, .ord = 4}));
      ASSERT_TRUE(raw.Send(MpaText({.reply = true, .crc = theirs})));
      ExpectEstablished(&raw, connection, ours || theirs);
      side_.Destroy(connection);
    }
  }
}

TEST_F(WireConnect, AReplyMayComeInPieces) {
  const Bytes reply = MpaText({.reply = true, .data = Bytes(30)});
  for (size_t cut = 1; cut < reply.size(); ++cut) {
    SCOPED_TRACE(cut);
    RawStream raw;
    WireConnection* connection = BeginReply(&raw, First(reply, cut));
    EXPECT_FALSE(connection->Saw(RDMA_CM_EVENT_ESTABLISHED));
    ASSERT_TRUE(raw.Send(Behind(reply, cut)));
    ExpectEstablished(&raw, connection);
    EXPECT_EQ(connection->private_data.back(), Bytes(30));
    side_.Destroy(connection);
  }
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);
  for (const std::byte each : reply) {
    ASSERT_TRUE(raw.Send({each}));
    Settle();
  }
  ExpectEstablished(&raw, connection);
}

TEST_F(WireConnect, FpdusMayFollowTheReplyAtOnce) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);

  ASSERT_TRUE(
      raw.Send(MpaText({.reply = true}) +
               Seal(Untagged(kSendLast, 0, 0, 1, 0, ToBytes("hi")), false)));

  ASSERT_TRUE(side_.Until([&] { return connection->completions.size() == 1; }));
  EXPECT_EQ(connection->completions[0].byte_len, 2u);
}

TEST_F(WireConnect, WrongRepliesAreErrors) {
  const auto refused = [this](const Bytes& reply) {
    ExpectRefused(reply, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
  };
  for (size_t at = 0; at < 16; ++at) {
    Bytes reply = MpaText({.reply = true});
    reply[at] ^= std::byte{0x20};
    refused(reply);
  }
  refused(MpaText({.reply = false}));
  refused(ToBytes("HTTP/1.0 400 Bad Request\r\n"));
  for (const int revision : {0, 3, 255}) {
    refused(
        MpaText({.reply = true, .revision = static_cast<uint8_t>(revision)}));
  }
  for (const int bytes : {0, 3, 513, 65535}) {
    Bytes reply = MpaText({.reply = true});
    Write16(&reply, 18, static_cast<uint16_t>(bytes));
    refused(reply);
  }
  refused(MpaText({.reply = true, .more_flags = kMarkers}));
  refused(MpaText({.reply = true, .enhanced = false}));
  refused(MpaText({.reply = true, .revision = 1, .enhanced = false}));
}

TEST_F(WireConnect, ARejectionHasItsData) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);

  ASSERT_TRUE(raw.Send(
      MpaText({.reply = true, .more_flags = kReject, .data = ToBytes("no")})));

  ExpectEvent(connection, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
  EXPECT_EQ(connection->private_data.back(), ToBytes("no"));
}

TEST_F(WireConnect, NobodyListens) {
  close(listener_);
  listener_ = -1;
  WireConnection* connection = side_.Connect(port_);

  ExpectEvent(connection, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
}

TEST_F(WireConnect, SilenceIsUnreachable) {
  MutableOptions().reply_timeout = absl::Milliseconds(50);
  const Bytes reply = MpaText({.reply = true, .data = Bytes(9)});
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{20}, size_t{25}}) {
    RawStream raw;
    Bytes request;
    WireConnection* connection = Begin(&raw, &request);
    ASSERT_TRUE(raw.Send(First(reply, bytes)));
    ExpectEvent(connection, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    side_.Destroy(connection);
  }
}

TEST_F(WireConnect, WhoEndsInAReplyIsAnError) {
  const Bytes reply = MpaText({.reply = true, .data = Bytes(9)});
  for (const bool reset : {false, true}) {
    for (size_t cut = 1; cut < reply.size(); ++cut) {
      SCOPED_TRACE(cut);
      RawStream raw;
      WireConnection* connection = BeginReply(&raw, First(reply, cut));
      if (reset) {
        raw.Reset();
      } else {
        raw.Finish();
      }
      ExpectEvent(connection, RDMA_CM_EVENT_REJECTED, -ECONNRESET);
      side_.Destroy(connection);
    }
  }
}

// Who closes without a word may know revision 1 only [iwarp §1.3].
TEST_F(WireConnect, RevisionOneIsTriedNext) {
  for (const bool reset : {false, true}) {
    RawStream raw;
    Bytes request;
    WireConnection* connection = Begin(&raw, &request, {}, ToBytes("data"));
    if (reset) {
      raw.Reset();
    } else {
      raw.Close();
    }

    TakeRequest(&raw, &request);

    EXPECT_EQ(
        request,
        MpaText({.revision = 1, .enhanced = false, .data = ToBytes("data")}));
    ASSERT_TRUE(
        raw.Send(MpaText({.reply = true, .revision = 1, .enhanced = false})));
    ExpectEstablished(&raw, connection);
    side_.Destroy(connection);
  }
}

TEST_F(WireConnect, RevisionOneIsTriedOnce) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);
  raw.Close();
  TakeRequest(&raw, &request);
  raw.Close();

  ExpectEvent(connection, RDMA_CM_EVENT_REJECTED, -ECONNRESET);
}

TEST_F(WireConnect, MoreReadsThanCanBeServedEndIt) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);

  ASSERT_TRUE(raw.Send(MpaText({.reply = true, .ird = 4, .ord = 129})));

  ExpectEvent(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
  Bytes terminate;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&terminate); }));
  EXPECT_EQ(
      terminate,
      Seal(Untagged(kTerminateLast, 0, 2, 1, 0, FromHex("20060000")), false));
}

class WirePeerToPeer : public WireConnect {
 protected:
  WirePeerToPeer() { MutableOptions().peer_to_peer = true; }

  WireConnection* Agree(RawStream* raw, uint16_t ord_bits) {
    Bytes request;
    WireConnection* connection = Begin(raw, &request, {.ird = 2, .ord = 0});
    EXPECT_EQ(request,
              MpaText({.ird = kHighBit | 2, .ord = kHighBit | kLowBit}));
    EXPECT_TRUE(
        raw->Send(MpaText({.reply = true,
                           .ird = kHighBit | 1,
                           .ord = static_cast<uint16_t>(ord_bits | 1)})));
    return connection;
  }
};

TEST_F(WirePeerToPeer, SpeaksFirstWithAWrite) {
  for (const uint16_t bits : {kHighBit, uint16_t{kHighBit | kLowBit}}) {
    RawStream raw;
    WireConnection* connection = Agree(&raw, bits);

    Bytes first;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&first); }));
    EXPECT_EQ(first, Seal(Tagged(kWriteLast, 1, 0), false));
    ExpectEstablished(&raw, connection);
  }
}

TEST_F(WirePeerToPeer, SpeaksFirstWithARead) {
  RawStream raw;
  WireConnection* connection = Agree(&raw, kLowBit);

  Bytes first;
  ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&first); }));
  EXPECT_EQ(first, Seal(ReadRequest({}), false));
  ASSERT_TRUE(raw.Send(Seal(Tagged(kReadResponseLast, 1, 0), false)));
  ExpectEstablished(&raw, connection);
  EXPECT_EQ(connection->async_events.size(), 0U);
}

// That READ of nothing cannot be answered with something.
TEST_F(WirePeerToPeer, AFirstReadGetsNoData) {
  for (const bool last : {false, true}) {
    RawStream raw;
    WireConnection* connection = Agree(&raw, kLowBit);
    Bytes fpdu;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&fpdu); }));

    ASSERT_TRUE(raw.Send(Seal(
        Tagged(last ? kReadResponseLast : kReadResponseLast & ~kLastBit,
               side_.sink().key(), side_.sink().address(), Bytes(last ? 8 : 0)),
        false)));

    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&fpdu); }));
    EXPECT_EQ(ControlOf(fpdu), kTerminateLast);
    EXPECT_TRUE(side_.Until([&] {
      return connection->IsDrained() &&
             connection->Saw(RDMA_CM_EVENT_DISCONNECTED);
    }));
    EXPECT_TRUE(side_.IsNothingWritten());
    side_.Destroy(connection);
  }
}

TEST_F(WirePeerToPeer, NothingInCommonEndsIt) {
  for (const uint16_t ird_bits : {kHighBit, uint16_t{kHighBit | kLowBit}}) {
    RawStream raw;
    Bytes request;
    WireConnection* connection = Begin(&raw, &request);
    ASSERT_TRUE(raw.Send(MpaText({.reply = true,
                                  .ird = static_cast<uint16_t>(ird_bits | 1),
                                  .ord = 1})));

    ExpectEvent(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
    Bytes terminate;
    ASSERT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&terminate); }));
    EXPECT_EQ(terminate[20], std::byte{0x20});
    EXPECT_EQ(terminate[21], std::byte{7});
  }
}

// --- the program gives up first ---

TEST_F(WireConnect, AnIdMayGoWhileItConnects) {
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{24}}) {
    RawStream raw;
    Bytes request;
    WireConnection* connection = Begin(&raw, &request);
    ASSERT_TRUE(raw.Send(First(MpaText({.reply = true}), bytes)));

    side_.Destroy(connection);

    EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
  }
}

TEST_F(WireConnect, AQueuePairMayGoBeforeTheReply) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request);
  side_.api().destroy_qp(connection->id);
  connection->qp = nullptr;

  ASSERT_TRUE(raw.Send(MpaText({.reply = true})));

  ExpectEvent(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
}

// One that the program made itself, which the id does not hear of.
TEST_F(WireConnect, AnOwnQueuePairMayGoBeforeTheReply) {
  RawStream raw;
  Bytes request;
  WireConnection* connection = Begin(&raw, &request, {.is_own = true});
  ASSERT_EQ(DestroyQp(connection->qp), 0);
  connection->qp = nullptr;

  ASSERT_TRUE(raw.Send(MpaText({.reply = true})));

  ExpectEvent(connection, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
  EXPECT_TRUE(side_.Until(&raw, [&raw] { return raw.at_end(); }));
}

}  // namespace
}  // namespace sluice::iwarp
