// The target in this process: a Target and its reactors for each test, over the
// fake provider with a fabric of its own, or over iWARP. RAM-backed, so that
// data comes back; a second namespace drops what it gets.
#include <utility>

#include "core/check.h"
#include "core/status_macros.h"
#include "target/target.h"
#include "tests/conformance/suite_flags.h"
#include "tests/conformance/target_under_test.h"
#include "tests/support/fake_verbs.h"
#include "transport/iwarp/faults.h"

namespace sluice::conformance {
namespace {

constexpr const char* kNqn = "nqn.2026-11.io.sluice:in-process";

class InProcessTarget final : public TargetUnderTest {
 public:
  InProcessTarget(RawHost host, std::unique_ptr<FakeFabric> fabric,
                  std::unique_ptr<target::Target> target)
      : TargetUnderTest(Peer::kSluice, std::move(host)),
        fabric_(std::move(fabric)),
        target_(std::move(target)) {}

  // The fabric, which goes last, CHECKs that nothing is left of either side.
  ~InProcessTarget() override { SLUICE_CHECK(target_->Stop()); }

  absl::Status Learn() {
    SLUICE_ASSIGN_OR_RETURN(limits_, LearnLimits(host_));
    return absl::OkStatus();
  }
  bool DelaySends(absl::Duration delay) override {
    if (delay > absl::ZeroDuration()) {
      fabric_->faults().DelaySends(delay, FakeSide::kPassive);
    } else {
      fabric_->faults().ReleaseSends();
    }
    return true;
  }

 private:
  std::unique_ptr<FakeFabric> fabric_;
  std::unique_ptr<target::Target> target_;
};

class InProcessIwarpTarget final : public TargetUnderTest {
 public:
  InProcessIwarpTarget(RawHost host, std::unique_ptr<target::Target> target)
      : TargetUnderTest(Peer::kSluice, std::move(host)),
        target_(std::move(target)) {
    iwarp::Faults::SpareThisThread(true);  // the hosts'
  }
  ~InProcessIwarpTarget() override {
    iwarp::Faults::Get().Clear();
    SLUICE_CHECK(target_->Stop());
  }

  absl::Status Learn() {
    SLUICE_ASSIGN_OR_RETURN(limits_, LearnLimits(host_));
    return absl::OkStatus();
  }
  bool DelaySends(absl::Duration delay) override {
    iwarp::Faults::Get().Clear();
    if (delay > absl::ZeroDuration()) {
      iwarp::Faults::Get().DelayCompletions(1, 1, delay,
                                            iwarp::LateKind::kSends);
    }
    return true;
  }

 private:
  std::unique_ptr<target::Target> target_;
};

target::TargetOptions Options() {
  target::SubsystemOptions subsystem;
  subsystem.nqn = kNqn;
  subsystem.namespaces = {{.path = "ram:64M"}, {.path = "null:1G"}};
  target::TargetOptions options;
  options.subsystems = {subsystem};
  options.listen = {"127.0.0.1:0"};
  options.machine_id = "conformance";
  options.log_level = LogLevel::kError;
  options.lend_memory = true;
  options.shared_receives = Flags().shared_receives;
  if (Flags().max_queues != 0) options.max_queues = Flags().max_queues;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessTarget() {
  auto fabric = std::make_unique<FakeFabric>();
  const target::TargetOptions options = Options();
  SLUICE_ASSIGN_OR_RETURN(auto running,
                          target::Target::Start(options, fabric->api()));
  const uint16_t port = running->addresses().front().port();
  RawHost host = MakeHost(fabric->api(), "127.0.0.1", port, kNqn);
  auto target = std::make_unique<InProcessTarget>(
      std::move(host), std::move(fabric), std::move(running));
  SLUICE_RETURN_IF_ERROR(target->Learn());
  return std::unique_ptr<TargetUnderTest>(std::move(target));
}

absl::StatusOr<std::unique_ptr<TargetUnderTest>> StartInProcessIwarpTarget() {
  const VerbsApi& api = VerbsApi::Iwarp();
  SLUICE_ASSIGN_OR_RETURN(auto running, target::Target::Start(Options(), api));
  const uint16_t port = running->addresses().front().port();
  auto target = std::make_unique<InProcessIwarpTarget>(
      MakeHost(api, "127.0.0.1", port, kNqn), std::move(running));
  SLUICE_RETURN_IF_ERROR(target->Learn());
  return std::unique_ptr<TargetUnderTest>(std::move(target));
}

}  // namespace sluice::conformance
