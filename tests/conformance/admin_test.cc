// Admin commands: Identify in every form, features, Abort, asynchronous events,
// and opcodes that are not served [spec §6].
#include <cstring>
#include <initializer_list>

#include "nvme/wire.h"
#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

constexpr const char* kGood = "0x000";
constexpr const char* kOpcode = "0x001|DNR";
constexpr const char* kField = "0x002|DNR";
constexpr const char* kNamespace = "0x00B|DNR";
constexpr const char* kLength = "0x00F|DNR";

class Admin : public OneController {
 protected:
  std::string Identify(uint8_t cns, uint32_t nsid, uint32_t sgl_bytes = 4096) {
    controller_->data().Fill(0xEE);
    return Text(controller_->Identify({.cns = cns}, nsid, sgl_bytes));
  }
  absl::Span<const std::byte> data() {
    return controller_->data().bytes(0, nvme::kIdentifyBytes);
  }
  std::string Run(const nvme::Sqe& sqe) {
    return Text(controller_->admin().Execute(sqe));
  }
};

TEST_F(Admin, IdentifyController) {
  ASSERT_EQ(Identify(0x01, 0), kGood);
  nvme_id_ctrl identity;
  std::memcpy(&identity, data().data(), sizeof(identity));
  // What hosts insist on [spec §4.2].
  EXPECT_EQ(identity.cntlid, controller_->cntlid());
  EXPECT_NE(identity.kas, 0);
  EXPECT_GE(identity.ioccsz, 4u);
  EXPECT_EQ(identity.iorcsz, 1u);
  EXPECT_EQ(identity.icdoff, 0);
  EXPECT_EQ(identity.sgls & 0x7, 0x5u);
  EXPECT_GE(identity.maxcmd, 2);
  EXPECT_EQ(identity.sqes, 0x66);
  EXPECT_EQ(identity.cqes, 0x44);
  EXPECT_NE(identity.mdts, 0) << "MDTS is always reported";
  EXPECT_EQ(std::string(identity.subnqn), host().subnqn);
  EXPECT_NE(identity.cmic & 2, 0) << "several controllers";
  const auto vs = controller_->Property(nvme::Property::kVs);
  ASSERT_TRUE(vs.ok());
  EXPECT_EQ(identity.ver, *vs);
}

TEST_F(Admin, IdentifyNamespace) {
  ASSERT_EQ(Identify(0x00, limits().nsid), kGood);
  nvme_id_ns space;
  std::memcpy(&space, data().data(), sizeof(space));
  EXPECT_NE(space.nsze, 0u);
  EXPECT_EQ(space.ncap, space.nsze);
  EXPECT_NE(space.nmic & 1, 0) << "shared";

  Check("0", Identify(0x00, 0), {kNamespace});
  Check("beyond NN", Identify(0x00, limits().nsid_max + 1), {kNamespace});
  Check("broadcast", Identify(0x00, nvme::kNsidBroadcast), {kNamespace, kGood});
  if (limits().absent_nsid == 0) return;
  ASSERT_EQ(Identify(0x00, limits().absent_nsid), kGood);
  std::memcpy(&space, data().data(), sizeof(space));
  EXPECT_EQ(space.nsze, 0u);
  EXPECT_EQ(space.ncap, 0u);
}

TEST_F(Admin, IdentifyActiveNamespaces) {
  ASSERT_EQ(Identify(0x02, 0), kGood);
  EXPECT_EQ(nvme::Load32(data(), 0), limits().nsid);
  uint32_t previous = 0;
  for (size_t at = 0; at < data().size(); at += 4) {
    const uint32_t nsid = nvme::Load32(data(), at);
    if (nsid == 0) break;
    EXPECT_GT(nsid, previous);
    previous = nsid;
  }
  // Only those behind the given one.
  ASSERT_EQ(Identify(0x02, previous), kGood);
  EXPECT_EQ(nvme::Load32(data(), 0), 0u);
  ASSERT_EQ(Identify(0x02, 0xFFFFFFFD), kGood);
  EXPECT_EQ(nvme::Load32(data(), 0), 0u);
  Check("FFFFFFFEh", Identify(0x02, 0xFFFFFFFE), {kNamespace});
  Check("FFFFFFFFh", Identify(0x02, 0xFFFFFFFF), {kNamespace});
}

