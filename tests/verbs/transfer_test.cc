// SEND, WRITE and READ move the right bytes and no others, whatever their size
// and however many pieces they are in.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

constexpr uint32_t kMebibyte = 1 << 20;
constexpr uint32_t kSizes[] = {1,    7,     8,     64,     1448,         4096,
                               4097, 65536, 65537, 262144, kMebibyte + 3};
// Where the bytes are put, and what is around them.
constexpr size_t kMargin = 64;
constexpr uint8_t kUntouched = 0xee;

// `count` pieces, odd lengths, that make up `length_bytes` from `offset` on.
std::vector<ibv_sge> Pieces(const Endpoint& end, size_t offset,
                            uint32_t length_bytes, uint32_t count) {
  std::vector<ibv_sge> sges;
  uint32_t left = length_bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t even = length_bytes / count;
    uint32_t piece = std::min(left, even + (i % 2 == 0 ? 1 : 0));
    if (i + 1 == count) piece = left;
    sges.push_back(end.Sge(offset, piece));
    offset += piece;
    left -= piece;
  }
  return sges;
}

class Transfer : public Verbs {
 protected:
  static PairOptions Options() {
    PairOptions options;
    return options.Both([](EndpointOptions* end) {
      end->memory_bytes = kMebibyte + 4096;
      end->sge = 64;  // or what the device has
    });
  }

  // What `to` has from kMargin on is the pattern, and nothing else changed.
  static void ExpectArrived(Endpoint* to, uint64_t seed, uint32_t bytes) {
    EXPECT_EQ(to->memory().DiffersFrom(kUntouched, 0, kMargin), "");
    EXPECT_EQ(to->memory().Differs(seed, kMargin, bytes), "");
    EXPECT_EQ(to->memory().DiffersFrom(kUntouched, kMargin + bytes, kMargin),
              "");
  }

  static void Prepare(Endpoint* from, Endpoint* to, uint64_t seed,
                      uint32_t bytes) {
    to->memory().Fill(kUntouched);
    from->memory().FillPattern(seed, kMargin, bytes);
  }

  static void Send(Endpoint* from, Endpoint* to, uint32_t bytes,
                   uint32_t from_pieces, uint32_t to_pieces, unsigned flags) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes, " << from_pieces
                                    << " to " << to_pieces << " pieces");
    const uint64_t seed = bytes + from_pieces;
    Prepare(from, to, seed, bytes);

    ASSERT_EQ(to->PostRecv(7, Pieces(*to, kMargin, bytes, to_pieces)), 0);
    ASSERT_EQ(from->Post({.wr_id = 8,
                          .sges = Pieces(*from, kMargin, bytes, from_pieces),
                          .flags = flags | IBV_SEND_SIGNALED}),
              0);

    const auto sent = from->TakeSent(1);
    const auto received = to->TakeReceived(1);
    ASSERT_EQ(Statuses(sent), "SUCCESS");
    ASSERT_EQ(Statuses(received), "SUCCESS");
    EXPECT_EQ(sent[0].wr_id, 8U);
    EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
    EXPECT_EQ(sent[0].qp_num, from->qp()->qp_num);
    EXPECT_EQ(received[0].wr_id, 7U);
    EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
    EXPECT_EQ(received[0].byte_len, bytes);
    EXPECT_EQ(received[0].qp_num, to->qp()->qp_num);
    ExpectArrived(to, seed, bytes);
  }

  static void Write(Pair* pair, uint32_t bytes, uint32_t pieces,
                    unsigned flags) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes, " << pieces);
    Endpoint* from = pair->active.get();
    Endpoint* to = pair->passive.get();
    const uint64_t seed = bytes + 100 + pieces;
    Prepare(from, to, seed, bytes);

    ASSERT_EQ(from->Post({.wr_id = 9,
                          .opcode = IBV_WR_RDMA_WRITE,
                          .sges = Pieces(*from, kMargin, bytes, pieces),
                          .flags = flags | IBV_SEND_SIGNALED,
                          .remote = to->At(kMargin)}),
              0);

    const auto sent = from->TakeSent(1);
    ASSERT_EQ(Statuses(sent), "SUCCESS");
    EXPECT_EQ(sent[0].opcode, IBV_WC_RDMA_WRITE);
    // The peer was told nothing: a SEND behind it says that it is there.
    ASSERT_TRUE(pair->Greet());
    ExpectArrived(to, seed, bytes);
  }

  static void Read(Endpoint* to, Endpoint* from, uint32_t bytes) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes");
    Prepare(from, to, bytes, bytes);

    ASSERT_EQ(to->PostRead(10, to->Sge(kMargin, bytes), from->At(kMargin)), 0);

    const auto sent = to->TakeSent(1);
    ASSERT_EQ(Statuses(sent), "SUCCESS");
    EXPECT_EQ(sent[0].opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(sent[0].wr_id, 10U);
    ExpectArrived(to, bytes, bytes);
  }
};

