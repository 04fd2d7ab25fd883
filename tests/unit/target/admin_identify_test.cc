#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

using nvme::Cns;

class AdminIdentifyTest : public AdminFixture {};

// Offsets of spec §6.2.
TEST_F(AdminIdentifyTest, DescribesAnIoController) {
  BuildDisk();
  Enable();

  const auto call = Identify(Cns::kController, 0);

  ASSERT_EQ(call->status, nvme::kSuccess);
  ASSERT_EQ(call->bytes().size(), 4096u);
  EXPECT_EQ(call->Text(4, 20), shared_.subsystems[0]->serial());
  EXPECT_EQ(call->Text(24, 22), "sluice NVMe-oF target ");  // MN
  EXPECT_EQ(call->Text(64, 8), "0.1     ");                 // FR
  EXPECT_EQ(call->U8(76), 0x03);                            // CMIC
  EXPECT_EQ(call->U8(77), 8);                               // MDTS
  EXPECT_EQ(call->U16(78), controller_->info().cntlid);
  EXPECT_EQ(call->U32(80), 0x00010400u);   // VER
  EXPECT_EQ(call->U32(92), 0x100u);        // OAES
  EXPECT_EQ(call->U32(96), 0x1u);          // CTRATT: no TBKAS
  EXPECT_EQ(call->U8(111), 1);             // CNTRLTYPE
  EXPECT_EQ(call->U8(259), 3);             // AERL
  EXPECT_EQ(call->U8(261), 0x06);          // LPA
  EXPECT_EQ(call->U8(262), 63);            // ELPE
  EXPECT_EQ(call->U16(320), 10);           // KAS
  EXPECT_EQ(call->U16(514), 128);          // MAXCMD
  EXPECT_EQ(call->U32(516), 2u);           // NN
  EXPECT_EQ(call->U16(520), 0x4D);         // ONCS
  EXPECT_EQ(call->U16(522), 0);            // FUSES
  EXPECT_EQ(call->U8(525) & 1, 0);         // VWC: memory has no cache
  EXPECT_EQ(call->U32(536), 0x00100005u);  // SGLS
  EXPECT_EQ(call->Text(768, sizeof(kTestNqn)),
            std::string(kTestNqn, sizeof(kTestNqn)));
  EXPECT_EQ(call->U32(1792), 260u);  // IOCCSZ
  EXPECT_EQ(call->U32(1796), 1u);    // IORCSZ
  EXPECT_EQ(call->U16(1800), 0);     // ICDOFF
  EXPECT_EQ(call->U8(1803), 16);     // MSDBD
  EXPECT_EQ(call->U16(1804), 1);     // OFCS
}

TEST_F(AdminIdentifyTest, DescribesADiscoveryController) {
  BuildDiscovery();
  Enable();

  const auto call = Identify(Cns::kController, 0);

  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->U32(92), 0x80000000u);  // OAES
  EXPECT_EQ(call->U8(111), 2);            // CNTRLTYPE
  EXPECT_EQ(call->U32(516), 0u);          // NN
  EXPECT_EQ(call->Text(768, nvme::kDiscoveryNqn.size()),
            std::string(nvme::kDiscoveryNqn));
}

TEST_F(AdminIdentifyTest, DiscoveryControllersHaveNothingElse) {
  BuildDiscovery();
  Enable();

  for (const Cns cns :
       {Cns::kNamespace, Cns::kActiveNamespaces, Cns::kNamespaceDescriptors,
        Cns::kCommandSetController, Cns::kControllers}) {
    EXPECT_EQ(Identify(cns, 1)->status, nvme::kInvalidField.WithDnr());
  }
}

TEST_F(AdminIdentifyTest, DescribesNamespaces) {
  BuildDisk();
  Enable();

  const auto first = Identify(Cns::kNamespace, 1);
  const auto second = Identify(Cns::kNamespace, 2);

  ASSERT_EQ(first->status, nvme::kSuccess);
  EXPECT_EQ(first->U64(0), 32768u);     // NSZE
  EXPECT_EQ(first->U64(8), 32768u);     // NCAP
  EXPECT_EQ(first->U8(30), 1);          // NMIC
  EXPECT_EQ(first->U8(128 + 2), 9);     // LBADS
  EXPECT_FALSE(first->Zero(104, 120));  // NGUID
  ASSERT_EQ(second->status, nvme::kSuccess);
  EXPECT_EQ(second->U64(0), 8192u);
  EXPECT_EQ(second->U8(128 + 2), 12);
  EXPECT_NE(first->Text(104, 16), second->Text(104, 16));
}

TEST_F(AdminIdentifyTest, TellsTheSizeOfItsReactor) {
  BuildDisk();
  Enable();

  const auto* devices = shard_->DevicesOf(shared_.subsystems[0].get());
  (*devices)[0]->set_size_bytes(uint64_t{20} << 20);

  EXPECT_EQ(Identify(Cns::kNamespace, 1)->U64(0), 40960u);
}

TEST_F(AdminIdentifyTest, RefusesNsidsThatNameNoNamespace) {
  BuildDisk();
  Enable();
  const nvme::Status expected = nvme::kInvalidNamespace.WithDnr();

  for (const uint32_t nsid : {0u, 3u, nvme::kNsidBroadcast}) {
    EXPECT_EQ(Identify(Cns::kNamespace, nsid)->status, expected) << nsid;
    EXPECT_EQ(Identify(Cns::kNamespaceDescriptors, nsid)->status, expected);
    EXPECT_EQ(Identify(Cns::kCommandSetNamespace, nsid)->status, expected);
    EXPECT_EQ(Identify(Cns::kIndependentNamespace, nsid)->status, expected);
    EXPECT_EQ(Identify(Cns::kNamespaceControllers, nsid)->status, expected);
  }
}

