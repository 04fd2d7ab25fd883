// DDP segments that are wrong, one field at a time, against a queue pair of the
// provider's: what the peer is told, what the program sees, and that nothing
// else comes of it [iwarp §2.3, §2.4, §3.6, §4.4].
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

constexpr int kNone = -1;
constexpr uint32_t kReadBytes = 64;
constexpr uint32_t kGarbageKey = 0x12345678;
// READs that the raw peer is allowed to have in flight.
constexpr uint32_t kPeerOrd = 16;

struct Case {
  std::string name = {};
  // FPDUs without trailer, in order.
  std::function<std::vector<Bytes>(WireSide*)> make = {};
  // Layer, type and code of the Terminate; kNone: it is no fault.
  int layer = kNone;
  int type = kNone;
  int code = kNone;
  int async_event = kNone;
  // READs of kReadBytes that are in flight then, and how the first one ends.
  int reads = 0;
  ibv_wc_status read_status = IBV_WC_WR_FLUSH_ERR;
  // How the first receive ends.
  ibv_wc_status receive_status = IBV_WC_WR_FLUSH_ERR;
  bool silent = false;  // it fails without a Terminate
  bool writes = false;  // what precedes the fault is in memory
  int post = 4;
  uint32_t next_msn = 1;  // where it is no fault
};

class WireSegment : public testing::TestWithParam<bool> {
 protected:
  WireSegment() {
    MutableOptions().receive_wait = absl::ZeroDuration();
    good_ = side_.Establish(&good_raw_, false);
  }
  ~WireSegment() override { MutableOptions() = Options(); }

  bool crc() const { return GetParam(); }

  void Run(const Case& c) {
    SCOPED_TRACE(c.name);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, crc(), {.post = c.post});
    if (c.reads > 0) StartReads(&raw, connection, c.reads);
    Bytes text;
    for (Bytes& fpdu : c.make(&side_)) {
      text = std::move(text) + Seal(std::move(fpdu), crc());
    }
    ASSERT_TRUE(raw.Send(text));
    if (c.layer == kNone && !c.silent) {
      ExpectAlive(&raw, connection, c.next_msn);
    } else {
      ExpectFault(&raw, connection, c);
    }
    EXPECT_TRUE(c.writes ? side_.AreGuardsIntact() : side_.IsNothingWritten());
    side_.Destroy(connection);
    ExpectOtherAlive();
  }

  void StartReads(RawStream* raw, WireConnection* connection, int count) {
    // The initiator has to speak before there are any.
    ASSERT_TRUE(raw->Send(Seal(Tagged(kWriteLast, 0, 0), crc())));
    for (int i = 0; i < count; ++i) {
      side_.PostRead(connection, static_cast<uint64_t>(i), kReadBytes);
    }
    for (int i = 0; i < count; ++i) {
      Bytes request;
      ASSERT_TRUE(side_.Until(raw, [&] { return raw->TakeFpdu(&request); }));
      ASSERT_EQ(OpcodeOf(request), 1);
      ASSERT_EQ(Read32(request, 20), side_.sink().key());
    }
  }

  void ExpectAlive(RawStream* raw, WireConnection* connection, uint32_t msn) {
    ASSERT_TRUE(raw->Send(Seal(Untagged(kSendLast, 0, 0, msn, 0, {}), crc())));
    const uint64_t receive = WireSide::kReceiveId + msn - 1;
    ASSERT_TRUE(
        side_.Until([&] { return connection->completed[receive] == 1; }));
    EXPECT_EQ(connection->Find(receive)->status, IBV_WC_SUCCESS);
    EXPECT_EQ(connection->async_events.size(), 0U);
  }

  void ExpectFault(RawStream* raw, WireConnection* connection, const Case& c) {
    ASSERT_TRUE(side_.Until(raw, [&] { return raw->at_end(); }));
    EXPECT_FALSE(raw->broken() && !c.silent);
    ExpectTerminate(raw, c);
    ASSERT_TRUE(side_.Until([&] {
      return connection->IsDrained() &&
             connection->Saw(RDMA_CM_EVENT_DISCONNECTED);
    }));
    if (c.async_event != kNone) {
      EXPECT_EQ(connection->async_events,
                std::vector{static_cast<ibv_event_type>(c.async_event)});
    }
    for (const ibv_wc& wc : connection->completions) {
      if (wc.wr_id == 0 && c.reads > 0) {
        EXPECT_EQ(wc.status, c.read_status);
      } else if (wc.wr_id == WireSide::kReceiveId) {
        EXPECT_EQ(wc.status, c.receive_status);
      } else if (c.receive_status != IBV_WC_SUCCESS) {
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << wc.wr_id;
      }
    }
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    ASSERT_EQ(side_.api().query_qp(connection->qp, &attr, IBV_QP_STATE, &init),
              0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  }

  // Sent to a connection of its own, `text` is answered by a Terminate.
  Bytes TerminateFor(const Bytes& text) {
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, crc());
    EXPECT_TRUE(raw.Send(text));
    Bytes fpdu(64);  // where none comes
    EXPECT_TRUE(side_.Until(&raw, [&] { return raw.TakeFpdu(&fpdu); }));
    EXPECT_EQ(ControlOf(fpdu), kTerminateLast);
    EXPECT_TRUE(IsSealed(fpdu, crc()));
    side_.Destroy(connection);
    return fpdu;
  }

  // Answers to READs may precede it, nothing follows.
  void ExpectTerminate(RawStream* raw, const Case& c) {
    Bytes fpdu;
    int terminates = 0;
    while (raw->TakeFpdu(&fpdu)) {
      EXPECT_TRUE(IsSealed(fpdu, crc()));
      if (OpcodeOf(fpdu) != 7) continue;
      ++terminates;
      EXPECT_EQ(ControlOf(fpdu), kTerminateLast);
      EXPECT_EQ(Read32(fpdu, 8), 2u);   // queue
      EXPECT_EQ(Read32(fpdu, 12), 1u);  // MSN
      EXPECT_EQ(fpdu[20], static_cast<std::byte>(c.layer << 4 | c.type));
      EXPECT_EQ(fpdu[21], static_cast<std::byte>(c.code));
    }
    EXPECT_EQ(terminates, c.silent ? 0 : 1);
    EXPECT_EQ(raw->collected().size(), 0U);
  }

  void ExpectOtherAlive() {
    const uint32_t msn = ++good_msn_;
    const uint64_t receive = WireSide::kReceiveId + msn + 100;
    good_receives_.push_back(receive);
    side_.PostReceive(good_, receive);
    const size_t before = good_->completions.size();
    ASSERT_TRUE(good_raw_.Send(Seal(Untagged(kSendLast, 0, 0, msn, 0), false)));
    ASSERT_TRUE(
        side_.Until([&] { return good_->completions.size() == before + 1; }));
    ASSERT_EQ(good_->completions.back().status, IBV_WC_SUCCESS);
  }

  WireSide side_;
  RawStream good_raw_;
  WireConnection* good_;
  uint32_t good_msn_ = 0;
  std::vector<uint64_t> good_receives_;
};