TEST_F(Transfer, SendsOfEverySizeBothWays) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  for (const uint32_t bytes : kSizes) {
    Send(pair.active.get(), pair.passive.get(), bytes, 1, 1, 0);
    Send(pair.passive.get(), pair.active.get(), bytes, 1, 1, 0);
  }
}

TEST_F(Transfer, WritesOfEverySize) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  for (const uint32_t bytes : kSizes) Write(&pair, bytes, 1, 0);
}

TEST_F(Transfer, ReadsOfEverySizeBothWays) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  for (const uint32_t bytes : kSizes) {
    Read(pair.active.get(), pair.passive.get(), bytes);
    Read(pair.passive.get(), pair.active.get(), bytes);
  }
}

TEST_F(Transfer, GathersAndScatters) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  const auto most = static_cast<uint32_t>(Device().attr.max_sge);
  ASSERT_GE(most, 2U);
  for (const uint32_t bytes : {64U, 1448U, 65537U, kMebibyte + 3}) {
    Send(pair.active.get(), pair.passive.get(), bytes, most, 1, 0);
    Send(pair.active.get(), pair.passive.get(), bytes, 1, most, 0);
    Send(pair.active.get(), pair.passive.get(), bytes, most, 2, 0);
    Send(pair.active.get(), pair.passive.get(), bytes, 3, most, 0);
    Write(&pair, bytes, most, 0);
  }
}

TEST_F(Transfer, EmptyPiecesAreNothing) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  Endpoint* from = pair.active.get();
  Endpoint* to = pair.passive.get();
  Prepare(from, to, 5, 100);

  ASSERT_EQ(
      to->PostRecv(1, {to->Sge(0, 0), to->Sge(kMargin, 100), to->Sge(0, 0)}),
      0);
  ASSERT_EQ(
      from->Post({.wr_id = 2,
                  .sges = {from->Sge(0, 0), from->Sge(kMargin, 60),
                           from->Sge(0, 0), from->Sge(kMargin + 60, 40)}}),
      0);

  EXPECT_EQ(Statuses(from->TakeSent(1)), "SUCCESS");
  EXPECT_EQ(Statuses(to->TakeReceived(1)), "SUCCESS");
  ExpectArrived(to, 5, 100);
}

TEST_F(Transfer, ReceiveMayBeLongerThanTheSend) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  Prepare(pair.active.get(), pair.passive.get(), 3, 1000);

  ASSERT_EQ(pair.passive->PostRecv(1, pair.passive->Sge(kMargin, 4096)), 0);
  ASSERT_EQ(pair.active->PostSend(2, pair.active->Sge(kMargin, 1000)), 0);

  const auto received = pair.passive->TakeReceived(1);
  ASSERT_EQ(Statuses(received), "SUCCESS");
  EXPECT_EQ(received[0].byte_len, 1000U);
  ExpectArrived(pair.passive.get(), 3, 1000);
}

