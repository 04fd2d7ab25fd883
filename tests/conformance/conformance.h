// The fixture of every test: the target, hosts for it, and Check(), which holds
// an answer against the specification, or against differences.h for a peer that
// is known to differ. After each test it sees that the target is alive.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/answers.h"
#include "tests/conformance/raw_controller.h"
#include "tests/conformance/suite_flags.h"
#include "tests/conformance/target_under_test.h"

namespace sluice::conformance {

// A controller with one I/O queue.
struct Io {
  std::unique_ptr<RawController> controller;
  std::unique_ptr<RawQueue> queue;  // goes first

  explicit operator bool() const { return queue != nullptr; }
};

class Conformance : public ::testing::Test {
 protected:
  Conformance();
  ~Conformance() override;

  void SetUp() override;
  void TearDown() override;

  TargetUnderTest& target() { return *target_; }
  const TargetLimits& limits() const { return target_->limits(); }
  const RawHost& host() const { return target_->host(); }

  // `answer` is one of `spec`, or differences.h has it for this test, this peer
  // and `what`; `what` tells the checks of one test apart.
  void Check(const std::string& what, const std::string& answer,
             const std::vector<std::string>& spec);
  // differences.h says that this peer is to be spared this check.
  bool Spared(const std::string& what) const;

  // Null, with a failure, when it cannot be had. With all queues requested.
  std::unique_ptr<RawController> Connected(
      const RawControllerOptions& options = {});
  std::unique_ptr<RawController> Enabled(
      const RawControllerOptions& options = {});
  // Queue 1 of a controller of its own. Room for in-capsule data as the target
  // offers, and for data_bytes (0: one block per slot, 64 KiB at least).
  Io NewIo(uint32_t depth = 32, size_t data_bytes = 0);
  std::unique_ptr<RawQueue> NewQueue(RawController* controller, uint16_t qid,
                                     uint32_t depth, size_t data_bytes = 0);

  // A command on one block, for data() at 0.
  nvme::Sqe BlockSqe(const Io& io, nvme::IoOpcode opcode, uint64_t slba,
                     uint32_t block_count = 1, size_t offset = 0) const;

  // What a fresh host finds: "alive", or what went wrong.
  std::string Liveness() const;

 private:
  std::string TestName() const;

  // In process: of this test. External: of all tests.
  TargetUnderTest* target_ = nullptr;
  std::unique_ptr<TargetUnderTest> own_target_;
};

// With a controller of the test's own, enabled.
class OneController : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    controller_ = Enabled();
    ASSERT_NE(controller_, nullptr);
  }
  void TearDown() override {
    controller_ = nullptr;
    Conformance::TearDown();
  }
  // Of an identifier, an opcode, a log page: "0x0a".
  static std::string Name(uint8_t number) {
    return absl::StrCat("0x", absl::Hex(number, absl::kZeroPad2));
  }

  std::unique_ptr<RawController> controller_;
};

// For tests of what an external target was asked for once.
absl::Status FindExternalTarget();

}  // namespace sluice::conformance
