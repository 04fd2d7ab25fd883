#include "transport/iwarp/rdmap.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/support/raw_stream.h"
#include "transport/iwarp/mpa.h"

namespace sluice::iwarp {
namespace {

struct Decoded {
  HeaderResult result = HeaderResult::kShort;
  SegmentHeader header;
  uint32_t needed = 0;
  TerminateReason reason;
};

// Of memory that ends where the bytes do.
Decoded Decode(Bytes bytes) {
  bytes.shrink_to_fit();
  Decoded decoded;
  decoded.result =
      DecodeHeader(bytes.data(), static_cast<uint32_t>(bytes.size()),
                   &decoded.header, &decoded.needed, &decoded.reason);
  return decoded;
}

// One segment of each opcode, with what the raw peer makes of it.
struct Sample {
  Opcode opcode;
  Bytes text;
};

std::vector<Sample> Samples() {
  const Bytes some(40);
  std::vector<Sample> samples = {
      {Opcode::kWrite,
       Tagged(kWriteLast, 0x01020304, 0x05060708090a0b0c, some)},
      {Opcode::kReadRequest, ReadRequest({.msn = 3,
                                          .sink_stag = 4,
                                          .sink_to = 5,
                                          .bytes = 6,
                                          .source_stag = 7,
                                          .source_to = 8})},
      {Opcode::kReadResponse, Tagged(kReadResponseLast, 9, 10, some)},
      {Opcode::kTerminate,
       Untagged(kTerminateLast, 0, 2, 1, 0, FromHex("12020000"))}};
  for (const Opcode opcode :
       {Opcode::kSend, Opcode::kSendInvalidate, Opcode::kSendSolicited,
        Opcode::kSendSolicitedInvalidate}) {
    const auto control =
        static_cast<uint16_t>(0x4140 | static_cast<int>(opcode));
    samples.push_back({opcode, Untagged(control, 11, 0, 12, 13, some)});
  }
  return samples;
}

TEST(Rdmap, EncodesTaggedSegments) {
  Bytes text(kTaggedHeaderBytes);
  PutTagged(text.data(), Opcode::kWrite, true, 0, 0x01020304,
            0x05060708090a0b0c);
  EXPECT_EQ(text, Tagged(kWriteLast, 0x01020304, 0x05060708090a0b0c));

  PutTagged(text.data(), Opcode::kReadResponse, false, 0, 1, 0);
  EXPECT_EQ(ControlOf(text), 0x8142);
}

TEST(Rdmap, EncodesUntaggedSegments) {
  Bytes text(kUntaggedHeaderBytes);
  PutUntagged(text.data(), Opcode::kSendInvalidate, true, 0, 7, 0, 8, 9);
  EXPECT_EQ(text, Untagged(kSendInvalidateLast, 7, 0, 8, 9));

  PutUntagged(text.data(), Opcode::kSend, false, 0, 0, 0, 8, 9);
  EXPECT_EQ(ControlOf(text), 0x0143);
}

TEST(Rdmap, EncodesReadRequests) {
  Bytes text(kReadRequestBytes);
  PutReadRequest(text.data(), 3, 4, 5, 6, 7, 8);
  EXPECT_EQ(text, ReadRequest({.msn = 3,
                               .sink_stag = 4,
                               .sink_to = 5,
                               .bytes = 6,
                               .source_stag = 7,
                               .source_to = 8}));
}

TEST(Rdmap, DecodesEachOpcode) {
  for (const Sample& sample : Samples()) {
    const Decoded decoded = Decode(sample.text);
    ASSERT_EQ(decoded.result, HeaderResult::kComplete);
    EXPECT_EQ(decoded.header.opcode, sample.opcode);
    EXPECT_TRUE(decoded.header.last);
    EXPECT_EQ(decoded.needed, HeaderBytes(sample.opcode));
    EXPECT_EQ(decoded.header.ulpdu_bytes, sample.text.size() - 2);
    EXPECT_EQ(decoded.header.payload_bytes(),
              sample.text.size() - HeaderBytes(sample.opcode));
  }
  const SegmentHeader write = Decode(Samples()[0].text).header;
  EXPECT_EQ(write.stag, 0x01020304u);
  EXPECT_EQ(write.to, 0x05060708090a0b0cu);
  const SegmentHeader read = Decode(Samples()[1].text).header;
  EXPECT_EQ(read.msn, 3u);
  EXPECT_EQ(read.sink_stag, 4u);
  EXPECT_EQ(read.sink_to, 5u);
  EXPECT_EQ(read.read_bytes, 6u);
  EXPECT_EQ(read.source_stag, 7u);
  EXPECT_EQ(read.source_to, 8u);
  const SegmentHeader send = Decode(Samples()[4].text).header;
  EXPECT_EQ(send.stag, 11u);
  EXPECT_EQ(send.msn, 12u);
  EXPECT_EQ(send.mo, 13u);
}

TEST(Rdmap, EveryTruncationIsShort) {
  for (const Sample& sample : Samples()) {
    const uint32_t header = HeaderBytes(sample.opcode);
    for (uint32_t bytes = 0; bytes < header; ++bytes) {
      const Decoded decoded =
          Decode(Bytes(sample.text.begin(), sample.text.begin() + bytes));
      EXPECT_EQ(decoded.result, HeaderResult::kShort) << bytes;
      EXPECT_GT(decoded.needed, bytes);
      EXPECT_LE(decoded.needed, header);
    }
  }
}

TEST(Rdmap, ReservedBitsAreIgnored) {
  for (const Sample& sample : Samples()) {
    Bytes text = sample.text;
    Write16(&text, 2, static_cast<uint16_t>(ControlOf(text) | 0x3c30));
    EXPECT_EQ(Decode(text).result, HeaderResult::kComplete);
    EXPECT_EQ(Decode(text).header.opcode, sample.opcode);
  }
}

TEST(Rdmap, ASegmentHoldsItsHeader) {
  for (const Sample& sample : Samples()) {
    uint32_t least = HeaderBytes(sample.opcode) - 2;
    if (sample.opcode == Opcode::kTerminate) least += kTerminateFixedBytes;
    Bytes text = sample.text;
    for (uint32_t bytes = 0; bytes < least; ++bytes) {
      Write16(&text, 0, static_cast<uint16_t>(bytes));
      // Told by the first four bytes: nobody waits for what may not come.
      const Decoded decoded = Decode(Bytes(text.begin(), text.begin() + 4));
      EXPECT_EQ(decoded.result, HeaderResult::kBad) << bytes;
      EXPECT_EQ(decoded.reason, kMpaLength);
    }
    Write16(&text, 0, static_cast<uint16_t>(least));
    EXPECT_EQ(Decode(text).result, HeaderResult::kComplete);
    Write16(&text, 0, 65535);
    EXPECT_EQ(Decode(text).result, sample.opcode == Opcode::kReadRequest
                                       ? HeaderResult::kBad
                                       : HeaderResult::kComplete);
  }
}

TEST(Rdmap, VersionsAreChecked) {
  for (const Sample& sample : Samples()) {
    for (const int version : {0x0000, 0x0200, 0x0300}) {
      Bytes text = sample.text;
      Write16(&text, 2,
              static_cast<uint16_t>((ControlOf(text) & ~0x0300) | version));
      EXPECT_EQ(Decode(text).result, HeaderResult::kBad);
      EXPECT_EQ(Decode(text).reason, IsTagged(sample.opcode)
                                         ? kDdpTaggedVersion
                                         : kDdpUntaggedVersion);
    }
    for (const int version : {0x0000, 0x0080, 0x00c0}) {
      Bytes text = sample.text;
      Write16(&text, 2,
              static_cast<uint16_t>((ControlOf(text) & ~0x00c0) | version));
      EXPECT_EQ(Decode(text).result, HeaderResult::kBad);
      EXPECT_EQ(Decode(text).reason, kRdmapVersion);
    }
  }
}

TEST(Rdmap, TagAndOpcodeGoTogether) {
  for (int opcode = 0; opcode < 16; ++opcode) {
    for (const bool tagged : {false, true}) {
      const auto control =
          static_cast<uint16_t>(0x4140 | opcode | (tagged ? 0x8000 : 0));
      Bytes text;
      Append16(&text, 1000);
      Append16(&text, control);
      const bool right = opcode <= 7 && tagged == (opcode == 0 || opcode == 2);
      const Decoded decoded = Decode(text);
      EXPECT_EQ(decoded.result,
                right ? HeaderResult::kShort : HeaderResult::kBad);
      if (!right) {
        EXPECT_EQ(decoded.reason, kRdmapOpcode);
      }
    }
  }
}

TEST(Rdmap, EachOpcodeHasItsQueue) {
  for (const Sample& sample : Samples()) {
    if (IsTagged(sample.opcode)) continue;
    const uint32_t right = Read32(sample.text, 8);
    for (const uint32_t queue : {0u, 1u, 2u, 3u, 0x01000000u, 0xffffffffu}) {
      Bytes text = sample.text;
      Write16(&text, 8, static_cast<uint16_t>(queue >> 16));
      Write16(&text, 10, static_cast<uint16_t>(queue));
      const Decoded decoded = Decode(text);
      if (queue == right) {
        EXPECT_EQ(decoded.result, HeaderResult::kComplete);
      } else {
        EXPECT_EQ(decoded.result, HeaderResult::kBad);
        EXPECT_EQ(decoded.reason, kDdpQueue);
      }
    }
  }
}

// --- Terminate ---

Bytes Terminate(const TerminateReason& reason, const Bytes* offender) {
  Bytes text(kTerminateMax);
  const bool tagged =
      offender != nullptr && (ControlOf(*offender) & 0x8000) != 0;
  const bool read =
      offender != nullptr && ControlOf(*offender) == kReadRequestLast;
  const uint32_t bytes = tagged ? kTaggedHeaderBytes
                         : read ? kReadRequestBytes
                                : kUntaggedHeaderBytes;
  text.resize(PutTerminate(text.data(), reason,
                           offender == nullptr ? nullptr : offender->data(),
                           bytes));
  return text;
}

TEST(Terminate, WithoutHeadersIsAsInTheRfc) {
  const Bytes text = Terminate(kDdpNoBuffer, nullptr);

  EXPECT_EQ(Seal(text, true),
            FromHex("0016 4147 00000000 00000002 00000001 00000000 12020000"
                    "48620304"));
}

TEST(Terminate, HasTheHeaderOfATaggedSegment) {
  const Bytes write = Tagged(kWriteLast, 7, 8, Bytes(100));

  const Bytes text = Terminate(kDdpTaggedBounds, &write);

  EXPECT_EQ(text, Untagged(kTerminateLast, 0, 2, 1, 0,
                           FromHex("1101c000 0072") +
                               Bytes(write.begin() + 2, write.begin() + 16)));
}

TEST(Terminate, HasTheHeaderOfAnUntaggedSegment) {
  const Bytes send = Untagged(kSendLast, 0, 0, 5, 0, Bytes(6));

  const Bytes text = Terminate(kDdpMsn, &send);

  EXPECT_EQ(text, Untagged(kTerminateLast, 0, 2, 1, 0,
                           FromHex("1203c000 0018") +
                               Bytes(send.begin() + 2, send.begin() + 20)));
}

TEST(Terminate, HasTheWholeReadRequest) {
  const Bytes read = ReadRequest({.msn = 5, .bytes = 100});

  const Bytes text = Terminate(kRdmapBounds, &read);

  EXPECT_EQ(text, Untagged(kTerminateLast, 0, 2, 1, 0,
                           FromHex("0101e000 002e") +
                               Bytes(read.begin() + 2, read.end())));
  EXPECT_LE(text.size(), kTerminateMax);
}

TEST(Terminate, OfMpaNamesNoSegment) {
  const Bytes send = Untagged(kSendLast, 0, 0, 5, 0);

  EXPECT_EQ(Terminate(kMpaCrc, &send), Terminate(kMpaCrc, nullptr));
}

TEST(Terminate, IsReadInBothLayouts) {
  const auto read = [](const char* body) {
    return ReadTerminate(FromHex(body).data());
  };
  EXPECT_EQ(read("1202c000"), kDdpNoBuffer);  // RFC 5040
  EXPECT_EQ(read("21020300"), kDdpNoBuffer);  // siw
  EXPECT_EQ(read("10010700"), kRdmapBounds);  // siw, a READ's
  EXPECT_EQ(read("12020000"), kDdpNoBuffer);  // without headers
}

TEST(Terminate, AnyBytesAreSafeToRead) {
  for (int first = 0; first < 256; ++first) {
    for (const int flags : {0x00, 0x01, 0x07, 0x20, 0xe0, 0xff}) {
      const std::byte body[4] = {static_cast<std::byte>(first), std::byte{9},
                                 static_cast<std::byte>(flags), std::byte{0}};
      const TerminateReason reason = ReadTerminate(body);
      EXPECT_LT(static_cast<int>(reason.layer), 16);
      EXPECT_LT(reason.type, 16);
      EXPECT_EQ(reason.code, 9);
    }
  }
}

}  // namespace
}  // namespace sluice::iwarp