// NN is 1 all the same.
TEST_F(AdminIdentifyTest, AnswersAnInactiveNamespaceWithZeroes) {
  SubsystemOptions empty;
  empty.nqn = kTestNqn;
  Build({empty}, /*discovery=*/false);
  Enable();

  EXPECT_EQ(Identify(Cns::kController, 0)->U32(516), 1u);
  for (const Cns cns : {Cns::kNamespace, Cns::kIndependentNamespace,
                        Cns::kCommandSetNamespace}) {
    const auto call = Identify(cns, 1);
    EXPECT_EQ(call->status, nvme::kSuccess);
    EXPECT_TRUE(call->Zero(0, 4096));
  }
  EXPECT_EQ(Identify(Cns::kNamespaceDescriptors, 1)->status,
            nvme::kInvalidNamespace.WithDnr());
  EXPECT_TRUE(Identify(Cns::kActiveNamespaces, 0)->Zero(0, 4096));
}

TEST_F(AdminIdentifyTest, ListsActiveNamespacesAboveTheNsid) {
  BuildDisk();
  Enable();

  const auto all = Identify(Cns::kActiveNamespaces, 0);
  EXPECT_EQ(all->U32(0), 1u);
  EXPECT_EQ(all->U32(4), 2u);
  EXPECT_TRUE(all->Zero(8, 4096));

  const auto rest = Identify(Cns::kActiveNamespaces, 1);
  EXPECT_EQ(rest->U32(0), 2u);
  EXPECT_TRUE(rest->Zero(4, 4096));

  EXPECT_TRUE(Identify(Cns::kActiveNamespaces, 0xFFFFFFFD)->Zero(0, 4096));
  EXPECT_EQ(Identify(Cns::kActiveNamespaces, 0xFFFFFFFE)->status,
            nvme::kInvalidNamespace.WithDnr());
  EXPECT_EQ(Identify(Cns::kActiveNamespaces, 0xFFFFFFFF)->status,
            nvme::kInvalidNamespace.WithDnr());
}

// The identifiers are those of CNS 00h [spec §6.4].
TEST_F(AdminIdentifyTest, ListsNamespaceDescriptors) {
  BuildDisk();
  Enable();

  const auto call = Identify(Cns::kNamespaceDescriptors, 1);

  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->U32(0), 0x00001002u);  // NGUID, 16 bytes
  EXPECT_EQ(call->Text(4, 16), Identify(Cns::kNamespace, 1)->Text(104, 16));
  EXPECT_EQ(call->U32(20), 0x00001003u);  // UUID
  EXPECT_EQ(call->U32(40), 0x00000104u);  // CSI
  EXPECT_TRUE(call->Zero(44, 4096));
}

TEST_F(AdminIdentifyTest, ServesTheNvmCommandSetOnly) {
  BuildDisk();
  Enable();

  EXPECT_TRUE(Identify(Cns::kCommandSetNamespace, 1)->Zero(0, 4096));
  EXPECT_TRUE(Identify(Cns::kCommandSetController, 0)->Zero(0, 4096));
  EXPECT_EQ(Identify(Cns::kCommandSetNamespace, 1, 2)->status,
            nvme::kInvalidField.WithDnr());
  EXPECT_EQ(Identify(Cns::kCommandSetController, 0, 2)->status,
            nvme::kInvalidField.WithDnr());
}

TEST_F(AdminIdentifyTest, IndependentNamespacesAreReady) {
  BuildDisk();
  Enable();

  const auto call = Identify(Cns::kIndependentNamespace, 2);

  ASSERT_EQ(call->status, nvme::kSuccess);
  EXPECT_EQ(call->U8(1), 1);   // NMIC
  EXPECT_EQ(call->U8(14), 1);  // NSTAT
}

TEST_F(AdminIdentifyTest, ListsTheControllersOfTheSubsystem) {
  BuildDisk();
  Enable();
  const Subsystem* disk = shared_.subsystems[0].get();
  const uint16_t ours = controller_->info().cntlid;
  const uint16_t other = registry_.Add(shard_.get(), disk);
  registry_.Add(shard_.get(), shared_.subsystems[1].get());

  const auto all = Identify(Cns::kControllers, 0);
  ASSERT_EQ(all->status, nvme::kSuccess);
  EXPECT_EQ(all->U16(0), 2);
  EXPECT_EQ(all->U16(2), ours);
  EXPECT_EQ(all->U16(4), other);
  EXPECT_TRUE(all->Zero(6, 4096));

  const auto from = Identify(Cns::kControllers, 0, 0, other);
  EXPECT_EQ(from->U16(0), 1);
  EXPECT_EQ(from->U16(2), other);

  const auto attached = Identify(Cns::kNamespaceControllers, 1);
  EXPECT_EQ(attached->U16(0), 2);
}

TEST_F(AdminIdentifyTest, RefusesOtherStructures) {
  BuildDisk();
  Enable();

  for (const Cns cns :
       {Cns::kCommandSetActiveNamespaces, Cns::kAllocatedNamespaces,
        Cns::kPrimaryController, Cns::kUuidList, Cns::kCommandSets,
        static_cast<Cns>(0xFF)}) {
    EXPECT_EQ(Identify(cns, 0)->status, nvme::kInvalidField.WithDnr());
  }
}

}  // namespace
}  // namespace sluice::target
