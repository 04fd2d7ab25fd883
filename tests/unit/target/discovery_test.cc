#include "target/discovery.h"

#include <gmock/gmock.h>

#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

using nvme::DiscoveryEntry;
using testing::ElementsAre;

class DiscoveryTest : public testing::Test {
 protected:
  void AddSubsystem(const std::string& nqn,
                    std::vector<std::string> allowed_hosts = {}) {
    SubsystemOptions options;
    options.nqn = nqn;
    options.allowed_hosts = std::move(allowed_hosts);
    auto subsystem = Subsystem::Open(options, kTestMachine);
    ASSERT_TRUE(subsystem.ok());
    shared_.subsystems.push_back(*std::move(subsystem));
  }

  void SetUp() override {
    info_.hostnqn = MakeNqn(kTestHostNqn);
    info_.local = MakeAddress("10.0.0.1:4420").address;
  }

  // The discovery subsystem is the last.
  void Finish() {
    shared_.subsystems.push_back(Subsystem::Discovery(kTestMachine));
    info_.subsystem = shared_.subsystems.back().get();
  }

  // "SUBTYPE ADRFAM ADDRESS PORT NQN" of each entry.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const DiscoveryEntry& entry : DiscoveryEntries(shared_, info_)) {
      lines.push_back(absl::StrCat(
          static_cast<int>(entry.subtype), " ", static_cast<int>(entry.family),
          " ", entry.address, " ", entry.service, " ", entry.subnqn));
    }
    return lines;
  }

  TargetShared shared_;
  ControllerInfo info_;
};

TEST_F(DiscoveryTest, TellsItselfFirstThenEverySubsystemOnEveryListener) {
  AddSubsystem("nqn.a");
  AddSubsystem("nqn.b");
  Finish();
  shared_.addresses = {MakeAddress("10.0.0.1:4420"),
                       MakeAddress("[fd00::1]:4421")};

  EXPECT_THAT(Lines(),
              ElementsAre(absl::StrCat("3 1 10.0.0.1 4420 ",
                                       std::string(nvme::kDiscoveryNqn)),
                          "2 1 10.0.0.1 4420 nqn.a", "2 1 10.0.0.1 4420 nqn.b",
                          "2 2 fd00::1 4421 nqn.a", "2 2 fd00::1 4421 nqn.b"));
}

TEST_F(DiscoveryTest, TellsAWildcardAsTheAddressOfTheConnection) {
  AddSubsystem("nqn.a");
  Finish();
  shared_.addresses = {MakeAddress("0.0.0.0:4420"), MakeAddress("0.0.0.0:5000"),
                       MakeAddress("[::]:4420")};
  info_.local = MakeAddress("192.168.7.9:5000").address;

  EXPECT_THAT(
      Lines(),
      ElementsAre(absl::StrCat("3 1 192.168.7.9 5000 ",
                               std::string(nvme::kDiscoveryNqn)),
                  "2 1 192.168.7.9 4420 nqn.a", "2 1 192.168.7.9 5000 nqn.a"));
  const auto entries = DiscoveryEntries(shared_, info_);
  EXPECT_EQ(entries[0].port_id, 2);
  EXPECT_EQ(entries[1].port_id, 1);
  EXPECT_EQ(entries[2].port_id, 2);
}

TEST_F(DiscoveryTest, TellsAnIpv6AddressWithoutItsZone) {
  AddSubsystem("nqn.a");
  Finish();
  shared_.addresses = {MakeAddress("[::]:4420")};
  info_.local = MakeAddress("[fe80::1%lo]:4420").address;

  EXPECT_THAT(Lines(),
              ElementsAre(absl::StrCat("3 2 fe80::1 4420 ",
                                       std::string(nvme::kDiscoveryNqn)),
                          "2 2 fe80::1 4420 nqn.a"));
}

TEST_F(DiscoveryTest, HidesWhatTheHostMayNotUse) {
  AddSubsystem("nqn.others", {"nqn.somebody"});
  AddSubsystem("nqn.ours", {"nqn.somebody", kTestHostNqn});
  Finish();
  shared_.addresses = {MakeAddress("10.0.0.1:4420")};

  EXPECT_THAT(Lines(),
              ElementsAre(absl::StrCat("3 1 10.0.0.1 4420 ",
                                       std::string(nvme::kDiscoveryNqn)),
                          "2 1 10.0.0.1 4420 nqn.ours"));
}

TEST_F(DiscoveryTest, FillsTheLog) {
  AddSubsystem("nqn.a");
  Finish();
  shared_.addresses = {MakeAddress("10.0.0.1:4420")};
  shared_.discovery_generation = 77;

  const std::vector<std::byte> log = DiscoveryLog(shared_, info_);

  ASSERT_EQ(log.size(), 3072u);
  EXPECT_EQ(nvme::Load64(log, 0), 77u);
  EXPECT_EQ(nvme::Load64(log, 8), 2u);
  EXPECT_EQ(nvme::Load16(log, 16), 0);
  const auto self = absl::MakeConstSpan(log).subspan(1024, 1024);
  EXPECT_EQ(nvme::Load8(self, 0), 1);        // TRTYPE
  EXPECT_EQ(nvme::Load8(self, 1), 1);        // ADRFAM
  EXPECT_EQ(nvme::Load8(self, 2), 3);        // SUBTYPE
  EXPECT_EQ(nvme::Load8(self, 3), 0x06);     // TREQ
  EXPECT_EQ(nvme::Load16(self, 4), 1);       // PORTID
  EXPECT_EQ(nvme::Load16(self, 6), 0xFFFF);  // CNTLID
  EXPECT_EQ(nvme::Load16(self, 8), 32);      // ASQSZ
  EXPECT_EQ(nvme::Load16(self, 10), 0x3);    // EFLAGS
  const auto disk = absl::MakeConstSpan(log).subspan(2048, 1024);
  EXPECT_EQ(nvme::Load8(disk, 2), 2);
  EXPECT_EQ(nvme::Load16(disk, 10), 0);
  EXPECT_EQ(nvme::Load32(disk, 32), 0x30323434u);  // "4420"
  EXPECT_EQ(nvme::Load8(disk, 768), 1);            // RC
  EXPECT_EQ(nvme::Load8(disk, 770), 1);            // RDMA_CM
}

}  // namespace
}  // namespace sluice::target