TEST_F(Admin, IdentifyDescriptors) {
  ASSERT_EQ(Identify(0x03, limits().nsid), kGood);
  bool has_identity = false;
  for (size_t at = 0; at + 4 <= data().size();) {
    const uint8_t type = nvme::Load8(data(), at);
    const uint8_t length = nvme::Load8(data(), at + 1);
    if (length == 0) break;
    EXPECT_EQ(length, type == 1 ? 8 : type == 4 ? 1 : 16) << int{type};
    has_identity |= type >= 1 && type <= 3;
    at += 4u + length;
  }
  EXPECT_TRUE(has_identity);
  Check("0", Identify(0x03, 0), {kNamespace});
  Check("absent", Identify(0x03, limits().absent_nsid), {kNamespace});
  Check("broadcast", Identify(0x03, nvme::kNsidBroadcast), {kNamespace});
}

TEST_F(Admin, IdentifyOptionalForms) {
  // May be refused, but not answered with anything else [spec §4.3].
  for (const uint8_t cns : std::initializer_list<uint8_t>{
           0x05, 0x06, 0x07, 0x08, 0x12, 0x13, 0x17, 0x1C}) {
    const bool of_namespace = cns == 0x05 || cns == 0x08 || cns == 0x12;
    Check(Name(cns), Identify(cns, of_namespace ? limits().nsid : 0),
          {kGood, kField});
  }
}

TEST_F(Admin, IdentifyControllerLists) {
  if (Identify(0x13, 0) != kGood) GTEST_SKIP() << "no CNS 13h";
  const uint16_t count = nvme::Load16(data(), 0);
  bool found = false;
  for (uint16_t i = 0; i < count; ++i) {
    found |= nvme::Load16(data(), 2 + 2u * i) == controller_->cntlid();
  }
  EXPECT_TRUE(found);
}

TEST_F(Admin, IdentifyUnknownForms) {
  for (const uint8_t cns : std::initializer_list<uint8_t>{
           0x04, 0x09, 0x14, 0x15, 0x30, 0x80, 0xFF}) {
    Check(Name(cns), Identify(cns, 0), {kField});
  }
}

TEST_F(Admin, IdentifyLengths) {
  Check("short", Identify(0x01, 0, 4092), {kLength});
  Check("none", Identify(0x01, 0, 0), {kLength});
  Check("long", Identify(0x01, 0, 8192), {kGood});
  EXPECT_EQ(controller_->data().bytes()[4096], std::byte{0xEE});
}

TEST_F(Admin, NumberOfQueues) {
  const auto response = controller_->SetFeature(0x07, 0x00000000);
  ASSERT_EQ(Text(response), kGood);
  EXPECT_EQ(response->cqe.dw0() & 0xFFFF, response->cqe.dw0() >> 16);
  Check("FFFFh", Text(controller_->SetFeature(0x07, 0xFFFFFFFF)), {kField});
  EXPECT_EQ(Text(controller_->GetFeature(0x07)), kGood);
}

TEST_F(Admin, AsyncEventConfiguration) {
  const uint32_t offered = limits().oaes & 0x80000B00;
  ASSERT_EQ(Text(controller_->SetFeature(0x0B, offered)), kGood);
  const auto response = controller_->GetFeature(0x0B);
  ASSERT_EQ(Text(response), kGood);
  EXPECT_EQ(response->cqe.dw0(), offered);
  // SPDK asks for all of SMART's.
  Check("1Fh", Text(controller_->SetFeature(0x0B, 0x1F)), {kGood});
}

TEST_F(Admin, KeepAliveTimer) {
  Check("set", Text(controller_->SetFeature(0x0F, 30000)), {kGood});
  const auto response = controller_->GetFeature(0x0F);
  ASSERT_EQ(Text(response), kGood);
  EXPECT_GE(response->cqe.dw0(), 30000u);
  EXPECT_EQ(Text(controller_->KeepAlive()), kGood);
  Check("off", Text(controller_->SetFeature(0x0F, 0)),
        {kGood, "0x01A", "0x01A|DNR"});
}

