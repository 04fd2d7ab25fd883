#include "tools/bench/nvmf_load.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/status_macros.h"
#include "nvme/libnvme_types.h"
#include "tests/conformance/raw_controller.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/child_process.h"
#include "tools/bench/nvmf_queue.h"

namespace sluice::bench {
namespace {

using conformance::RawController;

constexpr uint32_t kNsid = 1;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStuckNanos = 5 * kSecond;
// Empty polls between two looks at the clock.
constexpr int kPollsPerLook = 256;

using Queues = std::vector<std::unique_ptr<NvmfQueue>>;

int64_t Nanos(double seconds) {
  return static_cast<int64_t>(seconds * static_cast<double>(kSecond));
}

absl::StatusOr<Queues> OpenQueues(RawController* controller,
                                  const LoadOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const nvme_id_ns space,
                          controller->IdentifyNamespace(kNsid));
  SLUICE_ASSIGN_OR_RETURN(const uint32_t granted,
                          controller->RequestQueues(options.queues));
  if (granted < options.queues) {
    return absl::InvalidArgumentError(
        absl::StrCat("the target grants ", granted, " queues"));
  }
  NvmfQueueOptions each;
  each.depth = options.depth;
  each.bytes = options.bytes;
  each.sequential = options.sequential;
  each.sleeping = options.sleeping;
  each.nsid = kNsid;
  each.block_count = space.nsze;
  each.block_bytes = 1u << space.lbaf[space.flbas & 0xF].ds;
  Queues queues;
  for (uint32_t i = 1; i <= options.queues; ++i) {
    each.qid = static_cast<uint16_t>(i);
    SLUICE_ASSIGN_OR_RETURN(auto queue, NvmfQueue::Open(controller, each));
    queues.push_back(std::move(queue));
  }
  return queues;
}

// One look at each queue; negative: one broke.
int PollAll(const Queues& queues, bool go_on) {
  int total = 0;
  for (const auto& queue : queues) {
    const int count = queue->Poll(go_on);
    if (count < 0) return count;
    total += count;
  }
  return total;
}

absl::Status Broken(const Queues& queues) {
  for (const auto& queue : queues) {
    if (!queue->error().empty()) return absl::UnavailableError(queue->error());
  }
  return absl::UnavailableError("a queue broke");
}

// Keeps all queues full until then; adds the responses to `count`.
absl::Status Drive(const Queues& queues, bool sleeping, int64_t end_nanos,
                   uint64_t* count) {
  int empty_polls = 0;
  int64_t last_nanos = NowNanos();
  while (true) {
    const int got = sleeping ? queues[0]->Wait(true) : PollAll(queues, true);
    if (got < 0) return Broken(queues);
    *count += static_cast<uint64_t>(got);
    if (got == 0 && ++empty_polls < kPollsPerLook) continue;
    empty_polls = 0;
    const int64_t now = NowNanos();
    if (now >= end_nanos) return absl::OkStatus();
    if (got > 0) last_nanos = now;
    if (now - last_nanos > kStuckNanos) {
      return absl::DeadlineExceededError("no answer for five seconds");
    }
  }
}

absl::Status Drain(const Queues& queues) {
  const int64_t deadline = NowNanos() + kStuckNanos;
  for (const auto& queue : queues) {
    while (queue->in_flight() > 0) {
      if (queue->Poll(/*go_on=*/false) < 0) return Broken(queues);
      if (NowNanos() > deadline) {
        return absl::DeadlineExceededError("commands without an answer");
      }
    }
  }
  return absl::OkStatus();
}

double IdleShare(const LoadOptions& options) {
  // What the end of the load has left to do is not idleness.
  absl::SleepFor(absl::Milliseconds(200));
  const int64_t wall = NowNanos();
  const int64_t cpu = ProcessCpuNanos(options.server_pid);
  absl::SleepFor(absl::Seconds(options.idle_seconds));
  return static_cast<double>(ProcessCpuNanos(options.server_pid) - cpu) /
         static_cast<double>(NowNanos() - wall);
}

}  // namespace

double LoadResult::mean_us() const {
  return static_cast<double>(latency_nanos.sum()) / 1e3 /
         static_cast<double>(latency_nanos.count());
}

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  if (options.sleeping && options.queues != 1) {
    return absl::InvalidArgumentError("who sleeps has one queue");
  }
  SLUICE_ASSIGN_OR_RETURN(auto controller,
                          RawController::ConnectEnabled(options.host));
  SLUICE_ASSIGN_OR_RETURN(const Queues queues,
                          OpenQueues(controller.get(), options));
  uint64_t warmup_count = 0;
  SLUICE_RETURN_IF_ERROR(Drive(queues, options.sleeping,
                               NowNanos() + Nanos(options.warmup_seconds),
                               &warmup_count));
  for (const auto& queue : queues) queue->ForgetLatency();

  LoadResult result;
  const int64_t server_cpu = ProcessCpuNanos(options.server_pid);
  const int64_t client_cpu = ThreadCpuNanos();
  const int64_t wall = NowNanos();
  SLUICE_RETURN_IF_ERROR(Drive(queues, options.sleeping,
                               wall + Nanos(options.seconds), &result.count));
  result.seconds =
      static_cast<double>(NowNanos() - wall) / static_cast<double>(kSecond);
  result.client_cpu_nanos = ThreadCpuNanos() - client_cpu;
  result.server_cpu_nanos = ProcessCpuNanos(options.server_pid) - server_cpu;
  for (const auto& queue : queues) {
    result.latency_nanos.Merge(queue->latency_nanos());
  }
  SLUICE_RETURN_IF_ERROR(Drain(queues));
  if (options.idle_seconds > 0 && options.server_pid > 0) {
    result.idle_core_share = IdleShare(options);
  }
  return result;
}

}  // namespace sluice::bench