std::vector<Bytes> One(Bytes fpdu) { return {std::move(fpdu)}; }

Bytes Some(size_t bytes) { return Bytes(bytes, std::byte{0x3c}); }

// --- the control word ---

struct Flip {
  int bit;
  int layer, type, code;  // kNone: no fault
};

void FlipControl(const char* what, const std::function<Bytes(WireSide*)>& make,
                 const std::vector<Flip>& flips, std::vector<Case>* cases) {
  for (const Flip& flip : flips) {
    Case c;
    c.name = absl::StrCat(what, ", bit ", flip.bit, " of the control word");
    c.make = [make, flip](WireSide* side) {
      Bytes fpdu = make(side);
      Write16(&fpdu, 2, static_cast<uint16_t>(ControlOf(fpdu) ^ 1 << flip.bit));
      return One(std::move(fpdu));
    };
    c.layer = flip.layer;
    c.type = flip.type;
    c.code = flip.code;
    cases->push_back(std::move(c));
  }
}

TEST_P(WireSegment, EachBitOfTheControlWord) {
  std::vector<Case> cases;
  FlipControl(
      "WRITE",
      [](WireSide* side) {
        return Tagged(kWriteLast, side->writable().key(),
                      side->writable().address(), Some(8));
      },
      {{15, 0, 2, 6},
       {14, kNone, 0, 0},
       {13, kNone, 0, 0},
       {12, kNone, 0, 0},
       {11, kNone, 0, 0},
       {10, kNone, 0, 0},
       {9, 1, 1, 4},
       {8, 1, 1, 4},
       {7, 0, 2, 5},
       {6, 0, 2, 5},
       {5, kNone, 0, 0},
       {4, kNone, 0, 0},
       {3, 0, 2, 6},
       {2, 0, 2, 6},
       {1, 1, 1, 0},
       {0, 0, 2, 6}},
      &cases);
  FlipControl(
      "SEND",
      [](WireSide*) { return Untagged(kSendLast, 0, 0, 1, 0, Some(8)); },
      {{15, 0, 2, 6},
       {9, 1, 2, 6},
       {8, 1, 2, 6},
       {7, 0, 2, 5},
       {6, 0, 2, 5},
       {3, 0, 2, 6},
       {2, 1, 2, 1},
       {1, 2, 0, 3},
       {0, 0, 2, 6}},
      &cases);
  FlipControl(
      "READ",
      [](WireSide* side) {
        return ReadRequest({.bytes = 8,
                            .source_stag = side->readable().key(),
                            .source_to = side->readable().address()});
      },
      {{15, 0, 2, 6},
       {14, 1, 2, 4},
       {13, kNone, 0, 0},
       {12, kNone, 0, 0},
       {11, kNone, 0, 0},
       {10, kNone, 0, 0},
       {9, 1, 2, 6},
       {8, 1, 2, 6},
       {7, 0, 2, 5},
       {6, 0, 2, 5},
       {5, kNone, 0, 0},
       {4, kNone, 0, 0},
       {3, 0, 2, 6},
       {2, 1, 2, 1},
       {1, 1, 2, 1},
       {0, 0, 2, 6}},
      &cases);
  for (const Case& c : cases) Run(c);
}

