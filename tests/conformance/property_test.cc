// Properties: Get and Set of right and wrong ones, and what writing CC does
// [spec §3.3, §3.5].
#include <initializer_list>

#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

constexpr const char* kNotReady = "0x00C|DNR";
constexpr uint32_t kCc = 0x14;

class Property : public Conformance {
 protected:
  // CSTS with this CC written: "ready", "fatal", "neither".
  std::string StateAfter(const nvme::ControllerConfiguration& cc) {
    const auto controller = Connected();
    if (controller == nullptr) return "no controller";
    const auto set = controller->SetProperty(kCc, 4, nvme::EncodeCc(cc));
    if (Text(set) != "0x000") return Text(set);
    Deadline deadline(absl::Milliseconds(300));
    std::string state;
    do {
      const auto csts = controller->Csts();
      if (!csts.ok()) return csts.status().ToString();
      state = csts->fatal ? "fatal" : csts->ready ? "ready" : "neither";
    } while (state == "neither" && deadline.Nap());
    if (state != "fatal") return state;
    // A controller that failed is made well by a reset [spec §3.3].
    const bool is_well =
        controller->Disable().ok() && controller->Enable().ok();
    Check("reset", is_well ? "well again" : "stays fatal", {"well again"});
    return state;
  }
};

TEST_F(Property, GetAll) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const auto cap = controller->Property(nvme::Property::kCap);
  const auto vs = controller->Property(nvme::Property::kVs);
  const auto cc = controller->Property(nvme::Property::kCc);
  const auto csts = controller->Property(nvme::Property::kCsts);
  ASSERT_TRUE(cap.ok()) << cap.status();
  ASSERT_TRUE(vs.ok()) << vs.status();
  ASSERT_TRUE(cc.ok()) << cc.status();
  ASSERT_TRUE(csts.ok()) << csts.status();

  // What Linux insists on.
  const nvme::Capabilities capabilities = nvme::DecodeCap(*cap);
  EXPECT_EQ(capabilities.mpsmin, 0);
  EXPECT_TRUE(capabilities.css_nvm);
  EXPECT_GE(capabilities.queue_depth_max, 16u);
  EXPECT_GT(capabilities.timeout_500ms, 0);
  EXPECT_GE(*vs, nvme::MakeVersion(1, 2, 0));
  EXPECT_FALSE(nvme::DecodeCc(static_cast<uint32_t>(*cc)).enabled);
  EXPECT_FALSE(nvme::DecodeCsts(static_cast<uint32_t>(*csts)).ready);
}

TEST_F(Property, GetWhatIsNotThere) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  for (const uint32_t offset : {0x0Cu, 0x10u, 0x18u, 0x24u, 0x28u, 0x30u, 0x38u,
                                0x1000u, 0xFFFFFFFCu, 0x15u}) {
    Check(absl::StrCat("0x", absl::Hex(offset)),
          Text(controller->GetProperty(offset, 4)), {"0x002|DNR", "0x182|DNR"});
  }
  for (const uint32_t offset : {0x28u, 0x30u, 0x50u, 0xFFFFFFF8u}) {
    Check(absl::StrCat("0x", absl::Hex(offset), " of 8"),
          Text(controller->GetProperty(offset, 8)), {"0x002|DNR", "0x182|DNR"});
  }
}

TEST_F(Property, GetOfAnotherSize) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  // Halves of CAP may be served, as SPDK does.
  Check("CAP", Text(controller->GetProperty(0x00, 4)),
        {"0x002|DNR", "0x182|DNR", "0x000"});
  Check("CAP's upper half", Text(controller->GetProperty(0x04, 4)),
        {"0x002|DNR", "0x182|DNR", "0x000"});
  for (const uint32_t offset : {0x08u, 0x14u, 0x1Cu}) {
    Check(absl::StrCat("0x", absl::Hex(offset)),
          Text(controller->GetProperty(offset, 8)), {"0x002|DNR", "0x182|DNR"});
  }
  Check("reserved ATTRIB", Text(controller->GetProperty(0x08, 3)),
        {"0x002|DNR", "0x182|DNR"});
}

TEST_F(Property, SubsystemResetIsOptional) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  Check("", Text(controller->GetProperty(0x20, 4)),
        {"0x000", "0x002|DNR", "0x182|DNR"});
}

TEST_F(Property, SetWhatIsReadOnly) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  Check("CAP", Text(controller->SetProperty(0x00, 8, 1)),
        {"0x002|DNR", "0x182|DNR"});
  for (const uint32_t offset : {0x08u, 0x1Cu, 0x24u, 0xFFFFFFFCu}) {
    Check(absl::StrCat("0x", absl::Hex(offset)),
          Text(controller->SetProperty(offset, 4, 1)),
          {"0x002|DNR", "0x182|DNR"});
  }
}

