// Queues of every depth that is an edge somewhere, each with all of its
// commands in flight, round after round [spec §1.7, §1.8].
#include <algorithm>

#include "tests/conformance/conformance.h"
#include "tests/conformance/pattern.h"

namespace sluice::conformance {
namespace {

constexpr int kRoundCount = 4;

class Depth : public Conformance {
 protected:
  // All slots at once: writes, then reads that find what was written.
  void RunRounds(uint32_t depth) {
    if (depth > limits().io_depth_max) {
      CheckRefused(depth);
      return;
    }
    const Io io = NewIo(depth);
    ASSERT_TRUE(io);
    for (int round = 0; round < kRoundCount; ++round) {
      const auto seed = static_cast<uint64_t>(round) << 32 | depth;
      FillPattern(seed, Used(io, depth));
      RunAll(io, depth, nvme::IoOpcode::kWrite);
      io.queue->data().Fill(0);
      RunAll(io, depth, nvme::IoOpcode::kRead);
      ASSERT_EQ(DiffersFromPattern(seed, Used(io, depth)), "")
          << "round " << round;
    }
    Stream(io, depth);
  }

  // The connection is refused, or, at the latest, the Connect command.
  void CheckRefused(uint32_t depth) {
    const auto controller = Enabled();
    ASSERT_NE(controller, nullptr);
    const auto options = RawQueueOptions::Io(1, depth, controller->cntlid());
    auto queue = RawQueue::Open(host(), options);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const ConnectAnswer answer = (*queue)->connection().Connect();
    Check("connection", answer.text(), {"rejected 4"});
    if (!answer.established()) return;
    Check("Connect",
          ConnectText((*queue)->Connect(
              RawConnect::For(host(), options.request, controller->cntlid()))),
          {"0x182|DNR at 44/SQE"});
  }

 private:
  absl::Span<std::byte> Used(const Io& io, uint32_t depth) const {
    return io.queue->data().bytes(0, size_t{depth} * limits().block_bytes);
  }

  void RunAll(const Io& io, uint32_t depth, nvme::IoOpcode opcode) {
    for (uint32_t i = 0; i < depth; ++i) {
      const auto cid = io.queue->Submit(
          BlockSqe(io, opcode, i, 1, size_t{i} * limits().block_bytes));
      ASSERT_TRUE(cid.ok()) << cid.status();
    }
    for (uint32_t i = 0; i < depth; ++i) {
      ASSERT_EQ(Text(io.queue->connection().WaitAnyResponse()), "0x000") << i;
    }
  }

  // Every response is answered with the next command: the target must have its
  // receive back before it answers.
  void Stream(const Io& io, uint32_t depth) {
    const uint32_t count = 4 * depth;
    uint32_t submitted = 0;
    for (uint32_t done = 0; done < count; ++done) {
      while (submitted < count && submitted - done < depth) {
        const uint32_t slot = submitted++ % depth;
        ASSERT_TRUE(io.queue
                        ->Submit(BlockSqe(io, nvme::IoOpcode::kRead, slot, 1,
                                          size_t{slot} * limits().block_bytes))
                        .ok());
      }
      ASSERT_EQ(Text(io.queue->connection().WaitAnyResponse()), "0x000");
    }
  }
};

TEST_F(Depth, 1) { CheckRefused(1); }
TEST_F(Depth, 2) { RunRounds(2); }
TEST_F(Depth, 15) { RunRounds(15); }
TEST_F(Depth, 16) { RunRounds(16); }
TEST_F(Depth, 17) { RunRounds(17); }
TEST_F(Depth, 127) { RunRounds(127); }
TEST_F(Depth, 128) { RunRounds(128); }
TEST_F(Depth, 1024) { RunRounds(1024); }
TEST_F(Depth, OneAboveTheLimit) { CheckRefused(limits().io_depth_max + 1); }

TEST_F(Depth, FullWithSlowSends) {
  if (!target().DelaySends(absl::Milliseconds(3))) {
    GTEST_SKIP() << "only a target in process has slow sends";
  }
  RunRounds(std::min(128u, limits().io_depth_max));
  (void)target().DelaySends(absl::ZeroDuration());
}

TEST_F(Depth, AdminFull) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  for (int round = 0; round < kRoundCount; ++round) {
    for (uint32_t i = 0; i < nvme::kAdminDepthMin; ++i) {
      nvme::Sqe sqe;
      sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kKeepAlive);
      ASSERT_TRUE(controller->admin().Submit(sqe).ok());
    }
    for (uint32_t i = 0; i < nvme::kAdminDepthMin; ++i) {
      const auto response = controller->admin().connection().WaitAnyResponse();
      Check("", Text(response), {"0x000", "0x01A", "0x01A|DNR"});  // KATO is 0
    }
  }
}

TEST_F(Depth, SqheadCounts) {
  const Io io = NewIo(16);
  ASSERT_TRUE(io);
  for (int i = 0; i < 40; ++i) {
    const auto response =
        io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0));
    ASSERT_EQ(Text(response), "0x000");
    ASSERT_LT(response->cqe.sqhd, 16);
    ASSERT_EQ(response->cqe.status_wire & 1, 0);
  }
}

}  // namespace
}  // namespace sluice::conformance