TEST_F(Admin, VolatileWriteCache) {
  const bool has_cache = (limits().vwc & 1) != 0;
  const auto response = controller_->GetFeature(0x06);
  if (has_cache) {
    EXPECT_EQ(Text(response), kGood);
  } else {
    Check("", Text(response), {kField, kGood});
  }
}

TEST_F(Admin, HostIdentifier) {
  controller_->data().Fill(0xEE);
  nvme::Sqe sqe;
  nvme::EncodeGetFeatures({.fid = 0x81, .cdw11 = 1}, &sqe);
  sqe.sgl = controller_->data().Keyed(0, 16);
  Check("get", Run(sqe), {kGood});
  EXPECT_EQ(
      std::memcmp(controller_->data().bytes().data(), host().hostid.data(), 16),
      0);
  nvme::EncodeGetFeatures({.fid = 0x81, .cdw11 = 0}, &sqe);
  Check("of 64 bits", Run(sqe), {kField});
  nvme::EncodeSetFeatures({.fid = 0x81, .cdw11 = 1}, &sqe);
  Check("set", Run(sqe), {"0x00C|DNR"});
}

TEST_F(Admin, UnknownFeatures) {
  for (const uint8_t fid : std::initializer_list<uint8_t>{
           0x00, 0x08, 0x09, 0x1F, 0x7F, 0xC0, 0xFF}) {
    Check("get " + Name(fid), Text(controller_->GetFeature(fid)), {kField});
    Check("set " + Name(fid), Text(controller_->SetFeature(fid, 0)), {kField});
  }
}

TEST_F(Admin, UnknownOpcodes) {
  for (const uint8_t opcode :
       std::initializer_list<uint8_t>{0x00, 0x01, 0x03, 0x04, 0x05, 0x07, 0x0B,
                                      0x1C, 0x7C, 0x7E, 0xC0, 0xC1, 0xFF}) {
    nvme::Sqe sqe;
    sqe.opcode = opcode;
    Check(Name(opcode), Run(sqe), {kOpcode});
    sqe.sgl = controller_->data().Keyed(0, 4096);
    Check(Name(opcode) + " with data", Run(sqe), {kOpcode});
  }
}

TEST_F(Admin, FlagsThatAreNotServed) {
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kKeepAlive);
  for (const uint8_t flags :
       std::initializer_list<uint8_t>{0x00, 0x80, 0xC0, 0x41, 0x42}) {
    sqe.flags = flags;
    Check(Name(flags), Run(sqe), {kField});
  }
}

TEST_F(Admin, EventRequestsUpToTheLimit) {
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
  for (uint32_t i = 0; i < limits().aer_count_max; ++i) {
    ASSERT_TRUE(controller_->admin().Submit(sqe).ok());
  }
  Check("one more", Run(sqe), {"0x105|DNR"});
  // The others wait, and are in nobody's way.
  EXPECT_TRUE(controller_->IdentifyController().ok());
}

TEST_F(Admin, EventRequestsWaitOverDisable) {
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
  ASSERT_TRUE(controller_->admin().Submit(sqe).ok());
  ASSERT_TRUE(controller_->Disable().ok());
  ASSERT_TRUE(controller_->Enable().ok());
  EXPECT_TRUE(controller_->IdentifyController().ok());
}

TEST_F(Admin, Abort) {
  nvme::Sqe event;
  event.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
  const auto cid = controller_->admin().Submit(event);
  ASSERT_TRUE(cid.ok());
  for (const uint16_t victim : {*cid, static_cast<uint16_t>(0x7777)}) {
    nvme::Sqe sqe;
    nvme::EncodeAbort({.sqid = 0, .cid = victim}, &sqe);
    const auto response = controller_->admin().Execute(sqe);
    ASSERT_EQ(Text(response), kGood);
    if (response->cqe.dw0() != nvme::kAborted) continue;
    EXPECT_EQ(Text(controller_->admin().connection().WaitResponse(*cid)),
              "0x007");
  }
}

}  // namespace
}  // namespace sluice::conformance
