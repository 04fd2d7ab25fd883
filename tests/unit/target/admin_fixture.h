// A controller without a queue: commands go straight to ExecuteAdmin, their
// data lies in the call. Moved by hand, as every TestReactor.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/blocking_pool.h"
#include "core/task.h"
#include "nvme/admin_command.h"
#include "nvme/wire.h"
#include "target/admin.h"
#include "target/controller.h"
#include "target/registry.h"
#include "target/request.h"
#include "target/subsystem.h"
#include "target/target_shard.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/test_reactor.h"

namespace sluice::target {

inline constexpr char kTestMachine[] = "0123456789abcdef0123456789abcdef";
inline constexpr char kTestNqn[] = "nqn.2026-01.io.sluice:disk";
inline constexpr char kTestHostNqn[] = "nqn.2026-01.io.sluice:host";
inline constexpr std::byte kUntouched{0xEE};

inline nvme::Nqn MakeNqn(absl::string_view text) {
  nvme::Nqn nqn;
  SLUICE_CHECK(nvme::Nqn::FromText(text, &nqn));
  return nqn;
}

inline transport::ListenAddress MakeAddress(absl::string_view text) {
  auto address = transport::ParseListenAddress(text, nvme::kDefaultPort);
  SLUICE_CHECK(address.ok());
  return *std::move(address);
}

inline SubsystemOptions DiskOptions() {
  SubsystemOptions options;
  options.nqn = kTestNqn;
  options.namespaces.resize(2);
  options.namespaces[0].path = "ram:16M";
  options.namespaces[1].path = "ram:32M";
  options.namespaces[1].block_bytes = 4096;
  return options;
}

// One command, its data and its answer.
struct AdminCall {
  AdminCall(const nvme::Sqe& sqe, std::vector<std::byte> payload)
      : memory(std::move(payload)), request(&context) {
    context.sqe = sqe;
  }

  bool done() const { return task.has_value() && task->done(); }
  uint32_t dw0() const { return static_cast<uint32_t>(request.result); }
  absl::Span<const std::byte> bytes() const { return memory; }
  uint8_t U8(size_t offset) const { return nvme::Load8(memory, offset); }
  uint16_t U16(size_t offset) const { return nvme::Load16(memory, offset); }
  uint32_t U32(size_t offset) const { return nvme::Load32(memory, offset); }
  uint64_t U64(size_t offset) const { return nvme::Load64(memory, offset); }
  std::string Text(size_t offset, size_t size) const {
    return std::string(reinterpret_cast<const char*>(&memory[offset]), size);
  }
  bool Zero(size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i) {
      if (memory[i] != std::byte{0}) return false;
    }
    return true;
  }

  std::vector<std::byte> memory;
  transport::CommandContext context;
  Request request;
  nvme::Status status;
  std::optional<Task<void>> task;
};

inline Task<void> RunAdmin(Controller* controller, AdminCall* call) {
  const nvme::Status status = co_await ExecuteAdmin(controller, &call->request);
  call->status = status;
}

class AdminFixture : public testing::Test {
 protected:
  // The first subsystem is the controller's, unless `discovery`.
  void Build(std::vector<SubsystemOptions> subsystems, bool discovery) {
    for (const SubsystemOptions& options : subsystems) {
      auto subsystem = Subsystem::Open(options, kTestMachine);
      ASSERT_TRUE(subsystem.ok()) << subsystem.status();
      shared_.subsystems.push_back(*std::move(subsystem));
    }
    shared_.subsystems.push_back(Subsystem::Discovery(kTestMachine));
    shared_.registry = &registry_;
    shared_.control = reactor_.get();
    shared_.pool = &pool_;
    shared_.addresses = {MakeAddress("10.0.0.1")};
    transport::ShardOptions options;
    options.pool_bytes = size_t{8} << 20;
    auto shard =
        TargetShard::Create(reactor_.get(), fabric_.api(), &shared_, options);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);