// Inline data is copied before the post returns.
TEST_F(Transfer, InlineBufferIsFreeAtOnce) {
  PairOptions options = Options();
  options.active.inline_bytes = 64;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* from = pair.active.get();
  Endpoint* to = pair.passive.get();
  ASSERT_GE(from->cap.max_inline_data, 64U);

  for (const uint32_t bytes : {1U, 7U, 8U, 33U, from->cap.max_inline_data}) {
    SCOPED_TRACE(bytes);
    Prepare(from, to, bytes, bytes);
    ASSERT_EQ(to->PostRecv(1, to->Sge(kMargin, bytes)), 0);
    ibv_sge sge = from->Sge(kMargin, bytes);
    sge.lkey = 0x12345678;  // nobody looks at it
    ASSERT_EQ(from->PostSend(2, sge, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
    from->memory().Fill(0);
    ASSERT_EQ(Statuses(from->TakeSent(1)), "SUCCESS");
    ASSERT_EQ(Statuses(to->TakeReceived(1)), "SUCCESS");
    ExpectArrived(to, bytes, bytes);

    Prepare(from, to, bytes + 1, bytes);
    ASSERT_EQ(from->PostWrite(3, sge, to->At(kMargin),
                              IBV_SEND_SIGNALED | IBV_SEND_INLINE),
              0);
    from->memory().Fill(0);
    ASSERT_EQ(Statuses(from->TakeSent(1)), "SUCCESS");
    ASSERT_TRUE(pair.Greet());
    ExpectArrived(to, bytes + 1, bytes);
  }
}

TEST_F(Transfer, TooMuchInlineIsRefused) {
  PairOptions options = Options();
  options.active.inline_bytes = 64;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  const uint32_t bytes = pair.active->cap.max_inline_data + 1;
  const int error = pair.active->PostSend(2, pair.active->Sge(0, bytes),
                                          IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  Check("post", ErrnoName(error), {"EINVAL", "ENOMEM"});
  if (error == 0) return;  // and nobody waits for it
  EXPECT_TRUE(pair.Greet());
}

// No memory at all: no piece, or pieces of no bytes, with keys of nothing.
TEST_F(Transfer, NothingIsTransferredToo) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  Endpoint* from = pair.active.get();
  Endpoint* to = pair.passive.get();
  const Remote nowhere = {0xdead'0000'0000'0000, 0x0bad'c0de};
  const ibv_sge garbage = {.addr = 0xdead'0000, .length = 0, .lkey = 0x0bad};

  for (const bool with_piece : {false, true}) {
    SCOPED_TRACE(with_piece);
    const std::string how = with_piece ? "empty piece" : "no piece";
    if (Spared(how)) continue;
    std::vector<ibv_sge> sges;
    if (with_piece) sges.push_back(garbage);
    ASSERT_EQ(to->PostRecv(1, sges), 0);
    ASSERT_EQ(from->Post({.wr_id = 2, .sges = sges}), 0);
    ASSERT_EQ(from->Post({.wr_id = 3,
                          .opcode = IBV_WR_RDMA_WRITE,
                          .sges = sges,
                          .remote = nowhere}),
              0);
    ASSERT_EQ(from->Post({.wr_id = 4,
                          .opcode = IBV_WR_RDMA_READ,
                          .sges = sges,
                          .remote = nowhere}),
              0);

    const auto sent = from->TakeSent(3);
    EXPECT_EQ(Statuses(sent), "SUCCESS SUCCESS SUCCESS");
    EXPECT_EQ(WrIds(sent), (std::vector<uint64_t>{2, 3, 4}));
    const auto received = to->TakeReceived(1);
    ASSERT_EQ(Statuses(received), "SUCCESS");
    EXPECT_EQ(received[0].byte_len, 0U);
  }
  EXPECT_TRUE(pair.Greet());
}

// More than sockets hold, both ways at once: nobody waits for the other.
TEST_F(Transfer, LargeOnesBothWaysAtOnce) {
  constexpr uint64_t kCount = 8;
  PairOptions options;
  options.Both([](EndpointOptions* end) {
    end->memory_bytes = 3 * kMebibyte + 4096;
    end->send_wr = 2 * kCount + 1;
  });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  Endpoint* passive = pair.passive.get();
  active->memory().FillPattern(1, 0, kMebibyte);
  passive->memory().FillPattern(2, 0, kMebibyte);
  for (uint64_t i = 0; i < kCount; ++i) {
    for (Endpoint* end : {active, passive}) {
      Endpoint* peer = end == active ? passive : active;
      ASSERT_EQ(end->PostWrite(i, end->Sge(0, kMebibyte), peer->At(kMebibyte)),
                0);
      ASSERT_EQ(
          end->PostRead(i, end->Sge(2 * kMebibyte, kMebibyte), peer->At(0)), 0);
    }
  }
  for (Endpoint* end : {active, passive}) {
    for (const ibv_wc& wc : end->TakeSent(2 * kCount)) {
      ASSERT_EQ(StatusName(wc.status), "SUCCESS");
    }
  }
  ASSERT_TRUE(pair.Greet());
  for (const size_t at : {size_t{kMebibyte}, size_t{2} * kMebibyte}) {
    EXPECT_EQ(active->memory().Differs(2, at, kMebibyte), "");
    EXPECT_EQ(passive->memory().Differs(1, at, kMebibyte), "");
  }
}

// Many at once, of all sorts, both ways: each byte where it belongs.
TEST_F(Transfer, MixedTrafficBothWays) {
  constexpr uint32_t kSlots = 8;
  constexpr uint32_t kSlotBytes = 9001;
  PairOptions options;
  options.Both([](EndpointOptions* end) {
    end->memory_bytes = size_t{6} * kSlots * kSlotBytes;
    end->send_wr = 3 * kSlots;
    end->recv_wr = kSlots + 1;
  });
  options.active.send_wr += 1;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  // Thirds: from here, from the peer by SEND, by WRITE, and by READ.
  const auto place = [](int part, uint32_t slot) {
    return (static_cast<size_t>(part) * kSlots + slot) * kSlotBytes;
  };

  for (int round = 0; round < 20 * Flags().scale; ++round) {
    SCOPED_TRACE(round);
    const auto seed = static_cast<uint64_t>(round) * 100;
    for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
      end->memory().Fill(0);
      const uint64_t own = seed + (end == pair.active.get() ? 0 : 50);
      for (uint32_t i = 0; i < kSlots; ++i) {
        end->memory().FillPattern(own + i, place(0, i), kSlotBytes);
        ASSERT_EQ(end->PostRecv(i, end->Sge(place(1, i), kSlotBytes)), 0);
      }
    }
    for (uint32_t i = 0; i < kSlots; ++i) {
      for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
        Endpoint* peer =
            end == pair.active.get() ? pair.passive.get() : pair.active.get();
        const ibv_sge own = end->Sge(place(0, i), kSlotBytes);
        ASSERT_EQ(end->PostWrite(i, own, peer->At(place(2, i))), 0);
        ASSERT_EQ(end->PostRead(i, end->Sge(place(3, i), kSlotBytes),
                                peer->At(place(0, i))),
                  0);
        ASSERT_EQ(end->PostSend(i, own), 0);
      }
    }
    for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
      for (const auto& wc : end->TakeSent(3 * kSlots)) {
        ASSERT_EQ(StatusName(wc.status), "SUCCESS");
      }
      for (const auto& wc : end->TakeReceived(kSlots)) {
        ASSERT_EQ(StatusName(wc.status), "SUCCESS");
      }
      const uint64_t peers = seed + (end == pair.active.get() ? 50 : 0);
      for (const int part : {1, 2, 3}) {
        for (uint32_t i = 0; i < kSlots; ++i) {
          ASSERT_EQ(
              end->memory().Differs(peers + i, place(part, i), kSlotBytes), "")
              << "part " << part << " slot " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::verbs
