#include "nvme/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace sluice::nvme {
namespace {

constexpr absl::string_view kMachine = "0123456789abcdef0123456789abcdef";
constexpr absl::string_view kSubnqn = "nqn.2026-01.io.sluice:disk";

// Never change these: hosts in the field know their disks by them.
TEST(Identity, IsWhatItAlwaysWas) {
  EXPECT_EQ(DeriveSerial(kMachine, kSubnqn), "SL022D60BDB331C67C90");
  EXPECT_EQ(FormatUuid(DeriveNguid(kMachine, kSubnqn, 1)),
            "780e6654-1f80-ee38-fcd6-556b4752ff99");
  EXPECT_EQ(FormatUuid(DeriveUuid(kMachine, kSubnqn, 1)),
            "3270b458-6aa7-817d-aec8-7f79bb26550e");
  EXPECT_EQ(FormatUuid(DeriveUuid(kMachine, kSubnqn, 2)),
            "e1d8355d-cd1f-84a8-b5c2-880b941dcbc3");
  EXPECT_EQ(FormatUuid(DeriveUuid("", "", 0)),
            "70166a36-3969-8ab4-a2d5-d4a577acf560");
}

TEST(Identity, DiffersByEachInput) {
  std::set<std::string> seen;
  for (uint32_t nsid = 1; nsid <= 1000; ++nsid) {
    seen.insert(FormatUuid(DeriveUuid(kMachine, kSubnqn, nsid)));
    seen.insert(FormatUuid(DeriveNguid(kMachine, kSubnqn, nsid)));
    seen.insert(FormatUuid(DeriveUuid("other", kSubnqn, nsid)));
  }
  seen.insert(FormatUuid(DeriveUuid("ab", "c", 1)));
  seen.insert(FormatUuid(DeriveUuid("a", "bc", 1)));

  EXPECT_EQ(seen.size(), 3002u);
}

TEST(Identity, HasVersionAndVariant) {
  for (uint32_t nsid = 0; nsid < 100; ++nsid) {
    const std::string uuid = FormatUuid(DeriveUuid(kMachine, kSubnqn, nsid));
    EXPECT_EQ(uuid[14], '8') << uuid;
    EXPECT_THAT(uuid[19], testing::AnyOf('8', '9', 'a', 'b')) << uuid;
  }
}

TEST(Identity, SerialIsTwentyPrintableCharacters) {
  const std::string serial = DeriveSerial("", "");

  EXPECT_EQ(serial.size(), 20u);
  EXPECT_THAT(serial, testing::MatchesRegex("SL[0-9A-F]+"));
}

TEST(Uuid, FormatsAndParses) {
  std::array<std::byte, 16> uuid;
  for (size_t i = 0; i < uuid.size(); ++i) uuid[i] = std::byte(i * 0x11);
  const std::string text = "00112233-4455-6677-8899-aabbccddeeff";

  std::array<std::byte, 16> parsed;
  EXPECT_EQ(FormatUuid(uuid), text);
  EXPECT_TRUE(ParseUuid(text, &parsed));
  EXPECT_EQ(parsed, uuid);
  EXPECT_TRUE(ParseUuid("00112233-4455-6677-8899-AABBCCDDEEFF", &parsed));
  EXPECT_EQ(parsed, uuid);
}

TEST(Uuid, RefusesWhatIsNone) {
  std::array<std::byte, 16> uuid;
  for (const absl::string_view text :
       {"", "00112233-4455-6677-8899-aabbccddeef",
        "00112233-4455-6677-8899-aabbccddeefff",
        "00112233x4455-6677-8899-aabbccddeeff",
        "0011223344556677-8899-aabbccddeeff--",
        "00112233-4455-6677-8899-aabbccddeefg"}) {
    EXPECT_FALSE(ParseUuid(text, &uuid)) << text;
  }
}

}  // namespace
}  // namespace sluice::nvme
