#include "nvme/discovery_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

DiscoveryEntry Disk() {
  DiscoveryEntry entry;
  entry.port_id = 0x0102;
  entry.treq = kTreqDisableFlowControl;
  entry.service = "4420";
  entry.subnqn = "nqn.2026-01.io.sluice:disk";
  entry.address = "192.0.2.1";
  entry.provider = RdmaProvider::kRoceV2;
  return entry;
}

std::string Text(const std::vector<std::byte>& log, size_t offset,
                 size_t size) {
  std::string text(size, '\0');
  std::memcpy(text.data(), log.data() + offset, size);
  return text;
}

// Offsets of spec §5.2.
TEST(DiscoveryLog, PutsFieldsAtTheirOffsets) {
  const std::vector<std::byte> log = BuildDiscoveryLog(0x0A0B, {Disk()});

  ASSERT_EQ(log.size(), 2048u);
  EXPECT_EQ(Load64(log, 0), 0x0A0Bu);
  EXPECT_EQ(Load64(log, 8), 1u);
  EXPECT_EQ(Load16(log, 16), 0);
  const size_t entry = 1024;
  EXPECT_EQ(Load8(log, entry + 0), 1);  // RDMA
  EXPECT_EQ(Load8(log, entry + 1), 1);  // IPv4
  EXPECT_EQ(Load8(log, entry + 2), 2);  // NVM subsystem
  EXPECT_EQ(Load8(log, entry + 3), 4);  // TREQ
  EXPECT_EQ(Load16(log, entry + 4), 0x0102);
  EXPECT_EQ(Load16(log, entry + 6), 0xFFFF);
  EXPECT_EQ(Load16(log, entry + 8), 32);
  EXPECT_EQ(Load16(log, entry + 10), 0);
  EXPECT_EQ(Text(log, entry + 32, 32), "4420" + std::string(28, '\0'));
  EXPECT_EQ(Text(log, entry + 256, 256),
            "nqn.2026-01.io.sluice:disk" + std::string(230, '\0'));
  EXPECT_EQ(Text(log, entry + 512, 256), "192.0.2.1" + std::string(247, '\0'));
  EXPECT_EQ(Load8(log, entry + 768), 1);  // QPTYPE
  EXPECT_EQ(Load8(log, entry + 769), 4);  // PRTYPE
  EXPECT_EQ(Load8(log, entry + 770), 1);  // CMS
  EXPECT_EQ(Text(log, entry + 771, 253), std::string(253, '\0'));
}

TEST(DiscoveryLog, IsAHeaderAloneWhenEmpty) {
  const std::vector<std::byte> log = BuildDiscoveryLog(3, {});

  ASSERT_EQ(log.size(), 1024u);
  EXPECT_EQ(Load64(log, 8), 0u);
}

TEST(DiscoveryLog, KeepsANulBehindTextsThatAreTooLong) {
  DiscoveryEntry entry = Disk();
  entry.service = entry.subnqn = entry.address = std::string(300, 'x');

  const std::vector<std::byte> log = BuildDiscoveryLog(1, {entry});

  EXPECT_EQ(Text(log, 1024 + 32, 32), std::string(31, 'x') + '\0');
  EXPECT_EQ(Load8(log, 1024 + 256 + 222), 'x');
  EXPECT_EQ(Load8(log, 1024 + 256 + 223), 0);
  EXPECT_EQ(Load8(log, 1024 + 512 + 254), 'x');
  EXPECT_EQ(Load8(log, 1024 + 512 + 255), 0);
}

TEST(DiscoveryLog, RoundTrips) {
  const std::vector<std::byte> log = BuildDiscoveryLog(7, {Disk(), Disk()});
  const auto bytes = absl::MakeConstSpan(log);

  const auto header = DecodeDiscoveryHeader(bytes.first(20));
  const auto entry = DecodeDiscoveryEntry(bytes.subspan(2048));

  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->generation, 7u);
  EXPECT_EQ(header->entry_count, 2u);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->transport, TransportType::kRdma);
  EXPECT_EQ(entry->address, "192.0.2.1");
  EXPECT_EQ(entry->service, "4420");
  EXPECT_EQ(entry->subnqn, "nqn.2026-01.io.sluice:disk");
  EXPECT_EQ(entry->provider, RdmaProvider::kRoceV2);
  EXPECT_EQ(entry->port_id, 0x0102);
}

TEST(DiscoveryLog, StripsTheSpacesOfSpdk) {
  std::vector<std::byte> log = BuildDiscoveryLog(7, {Disk()});
  std::fill(log.begin() + 1024 + 32 + 4, log.begin() + 1024 + 64,
            std::byte{' '});
  std::fill(log.begin() + 1024 + 512, log.begin() + 1024 + 768, std::byte{' '});

  const auto entry =
      DecodeDiscoveryEntry(absl::MakeConstSpan(log).subspan(1024));

  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->service, "4420");
  EXPECT_EQ(entry->address, "");
}

TEST(DiscoveryLog, RefusesWhatIsNone) {
  std::vector<std::byte> log = BuildDiscoveryLog(7, {Disk()});
  const auto bytes = absl::MakeConstSpan(log);

  EXPECT_FALSE(DecodeDiscoveryHeader(bytes.first(17)).ok());
  EXPECT_FALSE(DecodeDiscoveryEntry(bytes.subspan(1024, 1023)).ok());
  log[16] = std::byte{1};
  EXPECT_FALSE(DecodeDiscoveryHeader(bytes).ok());
  std::fill_n(log.begin() + 1024 + 256, 256, std::byte{'x'});
  const auto entry = DecodeDiscoveryEntry(bytes.subspan(1024));
  EXPECT_EQ(entry.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(entry.status().message()),
              testing::HasSubstr("SUBNQN of 256 bytes"));
}

}  // namespace
}  // namespace sluice::nvme
