#include "transport/iwarp/crc32c.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "tests/support/raw_stream.h"

namespace sluice::iwarp {
namespace {

uint32_t CrcOf(const Bytes& bytes) {
  Crc32c crc;
  crc.Add(bytes.data(), bytes.size());
  return crc.value();
}

Bytes Repeated(int value, size_t count) {
  return Bytes(count, static_cast<std::byte>(value));
}

Bytes Counting(size_t count) {
  Bytes bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

TEST(Crc32c, KnowsTheVectorsOfIscsi) {
  EXPECT_EQ(CrcOf(ToBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(CrcOf(Repeated(0x00, 32)), 0x8a9136aau);
  EXPECT_EQ(CrcOf(Repeated(0xff, 32)), 0x62a8ab43u);
  EXPECT_EQ(CrcOf(Counting(32)), 0x46dd794eu);
}

TEST(Crc32c, OfNothingIsZero) { EXPECT_EQ(CrcOf({}), 0u); }

TEST(Crc32c, PiecesGiveTheSameAsTheWhole) {
  const Bytes bytes = Counting(300);
  const uint32_t whole = CrcOf(bytes);

  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Crc32c crc;
    crc.Add(bytes.data(), cut);
    crc.Add(bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(crc.value(), whole) << cut;
  }
}

// Whole FPDUs, least significant byte of the checksum first [iwarp §1.6].
struct FpduVector {
  const char* name;
  std::string text;
  const char* crc;
};

class FpduVectors : public testing::TestWithParam<FpduVector> {};

TEST_P(FpduVectors, AreSealedAsTheyShouldBe) {
  const Bytes text = FromHex(GetParam().text);

  const Bytes sealed = Seal(text, /*crc=*/true);

  EXPECT_EQ(sealed, text + FromHex(GetParam().crc));
}

const std::string kZeros24(48, '0');

INSTANTIATE_TEST_SUITE_P(
    , FpduVectors,
    testing::Values(
        FpduVector{"RfcWithMarkerInFront",
                   "00000000 002a 4143 00000000 00000000 00000001"
                   "00000000" +
                       kZeros24,
                   "52239983"},
        FpduVector{"RfcWithMarkerInside",
                   "002a 4143 00000000 00000000 00000002 00000000"
                   "00000014" +
                       kZeros24,
                   "84925898"},
        FpduVector{"RfcWithoutMarker",
                   "002a 4143 00000000 00000000 00000001 00000000" + kZeros24,
                   "b7243ec3"},
        FpduVector{"WriteOfNothing", "000e c140 00000001 0000000000000000",
                   "ebd34c5f"},
        FpduVector{"SendOfNothing",
                   "0012 4143 00000000 00000000 00000001 00000000", "587be8c4"},
        FpduVector{"ReadOfNothing",
                   "002e 4141 00000000 00000001 00000001 00000000 00000001"
                   "0000000000000000 00000000 00000001 0000000000000000",
                   "27dbd7e7"},
        FpduVector{"ReadResponseOfNothing",
                   "000e c142 00000001 0000000000000000", "21a3e83e"},
        FpduVector{"SendOfHello",
                   "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f"
                   "000000",
                   "b990b10c"},
        FpduVector{"Terminate",
                   "0016 4147 00000000 00000002 00000001 00000000 12020000",
                   "48620304"}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace sluice::iwarp
