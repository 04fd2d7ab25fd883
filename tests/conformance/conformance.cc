#include "tests/conformance/conformance.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/status_macros.h"
#include "tests/conformance/differences.h"

namespace sluice::conformance {
namespace {

std::unique_ptr<ExternalTarget>& External() {
  static std::unique_ptr<ExternalTarget> target;
  return target;
}

const Difference* FindDifference(Peer peer, const std::string& test,
                                 const std::string& what,
                                 const std::string& answer) {
  for (const Difference& row : kDifferences) {
    if (row.peer != peer || test != row.test || answer != row.answer) continue;
    if (row.what[0] == '\0' || what == row.what) return &row;
  }
  return nullptr;
}

}  // namespace

absl::Status FindExternalTarget() {
  const SuiteFlags& flags = Flags();
  const VerbsApi& api =
      flags.provider == "iwarp" ? VerbsApi::Iwarp() : VerbsApi::System();
  SLUICE_ASSIGN_OR_RETURN(External(),
                          ExternalTarget::Find(api, flags.peer, flags.address,
                                               flags.port, flags.nqn));
  return absl::OkStatus();
}

Conformance::Conformance() = default;
Conformance::~Conformance() = default;

void Conformance::SetUp() {
  const Difference* row = FindDifference(Flags().peer, TestName(), "", kSpared);
  if (row != nullptr) GTEST_SKIP() << row->reason;
  if (External() != nullptr) {
    target_ = External().get();
    return;
  }
  auto started = Flags().provider == "in-process-iwarp"
                     ? StartInProcessIwarpTarget()
                     : StartInProcessTarget();
  ASSERT_TRUE(started.ok()) << started.status();
  own_target_ = *std::move(started);
  target_ = own_target_.get();
}

void Conformance::TearDown() {
  if (target_ == nullptr) return;
  EXPECT_EQ(Liveness(), "alive") << "after the test, for a fresh host";
}

std::string Conformance::TestName() const {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(info->test_suite_name(), ".", info->name());
}

void Conformance::Check(const std::string& what, const std::string& answer,
                        const std::vector<std::string>& spec) {
  if (std::find(spec.begin(), spec.end(), answer) != spec.end()) return;
  const Difference* row =
      FindDifference(target_->peer(), TestName(), what, answer);
  if (row != nullptr) {
    RecordProperty(absl::StrCat("difference_", what), row->reason);
    return;
  }
  std::string wanted = spec.empty() ? "?" : spec[0];
  for (size_t i = 1; i < spec.size(); ++i) {
    absl::StrAppend(&wanted, " or ", spec[i]);
  }
  ADD_FAILURE() << "[" << what << "] the target: " << answer
                << "; the specification: " << wanted;
}

bool Conformance::Spared(const std::string& what) const {
  return FindDifference(target_->peer(), TestName(), what, kSpared) != nullptr;
}

std::unique_ptr<RawController> Conformance::Connected(
    const RawControllerOptions& options) {
  auto controller = RawController::Connect(host(), options);
  if (controller.ok()) return *std::move(controller);
  ADD_FAILURE() << controller.status();
  return nullptr;
}

std::unique_ptr<RawController> Conformance::Enabled(
    const RawControllerOptions& options) {
  auto controller = RawController::ConnectEnabled(host(), options);
  if (!controller.ok()) {
    ADD_FAILURE() << controller.status();
    return nullptr;
  }
  const auto granted =
      (*controller)->RequestQueues(limits().io_queue_count_max);
  if (!granted.ok()) {
    ADD_FAILURE() << granted.status();
    return nullptr;
  }
  return *std::move(controller);
}

std::unique_ptr<RawQueue> Conformance::NewQueue(RawController* controller,
                                                uint16_t qid, uint32_t depth,
                                                size_t data_bytes) {
  RawQueueOptions options =
      RawQueueOptions::Io(qid, depth, controller->cntlid());
  options.in_capsule_bytes = limits().in_capsule_bytes + 64;
  options.data_bytes = std::max<size_t>(
      {data_bytes, size_t{depth} * limits().block_bytes, 64 * 1024});
  auto queue = controller->OpenQueue(options);
  if (queue.ok()) return *std::move(queue);
  ADD_FAILURE() << queue.status();
  return nullptr;
}

Io Conformance::NewIo(uint32_t depth, size_t data_bytes) {
  Io io;
  io.controller = Enabled();
  if (io.controller == nullptr) return io;
  io.queue = NewQueue(io.controller.get(), 1, depth, data_bytes);
  return io;
}

nvme::Sqe Conformance::BlockSqe(const Io& io, nvme::IoOpcode opcode,
                                uint64_t slba, uint32_t block_count,
                                size_t offset) const {
  return io.queue->BlockSqe(opcode, limits().nsid, slba, block_count,
                            limits().block_bytes, offset);
}

std::string Conformance::Liveness() const {
  auto controller = RawController::ConnectEnabled(host());
  if (!controller.ok()) return controller.status().ToString();
  const auto identity = (*controller)->IdentifyController();
  if (!identity.ok()) return identity.status().ToString();
  if (std::memcmp(identity->subnqn, host().subnqn.c_str(),
                  host().subnqn.size() + 1) != 0) {
    return "another SUBNQN";
  }
  return "alive";
}

}  // namespace sluice::conformance
