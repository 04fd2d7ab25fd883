#include "nvme/discovery_log.h"
#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

using nvme::LogId;

class AdminLogTest : public AdminFixture {
 protected:
  void LogError(uint16_t cid) {
    nvme::ErrorEntry entry;
    entry.cid = cid;
    entry.status = nvme::kInvalidField.WithDnr();
    controller_->LogError(entry);
  }
};

TEST_F(AdminLogTest, NamesItsPages) {
  BuildDisk();
  Enable();

  const auto call = GetLog(LogId::kSupportedPages, 1024);

  ASSERT_EQ(call->status, nvme::kSuccess);
  for (size_t lid = 0; lid <= 5; ++lid) EXPECT_EQ(call->U32(lid * 4), 1u);
  EXPECT_TRUE(call->Zero(24, 1024));
}

TEST_F(AdminLogTest, ListsErrorsNewestFirst) {
  BuildDisk();
  Enable();
  LogError(0x1111);
  LogError(0x2222);

  const auto call = GetLog(LogId::kError, 4096);

  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->U64(0), 2u);
  EXPECT_EQ(call->U16(10), 0x2222);
  EXPECT_EQ(call->U16(12), 0x8004);
  EXPECT_EQ(call->U64(64), 1u);
  EXPECT_EQ(call->U16(74), 0x1111);
  EXPECT_TRUE(call->Zero(128, 4096));
}

TEST_F(AdminLogTest, ServesAnyDwordOffsetAndLength) {
  BuildDisk();
  Enable();
  for (uint16_t cid = 0; cid < 100; ++cid) LogError(cid);
  const auto whole = GetLog(LogId::kError, 4096);
  const struct {
    uint64_t offset;
    size_t length;
    size_t copied;
  } cases[] = {{0, 4, 4},       {8, 20, 20},  {4092, 4, 4},
               {4000, 200, 96}, {4096, 8, 0}, {0, 8192, 4096}};

  for (const auto& c : cases) {
    const auto call = GetLog(LogId::kError, c.length, c.offset);
    ASSERT_EQ(call->status, nvme::kSuccess) << c.offset;
    ASSERT_EQ(call->bytes().size(), c.length);
    EXPECT_EQ(call->bytes().subspan(0, c.copied),
              whole->bytes().subspan(c.offset, c.copied));
    EXPECT_TRUE(call->Zero(c.copied, c.length));
  }
  EXPECT_EQ(GetLog(LogId::kError, 4, 4100)->status,
            nvme::kInvalidField.WithDnr());
}

TEST_F(AdminLogTest, CountsForSmart) {
  BuildDisk();
  Enable();
  ControllerCounters* counters = controller_->counters();
  counters->read_bytes = 512'001;
  counters->written_bytes = 512'000;
  counters->read_commands = 3;
  counters->write_commands = 4;
  counters->media_errors = 5;
  for (uint16_t cid = 0; cid < 70; ++cid) LogError(cid);

  const auto call = GetLog(LogId::kSmart, 512);

  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->U8(0), 0);
  EXPECT_EQ(call->U8(3), 100);
  EXPECT_EQ(call->U64(32), 2u);
  EXPECT_EQ(call->U64(48), 1u);
  EXPECT_EQ(call->U64(64), 3u);
  EXPECT_EQ(call->U64(80), 4u);
  EXPECT_EQ(call->U64(160), 5u);
  EXPECT_EQ(call->U64(176), 70u);
}

TEST_F(AdminLogTest, HasNoSmartLogOfANamespace) {
  BuildDisk();
  Enable();
  nvme::Sqe sqe;
  nvme::GetLogPageCommand command;
  command.lid = static_cast<uint8_t>(LogId::kSmart);
  command.length_bytes = 512;
  nvme::EncodeGetLogPage(command, &sqe);

  sqe.nsid = 1;
  EXPECT_EQ(Execute(sqe)->status, nvme::kInvalidField.WithDnr());
  sqe.nsid = 0;
  EXPECT_EQ(Execute(sqe)->status, nvme::kSuccess);
}

TEST_F(AdminLogTest, NamesTheFirmware) {
  BuildDisk();
  Enable();

  const auto call = GetLog(LogId::kFirmwareSlot, 512);

  EXPECT_EQ(call->U8(0), 1);
  EXPECT_EQ(call->Text(8, 8), "0.1     ");
}

TEST_F(AdminLogTest, ReadingEmptiesTheChangedNamespaces) {
  BuildDisk();
  Enable();
  controller_->NamespaceChanged(2);
  controller_->NamespaceChanged(1);
  controller_->NamespaceChanged(2);

  const auto kept =
      GetLog(LogId::kChangedNamespaces, 4096, 0, /*retain_event=*/true);
  EXPECT_EQ(kept->U32(0), 1u);
  EXPECT_EQ(kept->U32(4), 2u);
  EXPECT_TRUE(kept->Zero(8, 4096));
  EXPECT_EQ(GetLog(LogId::kChangedNamespaces, 4, 8192)->status,
            nvme::kInvalidField.WithDnr());  // no reading

  EXPECT_EQ(GetLog(LogId::kChangedNamespaces, 4096)->U32(4), 2u);
  EXPECT_TRUE(GetLog(LogId::kChangedNamespaces, 4096)->Zero(0, 4096));
}