TEST_P(WireSegment, EachOpcodeThatThereIsNot) {
  for (uint16_t opcode = 8; opcode < 16; ++opcode) {
    for (const uint16_t tag : {uint16_t{0}, uint16_t{0x8000}}) {
      Run({.name = absl::StrCat("opcode ", opcode),
           .make =
               [=](WireSide*) {
                 return One(
                     Untagged(static_cast<uint16_t>(0x4140 | opcode | tag), 0,
                              0, 1, 0, Some(60)));
               },
           .layer = 0,
           .type = 2,
           .code = 6,
           .async_event = IBV_EVENT_QP_FATAL});
    }
  }
}

// What is wrong comes back: the DDP header, as its tag says [RFC 5040 §4.8].
TEST_P(WireSegment, AFaultyHeaderComesBack) {
  const Bytes tagged = Tagged(kWriteLast, 1, 2, Some(8));
  const Bytes untagged = Untagged(kSendLast, 0, 0, 1, 0, Some(8));
  const struct {
    Bytes fpdu;
    uint16_t wrong;  // bits of its control word
    size_t header_bytes;
  } faults[] = {{tagged, 0x0200, 16},   {tagged, 0x0080, 16},
                {tagged, 0x0008, 16},   {untagged, 0x0200, 20},
                {untagged, 0x0080, 20}, {untagged, 0x0008, 20},
                {untagged, 0x0004, 20}};
  for (const auto& fault : faults) {
    SCOPED_TRACE(fault.wrong);
    Bytes fpdu = fault.fpdu;
    Write16(&fpdu, 2, static_cast<uint16_t>(ControlOf(fpdu) ^ fault.wrong));
    const Bytes terminate = TerminateFor(Seal(fpdu, crc()));

    EXPECT_EQ(terminate[22], std::byte{0xc0});
    EXPECT_EQ(Read16(terminate, 0), 18 + 4 + fault.header_bytes);
    EXPECT_TRUE(std::equal(
        fpdu.begin(),
        fpdu.begin() + static_cast<std::ptrdiff_t>(fault.header_bytes),
        terminate.begin() + 24));
  }
}

TEST_P(WireSegment, NoMoreComesBackThanThereWas) {
  Bytes cut = Tagged(0xc240, 1, 2, Some(8));  // of another version
  cut.resize(15);
  Bytes small = Untagged(0x4148, 0, 0, 1, 0, Some(8));  // of no opcode
  Write16(&small, 0, 17);
  Bytes length = Untagged(kSendLast, 0, 0, 1, 0, Some(8));  // MPA's fault
  Write16(&length, 0, 17);
  for (const Bytes& text : {cut, small, length}) {
    const Bytes terminate = TerminateFor(text);
    EXPECT_EQ(terminate[22], std::byte{0});
    EXPECT_EQ(Read16(terminate, 0), 18 + 4);
  }
}

// --- ULPDU_Length ---

