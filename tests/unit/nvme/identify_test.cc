#include "nvme/identify.h"

#include <gtest/gtest.h>

#include "tests/unit/nvme/bytes_of.h"

namespace sluice::nvme {
namespace {

ControllerIdentity IoController() {
  ControllerIdentity identity;
  identity.serial = "SL0123456789ABCDEF01";
  identity.model = "sluice";
  identity.firmware = "0.1";
  identity.subnqn = "nqn.2026-01.io.sluice:disk";
  identity.cntlid = 0x0102;
  return identity;
}

BytesOf Built(const ControllerIdentity& identity) {
  nvme_id_ctrl ctrl;
  BuildIdentifyController(identity, &ctrl);
  return BytesOf(ctrl);
}

// Offsets and recommended values of spec §6.2.
TEST(IdentifyController, HasTheRecommendedValuesAtTheirOffsets) {
  const BytesOf bytes = Built(IoController());

  ASSERT_EQ(bytes.size(), 4096u);
  EXPECT_EQ(bytes.U32(0), 0u);                           // VID, SSVID
  EXPECT_EQ(bytes.Text(4, 20), "SL0123456789ABCDEF01");  // SN
  EXPECT_EQ(bytes.Text(24, 40), "sluice" + std::string(34, ' '));
  EXPECT_EQ(bytes.Text(64, 8), "0.1     ");  // FR
  EXPECT_EQ(bytes.U8(72), 6);                // RAB
  EXPECT_EQ(bytes.U8(76), 0x03);             // CMIC
  EXPECT_EQ(bytes.U8(77), 8);                // MDTS
  EXPECT_EQ(bytes.U16(78), 0x0102);          // CNTLID
  EXPECT_EQ(bytes.U32(80), 0x00010400u);     // VER
  EXPECT_EQ(bytes.U32(92), 0x00000100u);     // OAES
  EXPECT_EQ(bytes.U32(96), 0x00000001u);     // CTRATT
  EXPECT_EQ(bytes.U8(111), 1);               // CNTRLTYPE
  EXPECT_EQ(bytes.U16(256), 0);              // OACS
  EXPECT_EQ(bytes.U8(258), 3);               // ACL
  EXPECT_EQ(bytes.U8(259), 3);               // AERL
  EXPECT_EQ(bytes.U8(260), 0x03);            // FRMW
  EXPECT_EQ(bytes.U8(261), 0x06);            // LPA
  EXPECT_EQ(bytes.U8(262), 63);              // ELPE
  EXPECT_EQ(bytes.U8(263), 0);               // NPSS
  EXPECT_EQ(bytes.U16(320), 10);             // KAS
  EXPECT_EQ(bytes.U8(512), 0x66);            // SQES
  EXPECT_EQ(bytes.U8(513), 0x44);            // CQES
  EXPECT_EQ(bytes.U16(514), 128);            // MAXCMD
  EXPECT_EQ(bytes.U32(516), 1024u);          // NN
  EXPECT_EQ(bytes.U16(520), 0);              // ONCS
  EXPECT_EQ(bytes.U16(522), 0);              // FUSES
  EXPECT_EQ(bytes.U8(525), 0x06);            // VWC
  EXPECT_EQ(bytes.U32(526), 0u);             // AWUN, AWUPF
  EXPECT_EQ(bytes.U32(536), 0x00100005u);    // SGLS
  EXPECT_EQ(bytes.U32(540), 0u);             // MNAN
  EXPECT_EQ(bytes.Text(768, 27),
            std::string("nqn.2026-01.io.sluice:disk") + '\0');
  EXPECT_EQ(bytes.U32(1792), 260u);   // IOCCSZ
  EXPECT_EQ(bytes.U32(1796), 1u);     // IORCSZ
  EXPECT_EQ(bytes.U16(1800), 0);      // ICDOFF
  EXPECT_EQ(bytes.U8(1802), 0);       // FCATT
  EXPECT_EQ(bytes.U8(1803), 1);       // MSDBD
  EXPECT_EQ(bytes.U16(1804), 0);      // OFCS
  EXPECT_EQ(bytes.U16(2048), 0x9C4);  // PSD0.MP
  EXPECT_EQ(bytes.U32(2052), 0x10u);  // PSD0.ENLAT
  EXPECT_EQ(bytes.U32(2056), 4u);     // PSD0.EXLAT
  EXPECT_TRUE(bytes.Zero(2080, 4096));
}

TEST(IdentifyController, SaysWhatIsSwitchedOn) {
  ControllerIdentity identity = IoController();
  identity.traffic_keeps_alive = true;
  identity.in_capsule_bytes = 8192;
  identity.keyed_descriptors_max = 16;
  identity.optional_commands = {.compare = true,
                                .dataset_management = true,
                                .write_zeroes = true,
                                .verify = true};
  identity.compare_and_write = true;
  identity.volatile_write_cache = true;
  identity.flush_all_namespaces = false;
  identity.disconnect_command = true;
  identity.atomic_blocks = 8;
  identity.atomic_blocks_power_fail = 4;
  identity.error_entry_count = 256;

  const BytesOf bytes = Built(identity);

  EXPECT_EQ(bytes.U32(96), 0x41u);
  EXPECT_EQ(bytes.U8(262), 255);
  EXPECT_EQ(bytes.U16(520), 0x8D);
  EXPECT_EQ(bytes.U16(522), 1);
  EXPECT_EQ(bytes.U8(525), 0x05);
  EXPECT_EQ(bytes.U16(526), 7);
  EXPECT_EQ(bytes.U16(528), 3);
  EXPECT_EQ(bytes.U32(1792), (64u + 8192) / 16);
  EXPECT_EQ(bytes.U8(1803), 16);
  EXPECT_EQ(bytes.U16(1804), 1);
}

TEST(IdentifyController, OffersNoOffsetWithoutDataInTheCapsule) {
  ControllerIdentity identity = IoController();
  identity.in_capsule_bytes = 0;

  const BytesOf bytes = Built(identity);

  EXPECT_EQ(bytes.U32(536), 0x5u);
  EXPECT_EQ(bytes.U32(1792), 4u);
}

TEST(IdentifyController, DescribesADiscoveryController) {
  ControllerIdentity identity = IoController();
  identity.kind = ControllerKind::kDiscovery;
  identity.in_capsule_bytes = 0;
  identity.volatile_write_cache = true;
  identity.optional_commands.compare = true;

  const BytesOf bytes = Built(identity);

  EXPECT_EQ(bytes.U32(92), 0x80000000u);  // OAES
  EXPECT_EQ(bytes.U8(111), 2);            // CNTRLTYPE
  EXPECT_EQ(bytes.U8(261), 0x04);         // LPA: no effects log
  EXPECT_EQ(bytes.U32(516), 0u);          // NN
  EXPECT_EQ(bytes.U16(520), 0);           // ONCS
  EXPECT_EQ(bytes.U8(525), 0);            // VWC
  EXPECT_EQ(bytes.U8(1806), 1);           // DCTYPE
}

TEST(IdentifyController, CutsTextsThatAreTooLong) {
  const std::string long_text(300, 'x');
  ControllerIdentity identity = IoController();
  identity.serial = identity.model = identity.firmware = long_text;
  identity.subnqn = long_text;

  const BytesOf bytes = Built(identity);

  EXPECT_EQ(bytes.Text(4, 68), std::string(68, 'x'));
  EXPECT_EQ(bytes.U8(72), 6);
  EXPECT_EQ(bytes.Text(768, 223), std::string(223, 'x'));
  EXPECT_TRUE(bytes.Zero(768 + 223, 1792));
}

TEST(OptionalCommands, HaveOneBitEach) {
  EXPECT_EQ(OptionalCommands{}.oncs(), 0);
  EXPECT_EQ(OptionalCommands{.write_uncorrectable = true}.oncs(), 1 << 1);
  EXPECT_EQ(OptionalCommands{.save_and_select = true}.oncs(), 1 << 4);
  EXPECT_EQ(OptionalCommands{.reservations = true}.oncs(), 1 << 5);
  EXPECT_EQ(OptionalCommands{.timestamp = true}.oncs(), 1 << 6);
  EXPECT_EQ(OptionalCommands{.copy = true}.oncs(), 1 << 8);
}

TEST(NvmController, PutsLimitsAtTheirOffsets) {
  nvme_id_ctrl_nvm nvm;

  BuildNvmController({.verify_size = 1,
                      .write_zeroes_size = 2,
                      .dsm_range_count_max = 3,
                      .dsm_range_blocks_max = 4,
                      .dsm_blocks_max = 5},
                     &nvm);

  const BytesOf bytes(nvm);
  EXPECT_EQ(bytes.U8(0), 1);
  EXPECT_EQ(bytes.U8(1), 2);
  EXPECT_EQ(bytes.U8(2), 0);
  EXPECT_EQ(bytes.U8(3), 3);
  EXPECT_EQ(bytes.U32(4), 4u);
  EXPECT_EQ(bytes.U64(8), 5u);
  EXPECT_TRUE(bytes.Zero(16, 4096));
}

}  // namespace
}  // namespace sluice::nvme