TEST_F(AdminLogTest, NamesTheCommands) {
  BuildDisk();
  Enable();

  const auto call = GetLog(LogId::kEffects, 4096);

  ASSERT_EQ(call->status, nvme::kSuccess);
  for (const size_t opcode :
       {0x02u, 0x06u, 0x08u, 0x09u, 0x0Au, 0x0Cu, 0x18u, 0x7Fu}) {
    EXPECT_EQ(call->U32(opcode * 4), 1u) << opcode;
  }
  EXPECT_EQ(call->U32(0x80 * 4), 0u);
  EXPECT_EQ(call->U32(1024 + 0x00 * 4), 1u);
  EXPECT_EQ(call->U32(1024 + 0x01 * 4), 3u);
  EXPECT_EQ(call->U32(1024 + 0x02 * 4), 1u);
  EXPECT_EQ(call->U32(1024 + 0x05 * 4), 1u);
  EXPECT_EQ(call->U32(1024 + 0x08 * 4), 3u);
  EXPECT_EQ(call->U32(1024 + 0x09 * 4), 3u);
  EXPECT_EQ(call->U32(1024 + 0x19 * 4), 0u);
}

TEST_F(AdminLogTest, RefusesUnknownPages) {
  BuildDisk();
  Enable();

  for (const LogId lid :
       {LogId::kAna, LogId::kFeatureEffects, LogId::kDiscovery,
        LogId::kReservation, LogId::kSanitize, static_cast<LogId>(0xC0)}) {
    EXPECT_EQ(GetLog(lid, 512)->status, nvme::kInvalidLogPage.WithDnr());
  }
}

TEST_F(AdminLogTest, ReadingUnmasksTheEvent) {
  BuildDisk();
  Enable();
  controller_->features()->async_events = nvme::kAecNamespace;
  auto first = StartAer(1);
  controller_->NamespaceChanged(1);
  reactor_.RunReady();
  ASSERT_TRUE(first->done());
  auto second = StartAer(2);

  GetLog(LogId::kChangedNamespaces, 4096, 0, /*retain_event=*/true);
  GetLog(LogId::kSmart, 512);
  controller_->NamespaceChanged(1);
  reactor_.RunReady();
  EXPECT_FALSE(second->done());

  GetLog(LogId::kChangedNamespaces, 4096);
  controller_->NamespaceChanged(1);
  reactor_.RunReady();
  ASSERT_TRUE(second->done());
  EXPECT_EQ(second->dw0(), 0x00040002u);
}

TEST_F(AdminLogTest, DiscoveryControllersHaveTheDiscoveryLogOnly) {
  BuildDiscovery();
  Enable();

  EXPECT_EQ(GetLog(LogId::kSmart, 512)->status,
            nvme::kInvalidLogPage.WithDnr());
  EXPECT_EQ(GetLog(LogId::kError, 64)->status, nvme::kInvalidLogPage.WithDnr());
  EXPECT_EQ(GetLog(LogId::kDiscovery, 1024)->status, nvme::kSuccess);
}

// As libnvme and SPDK read it [spec §5.3].
TEST_F(AdminLogTest, ServesTheDiscoveryLogInParts) {
  BuildDiscovery();
  Enable();

  const auto head = GetLog(LogId::kDiscovery, 20, 0, /*retain_event=*/true);
  ASSERT_EQ(head->status, nvme::kSuccess);
  EXPECT_EQ(head->U64(0), shared_.discovery_generation);
  EXPECT_EQ(head->U64(8), 2u);
  EXPECT_EQ(head->U16(16), 0);

  const auto entries = GetLog(LogId::kDiscovery, 4096, 1024);
  EXPECT_EQ(entries->U8(2), 3);
  EXPECT_EQ(entries->U8(1024 + 2), 2);
  EXPECT_EQ(entries->Text(1024 + 256, sizeof(kTestNqn)),
            std::string(kTestNqn, sizeof(kTestNqn)));
  EXPECT_TRUE(entries->Zero(2048, 4096));

  EXPECT_EQ(GetLog(LogId::kDiscovery, 8)->U64(0), shared_.discovery_generation);
  EXPECT_EQ(GetLog(LogId::kDiscovery, 4, 3072)->status, nvme::kSuccess);
  EXPECT_EQ(GetLog(LogId::kDiscovery, 4, 3076)->status,
            nvme::kInvalidField.WithDnr());
}

}  // namespace
}  // namespace sluice::target