TEST_P(WireSegment, LengthsBelowTheHeader) {
  const struct {
    uint16_t control;
    std::vector<int> lengths;
  } opcodes[] = {
      {kWriteLast, {0, 1, 2, 13}},
      {kReadRequestLast, {0, 14, 18, 45}},
      {kReadResponseLast, {0, 13}},
      {kSendLast, {0, 14, 17}},
      {kSendInvalidateLast, {0, 17}},
      {kSendSolicitedLast, {0, 17}},
      {0x4146, {0, 17}},
      {kTerminateLast, {0, 18, 21}},
  };
  for (const auto& opcode : opcodes) {
    for (const int length : opcode.lengths) {
      Run({.name = absl::StrCat("control ", opcode.control, ", ", length),
           .make =
               [&](WireSide*) {
                 Bytes fpdu = Untagged(opcode.control, 0, 0, 1, 0, Some(40));
                 Write16(&fpdu, 0, static_cast<uint16_t>(length));
                 return One(std::move(fpdu));
               },
           .layer = 2,
           .type = 0,
           .code = 3,
           .async_event = IBV_EVENT_QP_FATAL});
    }
  }
}

TEST_P(WireSegment, AReadRequestWithMoreThanItsHeader) {
  Run({.name = "47",
       .make =
           [](WireSide*) {
             Bytes fpdu = ReadRequest({}) + Some(1);
             Write16(&fpdu, 0, 47);
             return One(std::move(fpdu));
           },
       .layer = 2,
       .type = 0,
       .code = 3,
       .async_event = IBV_EVENT_QP_FATAL});
}

// --- WRITEs ---

TEST_P(WireSegment, WritesToWhatIsNotThePeers) {
  struct Target {
    const char* name;
    std::function<uint32_t(WireSide*)> stag;
    std::function<uint64_t(WireSide*)> to;
    int type, code;
  };
  const auto key = [](WireSide* side) { return side->writable().key(); };
  const auto at = [](WireSide* side) { return side->writable().address(); };
  const auto constant = [](uint32_t value) {
    return [value](WireSide*) { return value; };
  };
  const auto near = [](int64_t offset) {
    return [offset](WireSide* side) {
      return side->writable().address() + static_cast<uint64_t>(offset);
    };
  };
  const auto kEnd = static_cast<int64_t>(GuardedRegion::kBytes);
  const std::vector<Target> targets = {
      {"no key", constant(kGarbageKey), at, 1, 0},
      {"key 0", constant(0), at, 1, 0},
      {"key 1", constant(1), at, 1, 0},
      {"key of all bits", constant(UINT32_MAX), at, 1, 0},
      {"one bit", [&](WireSide* s) { return s->writable().key() ^ 1; }, at, 1,
       0},
      {"another PD's", [](WireSide* s) { return s->stranger().key(); },
       [](WireSide* s) { return s->stranger().address(); }, 1, 2},
      {"not writable", [](WireSide* s) { return s->readable().key(); },
       [](WireSide* s) { return s->readable().address(); }, 1, 0},
      {"a receive's", [](WireSide* s) { return s->local().key(); },
       [](WireSide* s) { return s->local().address(); }, 1, 0},
      {"deregistered", [](WireSide* s) { return s->gone().key(); },
       [](WireSide* s) { return s->gone().address(); }, 1, 0},
      {"in front", key, near(-8), 1, 1},
      {"partly in front", key, near(-1), 1, 1},
      {"behind", key, near(kEnd), 1, 1},
      {"partly behind", key, near(kEnd - 7), 1, 1},
      {"far behind", key, near(int64_t{1} << 40), 1, 1},
      {"at 0", key, [](WireSide*) { return uint64_t{0}; }, 1, 1},
      {"around the end", key, [](WireSide*) { return UINT64_MAX - 3; }, 1, 3},
      {"at the end", key, [](WireSide*) { return UINT64_MAX; }, 1, 3},
  };
  for (const Target& target : targets) {
    Run({.name = target.name,
         .make =
             [&](WireSide* side) {
               return One(Tagged(kWriteLast, target.stag(side), target.to(side),
                                 Bytes(8)));
             },
         .layer = 1,
         .type = target.type,
         .code = target.code,
         .async_event = IBV_EVENT_QP_ACCESS_ERR});
    Run({.name = absl::StrCat(target.name, ", of nothing"),
         .make = [&](WireSide* side) {
           return One(Tagged(kWriteLast, target.stag(side), target.to(side)));
         }});
  }
}

TEST_P(WireSegment, AWriteThatRunsOutOfItsRegion) {
  Run({.name = "in its second segment",
       .make =
           [](WireSide* side) {
             const uint32_t key = side->writable().key();
             const uint64_t end =
                 side->writable().address() + side->writable().size();
             return std::vector{
                 Tagged(kWriteLast & ~kLastBit, key, end - 8, Bytes(8)),
                 Tagged(kWriteLast, key, end, Bytes(8))};
           },
       .layer = 1,
       .type = 1,
       .code = 1,
       .async_event = IBV_EVENT_QP_ACCESS_ERR,
       .writes = true});
}