TEST_F(Property, SetCcOfAnotherSize) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const uint32_t cc = nvme::EncodeCc({.enabled = true});
  Check("8", Text(controller->SetProperty(kCc, 8, cc)),
        {"0x002|DNR", "0x182|DNR"});
  Check("reserved ATTRIB", Text(controller->SetProperty(kCc, 3, cc)),
        {"0x002|DNR", "0x182|DNR"});
}

TEST_F(Property, NotOnIoQueues) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  nvme::Sqe sqe;
  nvme::EncodePropertyGet({.offset_bytes = 8}, &sqe);
  Check("Get", Text(io.queue->Execute(sqe)),
        {"0x002", "0x002|DNR", "0x001", "0x001|DNR"});
  nvme::EncodePropertySet({.offset_bytes = kCc}, &sqe);
  Check("Set", Text(io.queue->Execute(sqe)),
        {"0x002", "0x002|DNR", "0x001", "0x001|DNR"});
  EXPECT_TRUE(io.controller->Csts()->ready);
}

TEST_F(Property, UnknownFabricsTypes) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  for (const uint8_t fctype :
       std::initializer_list<uint8_t>{0x02, 0x0C, 0x40, 0xC0, 0xFC}) {
    nvme::Sqe sqe;
    sqe.opcode = nvme::kFabricsOpcode;
    sqe.set_fctype(fctype);
    Check(absl::StrCat("0x", absl::Hex(fctype)),
          Text(controller->admin().Execute(sqe)), {"0x001|DNR", "0x002|DNR"});
  }
}

TEST_F(Property, EnableAndDisable) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const uint16_t cntlid = controller->cntlid();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(controller->Enable().ok());
    const auto cc = controller->Property(nvme::Property::kCc);
    ASSERT_TRUE(cc.ok());
    // Linux 6.1 takes it as the base of what it writes next.
    EXPECT_EQ(*cc, nvme::EncodeCc({.enabled = true}));
    const auto identity = controller->IdentifyController();
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(identity->cntlid, cntlid);
    ASSERT_TRUE(controller->Disable().ok());
  }
}

TEST_F(Property, EnableTwice) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  ASSERT_TRUE(controller->Enable().ok());
  ASSERT_TRUE(controller->Enable().ok());
  EXPECT_TRUE(controller->IdentifyController().ok());
}

TEST_F(Property, EnableWithWrongSizes) {
  Check("IOSQES 0", StateAfter({.enabled = true, .iosqes = 0}), {"fatal"});
  Check("IOSQES 7", StateAfter({.enabled = true, .iosqes = 7}), {"fatal"});
  Check("IOCQES 0", StateAfter({.enabled = true, .iocqes = 0}), {"fatal"});
  Check("IOCQES 5", StateAfter({.enabled = true, .iocqes = 5}), {"fatal"});
}

TEST_F(Property, EnableWithWrongModes) {
  Check("MPS", StateAfter({.enabled = true, .mps = 15}), {"fatal"});
  Check("AMS", StateAfter({.enabled = true, .ams = 7}), {"fatal"});
  Check("CSS", StateAfter({.enabled = true, .css = 1}), {"fatal"});
}

TEST_F(Property, CommandsBeforeEnable) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  Check("Identify", Text(controller->Identify({.cns = 1})), {kNotReady});
  Check("Get Features", Text(controller->GetFeature(0x0F)), {kNotReady});
  Check("Set Features", Text(controller->SetFeature(0x07, 0)), {kNotReady});
  Check("Get Log Page",
        Text(controller->GetLog({.lid = 2, .length_bytes = 512})), {kNotReady});
  Check("Keep Alive", Text(controller->KeepAlive()), {kNotReady});
  nvme::Sqe event;
  event.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
  Check("Async Event Request", Text(controller->admin().Execute(event)),
        {kNotReady});
}

TEST_F(Property, CommandsAfterDisable) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  ASSERT_TRUE(io.controller->Disable().ok());
  Check("admin", Text(io.controller->Identify({.cns = 1})), {kNotReady});
  Check("io", Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0))),
        {kNotReady, "closed", "0x008"});
}

TEST_F(Property, Shutdown) {
  for (const auto shn : {nvme::ShutdownNotification::kNormal,
                         nvme::ShutdownNotification::kAbrupt}) {
    const auto controller = Enabled();
    ASSERT_NE(controller, nullptr);
    const absl::Status status = controller->Shutdown(shn);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(controller->Property(nvme::Property::kVs).ok());
  }
}

TEST_F(Property, ShutdownWithoutEnable) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const auto response = controller->SetProperty(
      kCc, 4, nvme::EncodeCc({.shn = nvme::ShutdownNotification::kNormal}));
  Check("", Text(response), {"0x000"});
}

TEST_F(Property, ShutdownWithIoQueues) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  ASSERT_TRUE(io.queue->Submit(BlockSqe(io, nvme::IoOpcode::kRead, 0)).ok());
  const absl::Status status = io.controller->Shutdown();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice::conformance