    ControllerInfo info;
    info.subsystem = discovery ? shared_.subsystems.back().get()
                               : shared_.subsystems.front().get();
    info.cntlid = registry_.Add(shard_.get(), info.subsystem);
    info.hostnqn = MakeNqn(kTestHostNqn);
    info.hostid.fill(std::byte{0xAB});
    info.local = MakeAddress("10.0.0.1").address;
    controller_ = std::make_unique<Controller>(shard_.get(), nullptr, info, 0);
    shard_->AddController(controller_.get());
  }

  void BuildDisk() { Build({DiskOptions()}, /*discovery=*/false); }
  void BuildDiscovery() { Build({DiskOptions()}, /*discovery=*/true); }

  void TearDown() override {
    if (controller_ == nullptr) return;
    Task<void> gone = controller_->Teardown();
    ASSERT_TRUE(reactor_.RunUntil([&] { return gone.done(); }));
    reactor_.RunReady();
    controller_.reset();
    shard_.reset();
  }

  void WriteCc(uint32_t cc) {
    nvme::PropertyCommand command;
    command.offset_bytes = static_cast<uint32_t>(nvme::Property::kCc);
    command.value = cc;
    ASSERT_EQ(controller_->SetProperty(command), nvme::kSuccess);
  }
  void Enable() { WriteCc(0x00460001); }

  // Begins a command as the queue does; what it suspends for is open.
  std::unique_ptr<AdminCall> Start(const nvme::Sqe& sqe,
                                   std::vector<std::byte> payload = {}) {
    auto call = std::make_unique<AdminCall>(sqe, std::move(payload));
    call->request.bytes = AdminDataBytes(sqe, &call->status);
    if (!call->status.ok()) return call;
    call->memory.resize(call->request.bytes, kUntouched);
    call->request.direction = sqe.direction();
    call->request.extent.data = call->memory.data();
    call->request.extent.bytes = call->request.bytes;
    call->task.emplace(RunAdmin(controller_.get(), call.get()));
    return call;
  }

  // One that ends at once.
  std::unique_ptr<AdminCall> Execute(const nvme::Sqe& sqe,
                                     std::vector<std::byte> payload = {}) {
    auto call = Start(sqe, std::move(payload));
    EXPECT_TRUE(!call->task.has_value() || call->done());
    return call;
  }

  std::unique_ptr<AdminCall> Identify(nvme::Cns cns, uint32_t nsid,
                                      uint8_t csi = 0, uint16_t cntid = 0) {
    nvme::Sqe sqe;
    nvme::IdentifyCommand command;
    command.cns = static_cast<uint8_t>(cns);
    command.csi = csi;
    command.cntid = cntid;
    nvme::EncodeIdentify(command, &sqe);
    sqe.nsid = nsid;
    return Execute(sqe);
  }

  std::unique_ptr<AdminCall> GetLog(nvme::LogId lid, uint64_t length_bytes,
                                    uint64_t offset_bytes = 0,
                                    bool retain_event = false) {
    nvme::Sqe sqe;
    nvme::GetLogPageCommand command;
    command.lid = static_cast<uint8_t>(lid);
    command.length_bytes = length_bytes;
    command.offset_bytes = offset_bytes;
    command.retain_event = retain_event;
    nvme::EncodeGetLogPage(command, &sqe);
    sqe.nsid = nvme::kNsidBroadcast;
    return Execute(sqe);
  }

  std::unique_ptr<AdminCall> SetFeature(nvme::FeatureId fid, uint32_t cdw11,
                                        uint32_t nsid = 0, bool save = false,
                                        std::vector<std::byte> payload = {}) {
    nvme::Sqe sqe;
    nvme::SetFeaturesCommand command;
    command.fid = static_cast<uint8_t>(fid);
    command.cdw11 = cdw11;
    command.save = save;
    nvme::EncodeSetFeatures(command, &sqe);
    sqe.nsid = nsid;
    return Execute(sqe, std::move(payload));
  }

  std::unique_ptr<AdminCall> GetFeature(nvme::FeatureId fid, uint32_t cdw11 = 0,
                                        uint8_t select = 0) {
    nvme::Sqe sqe;
    nvme::GetFeaturesCommand command;
    command.fid = static_cast<uint8_t>(fid);
    command.cdw11 = cdw11;
    command.select = select;
    nvme::EncodeGetFeatures(command, &sqe);
    return Execute(sqe);
  }

  std::unique_ptr<AdminCall> StartAer(uint16_t cid) {
    nvme::Sqe sqe;
    sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kAsyncEventRequest);
    sqe.cid = cid;
    return Start(sqe);
  }

  std::unique_ptr<AdminCall> Plain(nvme::AdminOpcode opcode) {
    nvme::Sqe sqe;
    sqe.opcode = static_cast<uint8_t>(opcode);
    return Execute(sqe);
  }

  TestReactor reactor_;
  FakeFabric fabric_;
  BlockingPool pool_;
  Registry registry_;
  TargetShared shared_;
  std::unique_ptr<TargetShard> shard_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace sluice::target
