#include "core/units.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(Units, ParsesBytes) {
  const struct {
    absl::string_view text;
    uint64_t bytes;
  } kTable[] = {
      {"0", 0},
      {"4096", 4096},
      {"513B", 513},
      {"64K", 64 * kKiB},
      {"64k", 64 * kKiB},
      {"64KB", 64 * kKiB},
      {"64KiB", 64 * kKiB},
      {"64 KiB", 64 * kKiB},
      {"1.5G", kGiB + kGiB / 2},
      {".5K", 512},
      {"2TiB", 2048 * kGiB},
      {"3P", 3072 * 1024 * kGiB},
      {"9007199254740993", 9007199254740993},
      {"18446744073709551615", UINT64_MAX},
      {"16383P", uint64_t{16383} << 50},
      {"15E", uint64_t{15} << 60},
  };
  for (const auto& row : kTable) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(row.text);
    ASSERT_THAT(bytes, IsOk()) << row.text;
    EXPECT_EQ(*bytes, row.bytes) << row.text;
  }
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const absl::string_view text : {"",
                                       " ",
                                       "K",
                                       "B",
                                       "-1",
                                       "+1",
                                       "1X",
                                       "1KK",
                                       "1KiBs",
                                       "1iB",
                                       "1e3",
                                       "0x10",
                                       "1..5",
                                       "1.5.2G",
                                       ".",
                                       " 1",
                                       "1,5G",
                                       "inf",
                                       "nan",
                                       "16384P",
                                       "16E",
                                       "18446744073709551616",
                                       "99999999999999999999G",
                                       "9000.5P"}) {
    EXPECT_THAT(ParseBytes(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(std::string(text))))
        << text;
  }
}

TEST(Units, FormatsBytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(513), "513 B");
  EXPECT_EQ(FormatBytes(kKiB), "1 KiB");
  EXPECT_EQ(FormatBytes(64 * kMiB), "64 MiB");
  EXPECT_EQ(FormatBytes(kGiB + kGiB / 2), "1.5 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16 EiB");
}

TEST(Units, Rounds) {
  EXPECT_EQ(RoundUp(0, 4096), 0u);
  EXPECT_EQ(RoundUp(1, 4096), 4096u);
  EXPECT_EQ(RoundUp(4096, 4096), 4096u);
  EXPECT_TRUE(IsPowerOfTwo(4096));
  EXPECT_FALSE(IsPowerOfTwo(0));
  EXPECT_FALSE(IsPowerOfTwo(4097));
}

}  // namespace
}  // namespace sluice
