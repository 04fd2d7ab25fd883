#include "transport/iwarp/mpa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "tests/support/raw_stream.h"

namespace sluice::iwarp {
namespace {

Bytes Encoded(const MpaFrame& frame) {
  Bytes text(kMpaFrameMax);
  text.resize(EncodeMpa(frame, text.data()));
  return text;
}

// Of memory that ends where the bytes do.
MpaError Decode(Bytes bytes, bool reply, MpaFrame* frame, size_t* needed) {
  bytes.shrink_to_fit();
  return DecodeMpa(bytes, reply, frame, needed);
}

MpaError ErrorOf(const Bytes& bytes, bool reply = false) {
  MpaFrame frame;
  size_t needed = 0;
  return Decode(bytes, reply, &frame, &needed);
}

MpaFrame WithData(size_t bytes) {
  MpaFrame frame;
  frame.user_bytes = static_cast<uint16_t>(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    frame.user_data[i] = static_cast<std::byte>(i * 7 + 1);
  }
  return frame;
}

// What a Linux host on siw sends [iwarp §1.2].
TEST(Mpa, EncodesTheRequestOfALinuxHost) {
  MpaFrame frame = WithData(32);
  frame.ird = 128;

  const Bytes text = Encoded(frame);

  const Bytes start =
      FromHex("4d504120494420526571204672616d65 10 02 0024 0080 0000");
  EXPECT_EQ(Bytes(text.begin(), text.begin() + 24), start);
  EXPECT_EQ(text.size(), 56U);
}

TEST(Mpa, EveryFieldSurvivesTheWire) {
  for (int bits = 0; bits < 512; ++bits) {
    MpaFrame frame = WithData(static_cast<size_t>(bits % 37));
    const auto bit = [bits](int n) { return (bits >> n & 1) != 0; };
    frame.reply = bit(0);
    frame.markers = bit(1);
    frame.crc = bit(2);
    frame.rejected = bit(3) && frame.reply;
    frame.peer_to_peer = bit(4);
    frame.rtr_send = bit(5);
    frame.rtr_write = bit(6);
    frame.rtr_read = bit(7);
    frame.ird = bit(8) ? 0x3fff : 5;
    frame.ord = bit(8) ? 0x1234 : 0;

    MpaFrame got;
    size_t needed = 0;
    const Bytes text = Encoded(frame);
    ASSERT_EQ(Decode(text, frame.reply, &got, &needed), MpaError::kNone);

    EXPECT_EQ(needed, text.size());
    EXPECT_EQ(got.reply, frame.reply);
    EXPECT_EQ(got.markers, frame.markers);
    EXPECT_EQ(got.crc, frame.crc);
    EXPECT_EQ(got.rejected, frame.rejected);
    EXPECT_TRUE(got.enhanced);
    EXPECT_EQ(got.peer_to_peer, frame.peer_to_peer);
    EXPECT_EQ(got.rtr_send, frame.rtr_send);
    EXPECT_EQ(got.rtr_write, frame.rtr_write);
    EXPECT_EQ(got.rtr_read, frame.rtr_read);
    EXPECT_EQ(got.ird, frame.ird);
    EXPECT_EQ(got.ord, frame.ord);
    EXPECT_TRUE(std::ranges::equal(got.user(), frame.user()));
  }
}

TEST(Mpa, EncodesAsTheRawPeerDoes) {
  MpaFrame frame = WithData(3);
  frame.reply = true;
  frame.crc = true;
  frame.ird = 16;
  frame.ord = 9;
  const MpaFields fields{
      .reply = true,
      .crc = true,
      .ird = 16,
      .ord = 9,
      .data = Bytes(frame.user_data.begin(), frame.user_data.begin() + 3)};

  EXPECT_EQ(Encoded(frame), MpaText(fields));
}

TEST(Mpa, RevisionOneHasNoBlock) {
  MpaFrame frame = WithData(kUserDataMaxRevision1);
  frame.revision = 1;
  const Bytes text = Encoded(frame);

  MpaFrame got;
  size_t needed = 0;
  ASSERT_EQ(Decode(text, false, &got, &needed), MpaError::kNone);

  EXPECT_EQ(text.size(), kMpaHeaderBytes + 255);
  EXPECT_FALSE(got.enhanced);
  EXPECT_EQ(got.user_bytes, 255);
}

TEST(Mpa, UserDataIsLimited) {
  EXPECT_EQ(Encoded(WithData(251)).size(), kMpaHeaderBytes + 255);
  EXPECT_DEATH(Encoded(WithData(252)), "user_bytes");
  MpaFrame frame = WithData(256);
  frame.revision = 1;
  EXPECT_DEATH(Encoded(frame), "user_bytes");
}

TEST(Mpa, EveryTruncationIsShort) {
  for (const bool reply : {false, true}) {
    const Bytes text = MpaText({.reply = reply, .data = Bytes(17)});
    for (size_t bytes = 0; bytes < text.size(); ++bytes) {
      MpaFrame frame;
      size_t needed = 0;
      const Bytes some(text.begin(),
                       text.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_EQ(Decode(some, reply, &frame, &needed), MpaError::kShort);
      EXPECT_EQ(needed,
                bytes < kMpaHeaderBytes ? kMpaHeaderBytes : text.size());
    }
  }
}

TEST(Mpa, AWrongKeyIsSeenAtItsFirstByte) {
  for (size_t at = 0; at < 16; ++at) {
    Bytes text = MpaText({});
    text[at] ^= std::byte{1};
    for (size_t bytes = at + 1; bytes <= text.size(); ++bytes) {
      const Bytes some(text.begin(),
                       text.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_EQ(ErrorOf(some), MpaError::kKey) << at << ", " << bytes;
    }
  }
}

TEST(Mpa, RequestsAndRepliesAreNotTakenForEachOther) {
  EXPECT_EQ(ErrorOf(MpaText({.reply = true}), false), MpaError::kKey);
  EXPECT_EQ(ErrorOf(MpaText({.reply = false}), true), MpaError::kKey);
}

TEST(Mpa, KnowsRevisionsOneAndTwo) {
  for (int revision = 0; revision < 256; ++revision) {
    const MpaError error =
        ErrorOf(MpaText({.revision = static_cast<uint8_t>(revision)}));
    EXPECT_EQ(error, revision == 1 || revision == 2 ? MpaError::kNone
                                                    : MpaError::kRevision)
        << revision;
  }
}

TEST(Mpa, PrivateDataIsLimited) {
  EXPECT_EQ(ErrorOf(MpaText({.data = Bytes(508)})), MpaError::kNone);
  EXPECT_EQ(ErrorOf(MpaText({.data = Bytes(509)})), MpaError::kLength);
  Bytes text = MpaText({});
  Write16(&text, 18, 65535);
  EXPECT_EQ(ErrorOf(text), MpaError::kLength);
}

TEST(Mpa, AnEnhancedFrameHasItsBlock) {
  for (uint16_t bytes = 0; bytes < 4; ++bytes) {
    Bytes text = MpaText({});
    Write16(&text, 18, bytes);
    EXPECT_EQ(ErrorOf(text), MpaError::kEnhanced) << bytes;
  }
}

TEST(Mpa, ReservedFlagsAreIgnored) {
  EXPECT_EQ(ErrorOf(MpaText({.more_flags = 0x0f})), MpaError::kNone);
}

TEST(Mpa, ARequestCannotReject) {
  MpaFrame frame;
  size_t needed = 0;
  ASSERT_EQ(Decode(MpaText({.more_flags = 0x20}), false, &frame, &needed),
            MpaError::kNone);
  EXPECT_FALSE(frame.rejected);
  ASSERT_EQ(Decode(MpaText({.reply = true, .more_flags = 0x20}), true, &frame,
                   &needed),
            MpaError::kNone);
  EXPECT_TRUE(frame.rejected);
}

TEST(Mpa, FpdusArePaddedToFour) {
  for (uint32_t ulpdu = 0; ulpdu <= 65535; ++ulpdu) {
    EXPECT_LT(FpduPad(ulpdu), 4u);
    EXPECT_EQ((2 + ulpdu + FpduPad(ulpdu)) % 4, 0u);
    EXPECT_EQ(FpduBytes(ulpdu), ((2 + ulpdu + 3) & ~3u) + 4);
  }
}

TEST(Mpa, MulpduFitsASegment) {
  EXPECT_EQ(Mulpdu(1448), 1442u);
  EXPECT_EQ(Mulpdu(1460), 1454u);
  EXPECT_EQ(Mulpdu(8948), 8942u);
  EXPECT_EQ(Mulpdu(65483), kMulpduMax);
  EXPECT_EQ(Mulpdu(0), kMulpduMin);
  EXPECT_EQ(Mulpdu(128), kMulpduMin);
  EXPECT_EQ(Mulpdu(UINT32_MAX), kMulpduMax);
  for (uint32_t emss = 137; emss < 64000; ++emss) {
    EXPECT_LE(FpduBytes(Mulpdu(emss)), emss);
  }
}

TEST(Mpa, ErrorsHaveNames) {
  for (const MpaError error :
       {MpaError::kNone, MpaError::kShort, MpaError::kKey, MpaError::kRevision,
        MpaError::kLength, MpaError::kEnhanced}) {
    EXPECT_STRNE(MpaErrorName(error), "?");
  }
}

}  // namespace
}  // namespace sluice::iwarp