// --- SENDs ---

TEST_P(WireSegment, SendsOutOfOrder) {
  for (const uint32_t msn : {0u, 2u, 0x80000001u, UINT32_MAX}) {
    Run({.name = absl::StrCat("MSN ", msn),
         .make =
             [=](WireSide*) {
               return One(Untagged(kSendLast, 0, 0, msn, 0, Bytes(8)));
             },
         .layer = 1,
         .type = 2,
         .code = 3,
         .async_event = IBV_EVENT_QP_REQ_ERR});
  }
  Run({.name = "MSN 1 again",
       .make =
           [](WireSide*) {
             return std::vector{Untagged(kSendLast, 0, 0, 1, 0),
                                Untagged(kSendLast, 0, 0, 1, 0)};
           },
       .layer = 1,
       .type = 2,
       .code = 3,
       .async_event = IBV_EVENT_QP_REQ_ERR,
       .receive_status = IBV_WC_SUCCESS});
}

TEST_P(WireSegment, SendsWithHoles) {
  for (const uint32_t mo : {1u, 8u, 256u, UINT32_MAX}) {
    Run({.name = absl::StrCat("MO ", mo),
         .make =
             [=](WireSide*) {
               return One(Untagged(kSendLast, 0, 0, 1, mo, Bytes(8)));
             },
         .layer = 1,
         .type = 2,
         .code = 4,
         .async_event = IBV_EVENT_QP_REQ_ERR});
  }
  for (const uint32_t mo : {0u, 7u, 9u, UINT32_MAX}) {
    Run({.name = absl::StrCat("MO ", mo, " second"),
         .make =
             [=](WireSide*) {
               return std::vector{
                   Untagged(kSendLast & ~kLastBit, 0, 0, 1, 0, Bytes(8)),
                   Untagged(kSendLast, 0, 0, 1, mo, Bytes(8))};
             },
         .layer = 1,
         .type = 2,
         .code = 4,
         .async_event = IBV_EVENT_QP_REQ_ERR,
         .writes = true});
  }
}

TEST_P(WireSegment, MessagesOnAQueueThatIsNotTheirs) {
  for (const uint32_t queue : {1u, 2u, 3u, 0x01000000u, UINT32_MAX}) {
    Run({.name = absl::StrCat("queue ", queue),
         .make =
             [=](WireSide*) {
               return One(Untagged(kSendLast, 0, queue, 1, 0, Bytes(8)));
             },
         .layer = 1,
         .type = 2,
         .code = 1,
         .async_event = IBV_EVENT_QP_FATAL});
  }
}

TEST_P(WireSegment, SendsThatAreTooLong) {
  const size_t most = WireSide::kReceiveBytes;
  Run({.name = "by one",
       .make =
           [=](WireSide*) {
             return One(Untagged(kSendLast, 0, 0, 1, 0, Bytes(most + 1)));
           },
       .layer = 1,
       .type = 2,
       .code = 5,
       .async_event = IBV_EVENT_QP_REQ_ERR,
       .receive_status = IBV_WC_LOC_LEN_ERR});
  Run({.name = "in its second segment",
       .make =
           [=](WireSide*) {
             return std::vector{
                 Untagged(kSendLast & ~kLastBit, 0, 0, 1, 0, Bytes(most)),
                 Untagged(kSendLast, 0, 0, 1, most, Bytes(1))};
           },
       .layer = 1,
       .type = 2,
       .code = 5,
       .async_event = IBV_EVENT_QP_REQ_ERR,
       .receive_status = IBV_WC_LOC_LEN_ERR,
       .writes = true});
  Run({.name = "by nothing",
       .make =
           [=](WireSide*) {
             return std::vector{
                 Untagged(kSendLast & ~kLastBit, 0, 0, 1, 0, Some(most)),
                 Untagged(kSendLast, 0, 0, 1, most, {})};
           },
       .next_msn = 2});
}

TEST_P(WireSegment, SendsWithoutAReceive) {
  Run({.name = "none",
       .make =
           [](WireSide*) {
             return One(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)));
           },
       .layer = 1,
       .type = 2,
       .code = 2,
       .async_event = IBV_EVENT_QP_REQ_ERR,
       .post = 0});
  Run({.name = "no second",
       .make =
           [](WireSide*) {
             return std::vector{Untagged(kSendLast, 0, 0, 1, 0),
                                Untagged(kSendLast, 0, 0, 2, 0)};
           },
       .layer = 1,
       .type = 2,
       .code = 2,
       .async_event = IBV_EVENT_QP_REQ_ERR,
       .receive_status = IBV_WC_SUCCESS,
       .post = 1});
}

