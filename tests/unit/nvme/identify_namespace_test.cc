#include "nvme/identify_namespace.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/nvme/bytes_of.h"

namespace sluice::nvme {
namespace {

NamespaceIdentity Disk() {
  NamespaceIdentity identity;
  identity.block_count = 0x123456789;
  identity.used_blocks = 0x1000;
  identity.block_bytes = 4096;
  identity.nguid.fill(std::byte{0xAA});
  identity.uuid.fill(std::byte{0xBB});
  return identity;
}

// Offsets of spec §6.3.
TEST(IdentifyNamespace, PutsFieldsAtTheirOffsets) {
  NamespaceIdentity identity = Disk();
  identity.write_protected = true;
  identity.deallocated_read = DeallocatedRead::kZeroes;
  identity.write_zeroes_deallocates = true;
  identity.optimal_boundary_blocks = 0x0100;
  identity.write_granularity_blocks = 2;
  identity.optimal_write_blocks = 16;
  identity.ana_group_id = 7;
  identity.eui64.fill(std::byte{0xCC});
  nvme_id_ns ns;

  BuildIdentifyNamespace(identity, &ns);

  const BytesOf bytes(ns);
  EXPECT_EQ(bytes.U64(0), 0x123456789u);
  EXPECT_EQ(bytes.U64(8), 0x123456789u);
  EXPECT_EQ(bytes.U64(16), 0x1000u);
  EXPECT_EQ(bytes.U8(24), 0x18);  // NSFEAT: ids not reused, optimal I/O
  EXPECT_EQ(bytes.U8(25), 0);     // NLBAF
  EXPECT_EQ(bytes.U8(26), 0);     // FLBAS
  EXPECT_EQ(bytes.U8(30), 1);     // NMIC
  EXPECT_EQ(bytes.U8(33), 0x09);  // DLFEAT
  EXPECT_EQ(bytes.U16(46), 0x0100);
  EXPECT_EQ(bytes.U16(64), 1);   // NPWG
  EXPECT_EQ(bytes.U16(66), 0);   // NPWA
  EXPECT_EQ(bytes.U16(72), 15);  // NOWS
  EXPECT_EQ(bytes.U32(92), 7u);
  EXPECT_EQ(bytes.U8(99), 1);  // NSATTR
  EXPECT_EQ(bytes.Text(104, 16), std::string(16, '\xAA'));
  EXPECT_EQ(bytes.Text(120, 8), std::string(8, '\xCC'));
  EXPECT_EQ(bytes.U32(128), 12u << 16);  // LBAF 0: MS 0, LBADS 12
  EXPECT_TRUE(bytes.Zero(132, 4096));
}

TEST(IdentifyNamespace, IsPlainByDefault) {
  NamespaceIdentity identity;
  identity.block_count = 8;
  nvme_id_ns ns;

  BuildIdentifyNamespace(identity, &ns);

  const BytesOf bytes(ns);
  EXPECT_EQ(bytes.U8(24), 0x08);
  EXPECT_EQ(bytes.U8(33), 0);
  EXPECT_TRUE(bytes.Zero(34, 92));
  EXPECT_EQ(bytes.U8(130), 9);
}

TEST(IdentifyNamespace, ReportsItsOwnAtomicity) {
  NamespaceIdentity identity = Disk();
  identity.atomic_blocks = 8;
  nvme_id_ns ns;

  BuildIdentifyNamespace(identity, &ns);

  const BytesOf bytes(ns);
  EXPECT_EQ(bytes.U8(24), 0x0A);
  EXPECT_EQ(bytes.U16(34), 7);  // NAWUN
  EXPECT_EQ(bytes.U16(36), 0);  // NAWUPF
}

TEST(NamespaceDescriptors, ListIdsAndAlwaysTheCommandSet) {
  NamespaceIdentity identity = Disk();
  std::array<std::byte, kIdentifyBytes> list;

  BuildNamespaceDescriptors(identity, &list);

  const BytesOf bytes(list);
  EXPECT_EQ(bytes.U32(0), 0x00001002u);
  EXPECT_EQ(bytes.Text(4, 16), std::string(16, '\xAA'));
  EXPECT_EQ(bytes.U32(20), 0x00001003u);
  EXPECT_EQ(bytes.Text(24, 16), std::string(16, '\xBB'));
  EXPECT_EQ(bytes.U32(40), 0x00000104u);
  EXPECT_TRUE(bytes.Zero(44, 4096));
}

TEST(NamespaceDescriptors, StartWithTheEui64) {
  NamespaceIdentity identity;
  identity.eui64.fill(std::byte{1});
  std::array<std::byte, kIdentifyBytes> list;

  BuildNamespaceDescriptors(identity, &list);

  const BytesOf bytes(list);
  EXPECT_EQ(bytes.U32(0), 0x00000801u);
  EXPECT_EQ(bytes.U32(12), 0x00000104u);
}

TEST(IndependentNamespace, PutsFieldsAtTheirOffsets) {
  NamespaceIdentity identity = Disk();
  identity.rotational = true;
  identity.ana_group_id = 3;
  identity.write_protected = true;
  nvme_id_independent_id_ns ns;

  BuildIndependentNamespace(identity, &ns);

  const BytesOf bytes(ns);
  EXPECT_EQ(bytes.U8(0), 0x38);
  EXPECT_EQ(bytes.U8(1), 1);
  EXPECT_EQ(bytes.U32(4), 3u);
  EXPECT_EQ(bytes.U8(8), 1);
  EXPECT_EQ(bytes.U8(14), 1);
  EXPECT_TRUE(bytes.Zero(15, 4096));
}

TEST(ActiveNamespaces, ListsThoseAbove) {
  const uint32_t nsids[] = {1, 2, 5, 1024};
  nvme_ns_list list;

  BuildActiveNamespaces(nsids, 2, &list);

  const BytesOf bytes(list);
  EXPECT_EQ(bytes.U32(0), 5u);
  EXPECT_EQ(bytes.U32(4), 1024u);
  EXPECT_TRUE(bytes.Zero(8, 4096));
  BuildActiveNamespaces(nsids, 1024, &list);
  EXPECT_TRUE(BytesOf(list).Zero(0, 4096));
}

TEST(ActiveNamespaces, StopsAt1024) {
  std::vector<uint32_t> nsids(2000);
  std::iota(nsids.begin(), nsids.end(), 1);
  nvme_ns_list list;

  BuildActiveNamespaces(nsids, 0, &list);
  EXPECT_EQ(BytesOf(list).U32(4092), 1024u);
  BuildActiveNamespaces(nsids, 1024, &list);
  EXPECT_EQ(BytesOf(list).U32(0), 1025u);
  EXPECT_EQ(BytesOf(list).U32(976 * 4), 0u);
}

TEST(ControllerList, CountsAndListsFromAnId) {
  const uint16_t cntlids[] = {1, 4, 9};
  nvme_ctrl_list list;

  BuildControllerList(cntlids, 4, &list);

  const BytesOf bytes(list);
  EXPECT_EQ(bytes.U16(0), 2);
  EXPECT_EQ(bytes.U16(2), 4);
  EXPECT_EQ(bytes.U16(4), 9);
  EXPECT_TRUE(bytes.Zero(6, 4096));
}

TEST(ControllerList, StopsAt2047) {
  std::vector<uint16_t> cntlids(3000);
  std::iota(cntlids.begin(), cntlids.end(), uint16_t{1});
  nvme_ctrl_list list;

  BuildControllerList(cntlids, 0, &list);

  EXPECT_EQ(BytesOf(list).U16(0), 2047);
  EXPECT_EQ(BytesOf(list).U16(4094), 2047);
}

TEST(NvmNamespace, IsZeroWithoutProtection) {
  nvme_nvm_id_ns ns;

  BuildNvmNamespace(&ns);

  EXPECT_TRUE(BytesOf(ns).Zero(0, 4096));
}

}  // namespace
}  // namespace sluice::nvme