TEST_P(WireSegment, InvalidatesWhatIsNotThePeers) {
  const struct {
    const char* name;
    std::function<uint32_t(WireSide*)> key;
  } keys[] = {
      {"no key", [](WireSide*) { return kGarbageKey; }},
      {"key 0", [](WireSide*) { return 0u; }},
      {"another PD's", [](WireSide* s) { return s->stranger().key(); }},
      {"deregistered", [](WireSide* s) { return s->gone().key(); }},
      // Which the peer learns from a READ, and others use, too.
      {"a READ's sink", [](WireSide* s) { return s->sink().key(); }},
      {"a receive's", [](WireSide* s) { return s->local().key(); }},
  };
  for (const auto& key : keys) {
    for (const uint16_t control : {uint16_t{0x4144}, uint16_t{0x4146}}) {
      Run({.name = key.name,
           .make =
               [&](WireSide* side) {
                 return One(Untagged(control, key.key(side), 0, 1, 0, Some(8)));
               },
           .layer = 0,
           .type = 1,
           .code = 9,
           .async_event = IBV_EVENT_QP_ACCESS_ERR,
           .receive_status = IBV_WC_LOC_PROT_ERR});
    }
  }
}

TEST_P(WireSegment, AnInvalidatedKeyIsOfNoUse) {
  GuardedRegion region(side_.pd(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Run({.name = "written to",
       .make =
           [&](WireSide*) {
             return std::vector{
                 Tagged(kWriteLast, region.key(), region.address(), Some(8)),
                 Untagged(kSendInvalidateLast, region.key(), 0, 1, 0),
                 Tagged(kWriteLast, region.key(), region.address(), Bytes(8))};
           },
       .layer = 1,
       .type = 1,
       .code = 0,
       .async_event = IBV_EVENT_QP_ACCESS_ERR,
       .receive_status = IBV_WC_SUCCESS});
  Run({.name = "invalidated",
       .make =
           [&](WireSide*) {
             return One(Untagged(kSendInvalidateLast, region.key(), 0, 1, 0));
           },
       .layer = 0,
       .type = 1,
       .code = 9,
       .async_event = IBV_EVENT_QP_ACCESS_ERR,
       .receive_status = IBV_WC_LOC_PROT_ERR});
  EXPECT_TRUE(region.IsUntouched(true));
}

// --- READ requests ---

TEST_P(WireSegment, ReadRequestsOutOfOrder) {
  const auto right = [](WireSide* side) {
    return ReadFields{.bytes = 8,
                      .source_stag = side->readable().key(),
                      .source_to = side->readable().address()};
  };
  for (const uint32_t msn : {0u, 2u, UINT32_MAX}) {
    Run({.name = absl::StrCat("MSN ", msn),
         .make =
             [=](WireSide* side) {
               ReadFields fields = right(side);
               fields.msn = msn;
               return One(ReadRequest(fields));
             },
         .layer = 1,
         .type = 2,
         .code = 3,
         .async_event = IBV_EVENT_QP_REQ_ERR});
  }
  Run({.name = "MO 4",
       .make =
           [=](WireSide* side) {
             Bytes fpdu = ReadRequest(right(side));
             Write16(&fpdu, 18, 4);
             return One(std::move(fpdu));
           },
       .layer = 1,
       .type = 2,
       .code = 4,
       .async_event = IBV_EVENT_QP_REQ_ERR});
}

TEST_P(WireSegment, ReadsOfWhatIsNotThePeers) {
  struct Source {
    const char* name;
    std::function<uint32_t(WireSide*)> stag;
    std::function<uint64_t(WireSide*)> to;
    uint32_t bytes;
    int code;
  };
  const auto key = [](WireSide* side) { return side->readable().key(); };
  const auto at = [](WireSide* side) { return side->readable().address(); };
  const auto near = [](int64_t offset) {
    return [offset](WireSide* side) {
      return side->readable().address() + static_cast<uint64_t>(offset);
    };
  };
  const auto kEnd = static_cast<int64_t>(GuardedRegion::kBytes);
  const std::vector<Source> sources = {
      {"no key", [](WireSide*) { return kGarbageKey; }, at, 8, 0},
      {"key 0", [](WireSide*) { return 0u; }, at, 8, 0},
      {"deregistered", [](WireSide* s) { return s->gone().key(); }, at, 8, 0},
      {"another PD's", [](WireSide* s) { return s->stranger().key(); },
       [](WireSide* s) { return s->stranger().address(); }, 8, 3},
      {"not readable", [](WireSide* s) { return s->writable().key(); },
       [](WireSide* s) { return s->writable().address(); }, 8, 2},
      {"a receive's", [](WireSide* s) { return s->local().key(); },
       [](WireSide* s) { return s->local().address(); }, 8, 2},
      {"in front", key, near(-8), 8, 1},
      {"partly in front", key, near(-1), 8, 1},
      {"behind", key, near(kEnd), 1, 1},
      {"partly behind", key, near(kEnd - 7), 8, 1},
      {"too much", key, at, GuardedRegion::kBytes + 1, 1},
      {"most", key, at, UINT32_MAX, 1},
      {"around the end", key, [](WireSide*) { return UINT64_MAX - 3; }, 8, 4},
      {"most at the end", key, [](WireSide*) { return UINT64_MAX - 8; },
       UINT32_MAX, 4},
  };
  for (const Source& source : sources) {
    Run({.name = source.name,
         .make =
             [&](WireSide* side) {
               return One(ReadRequest({.bytes = source.bytes,
                                       .source_stag = source.stag(side),
                                       .source_to = source.to(side)}));
             },
         .layer = 0,
         .type = 1,
         .code = source.code,
         .async_event = IBV_EVENT_QP_ACCESS_ERR});
    Run({.name = absl::StrCat(source.name, ", nothing"),
         .make = [&](WireSide* side) {
           return One(ReadRequest({.bytes = 0,
                                   .source_stag = source.stag(side),
                                   .source_to = source.to(side)}));
         }});
  }
}

TEST_P(WireSegment, MoreReadsThanAgreedOn) {
  Run({.name = "one more",
       .make =
           [](WireSide* side) {
             std::vector<Bytes> requests;
             for (uint32_t msn = 1; msn <= kPeerOrd + 1; ++msn) {
               requests.push_back(
                   ReadRequest({.msn = msn,
                                .bytes = 8,
                                .source_stag = side->readable().key(),
                                .source_to = side->readable().address()}));
             }
             return requests;
           },
       .layer = 0,
       .type = 2,
       .code = 7,
       .async_event = IBV_EVENT_QP_REQ_ERR});
}

// --- READ responses ---

Bytes Response(WireSide* side, uint64_t offset, size_t bytes, bool last = true,
               uint32_t key_error = 0) {
  return Tagged(
      static_cast<uint16_t>(kReadResponseLast & (last ? ~0 : ~0x4000)),
      side->sink().key() ^ key_error, side->sink().address() + offset,
      Bytes(bytes));
}

TEST_P(WireSegment, AnswersThatNobodyAskedFor) {
  for (const size_t bytes : {size_t{0}, size_t{8}}) {
    Run({.name = absl::StrCat(bytes, " bytes"),
         .make = [=](WireSide* side) { return One(Response(side, 0, bytes)); },
         .layer = 1,
         .type = 1,
         .code = 0,
         .async_event = IBV_EVENT_QP_FATAL});
  }
  Run({.name = "once more",
       .make =
           [](WireSide* side) {
             return std::vector{Response(side, 0, kReadBytes),
                                Response(side, 0, kReadBytes)};
           },
       .layer = 1,
       .type = 1,
       .code = 0,
       .async_event = IBV_EVENT_QP_FATAL,
       .reads = 1,
       .read_status = IBV_WC_SUCCESS,
       .writes = true});
}

TEST_P(WireSegment, AnswersThatAreNotWhatWasAskedFor) {
  const struct {
    const char* name;
    std::function<std::vector<Bytes>(WireSide*)> make;
    int code;
    bool writes = false;
  } answers[] = {
      {"wrong key",
       [](WireSide* s) { return One(Response(s, 0, kReadBytes, true, 1)); }, 0},
      {"key of other memory",
       [](WireSide* s) {
         return One(Tagged(kReadResponseLast, s->local().key(),
                           s->local().address(), Bytes(kReadBytes)));
       },
       0},
      {"in front",
       [](WireSide* s) { return One(Response(s, UINT64_MAX, kReadBytes)); }, 1},
      {"behind", [](WireSide* s) { return One(Response(s, 1, kReadBytes)); },
       1},
      {"too long",
       [](WireSide* s) { return One(Response(s, 0, kReadBytes + 1)); }, 1},
      {"too long, not last",
       [](WireSide* s) { return One(Response(s, 0, kReadBytes + 1, false)); },
       1},
      {"too short",
       [](WireSide* s) { return One(Response(s, 0, kReadBytes - 1)); }, 1},
      {"nothing", [](WireSide* s) { return One(Response(s, 0, 0)); }, 1},
      {"endless",
       [](WireSide* s) { return One(Response(s, 0, kReadBytes, false)); }, 1},
      {"second half again",
       [](WireSide* s) {
         return std::vector{Response(s, 0, 32, false), Response(s, 0, 32)};
       },
       1, true},
      {"second half too long",
       [](WireSide* s) {
         return std::vector{Response(s, 0, 32, false), Response(s, 32, 33)};
       },
       1, true},
  };
  for (const auto& answer : answers) {
    Run({.name = answer.name,
         .make = answer.make,
         .layer = 1,
         .type = 1,
         .code = answer.code,
         .async_event = IBV_EVENT_QP_FATAL,
         .reads = 2,
         .read_status = IBV_WC_BAD_RESP_ERR,
         .writes = answer.writes});
  }
}

TEST_P(WireSegment, AnAnswerWhoseSinkIsGone) {
  Run({.name = "deregistered",
       .make =
           [](WireSide* side) {
             Bytes response = Response(side, 0, kReadBytes);
             side->sink().Deregister();
             return One(std::move(response));
           },
       .layer = 1,
       .type = 1,
       .code = 0,
       .async_event = IBV_EVENT_QP_ACCESS_ERR,
       .reads = 1,
       .read_status = IBV_WC_LOC_PROT_ERR});
}

// --- Terminate ---

TEST_P(WireSegment, TerminatesOfThePeers) {
  const struct {
    const char* body;
    ibv_wc_status status;
  } bodies[] = {
      {"01020000", IBV_WC_REM_ACCESS_ERR},  // RDMAP, access
      {"11010000", IBV_WC_REM_ACCESS_ERR},  // DDP, bounds
      {"10010700", IBV_WC_REM_ACCESS_ERR},  // as siw writes it
      {"02060000", IBV_WC_REM_OP_ERR},      // opcode
      {"12050000", IBV_WC_REM_OP_ERR},      // too long
      {"20020000", IBV_WC_REM_OP_ERR},      // MPA, checksum
      {"00000000", IBV_WC_REM_OP_ERR},
      {"ffffffff", IBV_WC_REM_OP_ERR},
      {"0102e000 002e 4141", IBV_WC_REM_ACCESS_ERR},  // headers cut short
  };
  for (const auto& body : bodies) {
    Run({.name = body.body,
         .make =
             [&](WireSide*) {
               return One(
                   Untagged(kTerminateLast, 0, 2, 1, 0, FromHex(body.body)));
             },
         .async_event = IBV_EVENT_QP_FATAL,
         .reads = 2,
         .read_status = body.status,
         .silent = true});
  }
  Run({.name = "longest",
       .make =
           [](WireSide*) {
             return One(Untagged(kTerminateLast, 0, 2, 1, 0,
                                 FromHex("01020000") + Some(4000)));
           },
       .async_event = IBV_EVENT_QP_FATAL,
       .silent = true});
}

// --- trailers ---

TEST_P(WireSegment, PaddingMayBeAnything) {
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, crc());
  ASSERT_TRUE(raw.Send(
      Seal(Untagged(kSendLast, 0, 0, 1, 0, Some(5)), crc(), std::byte{0xee})));
  ExpectAlive(&raw, connection, 2);
  EXPECT_TRUE(side_.IsNothingWritten());
}

TEST_P(WireSegment, EveryBitOfAChecksummedFpdu) {
  if (!crc()) return;
  const Bytes right = Seal(Untagged(kSendLast, 0, 0, 1, 0, Some(5)), true);
  // From the payload on: what is in front of it has meanings of its own.
  for (size_t bit = 20 * 8; bit < right.size() * 8; bit += 3) {
    SCOPED_TRACE(bit);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, true);
    Bytes text = right;
    text[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_TRUE(raw.Send(text));
    ExpectFault(
        &raw, connection,
        {.layer = 2, .type = 0, .code = 2, .async_event = IBV_EVENT_QP_FATAL});
    EXPECT_TRUE(side_.AreGuardsIntact());
    side_.Destroy(connection);
  }
  ExpectOtherAlive();
}

INSTANTIATE_TEST_SUITE_P(Crc, WireSegment, testing::Bool(),
                         [](const auto& param_info) {
                           return param_info.param ? "On" : "Off";
                         });

}  // namespace
}  // namespace sluice::iwarp
