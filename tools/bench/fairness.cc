#include "tools/bench/fairness.h"

#include <signal.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/histogram.h"
#include "core/status_macros.h"
#include "nvme/libnvme_types.h"
#include "tests/conformance/raw_controller.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/nvmf_queue.h"

namespace sluice::bench {
namespace {

using conformance::RawController;
using conformance::RawControllerOptions;

constexpr uint32_t kNsid = 1;
// Longer than any run: it is for one of the hosts only that Keep Alive is sent.
constexpr uint32_t kKatoMs = 3'600'000;
// One thread is all the hosts, and what it does for one holds up the others.
constexpr int kPollBatch = 4;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kStuckNanos = 5000 * kMillisecond;

// A host with one I/O queue.
struct Host {
  std::unique_ptr<RawController> controller;
  std::unique_ptr<NvmfQueue> queue;  // goes first
};

absl::StatusOr<Host> Connect(const conformance::RawHost& raw, uint32_t depth,
                             uint32_t bytes) {
  Host host;
  RawControllerOptions admin;
  admin.kato_ms = kKatoMs;
  SLUICE_ASSIGN_OR_RETURN(host.controller,
                          RawController::ConnectEnabled(raw, admin));
  SLUICE_ASSIGN_OR_RETURN(const nvme_id_ns space,
                          host.controller->IdentifyNamespace(kNsid));
  SLUICE_ASSIGN_OR_RETURN([[maybe_unused]] const uint32_t granted,
                          host.controller->RequestQueues(1));
  NvmfQueueOptions options;
  options.depth = depth;
  options.bytes = bytes;
  options.poll_batch = kPollBatch;
  options.nsid = kNsid;
  options.block_count = space.nsze;
  options.block_bytes = 1u << space.lbaf[space.flbas & 0xF].ds;
  SLUICE_ASSIGN_OR_RETURN(host.queue,
                          NvmfQueue::Open(host.controller.get(), options));
  return host;
}

// Keep Alive, one at a time, a millisecond after the last one's answer.
class AdminLoad {
 public:
  explicit AdminLoad(RawController* controller)
      : connection_(&controller->admin().connection()),
        queue_(&controller->admin()) {
    sqe_.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kKeepAlive);
  }

  absl::Status Poll(int64_t now_nanos) {
    if (waiting_) {
      if (!connection_->HasResponse(cid_)) return absl::OkStatus();
      latency_nanos_.Record(static_cast<uint64_t>(now_nanos - sent_nanos_));
      SLUICE_ASSIGN_OR_RETURN(const conformance::RawResponse response,
                              connection_->WaitResponse(cid_));
      if (!response.ok()) return absl::InternalError("Keep Alive failed");
      waiting_ = false;
      next_nanos_ = now_nanos + kMillisecond;
    }
    if (now_nanos < next_nanos_) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(cid_, queue_->Submit(sqe_));
    sent_nanos_ = now_nanos;
    waiting_ = true;
    return absl::OkStatus();
  }
  bool waiting() const { return waiting_; }
  Histogram* latency_nanos() { return &latency_nanos_; }

 private:
  conformance::RawConnection* connection_;
  conformance::RawQueue* queue_;
  nvme::Sqe sqe_;
  bool waiting_ = false;
  uint16_t cid_ = 0;
  int64_t sent_nanos_ = 0;
  int64_t next_nanos_ = 0;
  Histogram latency_nanos_;
};

// Polls the queues in turns for so long; then until nothing is in flight.
absl::Status Drive(const std::vector<NvmfQueue*>& queues, AdminLoad* admin,
                   double seconds) {
  const int64_t end = NowNanos() + static_cast<int64_t>(seconds * 1e9);
  while (true) {
    const int64_t now = NowNanos();
    const bool go_on = now < end;
    bool busy = false;
    for (NvmfQueue* queue : queues) {
      if (queue->Poll(go_on) < 0) return absl::UnavailableError(queue->error());
      busy |= queue->in_flight() > 0;
    }
    if (go_on || admin->waiting()) SLUICE_RETURN_IF_ERROR(admin->Poll(now));
    if (!go_on && !busy && !admin->waiting()) return absl::OkStatus();
    if (now > end + kStuckNanos) {
      return absl::DeadlineExceededError("commands without an answer");
    }
  }
}

// The loads, in turns.
enum Load { kAlone, kShared, kGreedy, kLoads };
constexpr std::array<const char*, kLoads> kLoadNames = {"alone", "shared",
                                                        "greedy"};

struct Values {
  std::vector<double> p50_us, p99_us, iops, admin_p99_us, admin_max_us;
};

double Microseconds(const Histogram& nanos, double share) {
  return static_cast<double>(nanos.Percentile(share)) / 1e3;
}

}  // namespace

absl::Status RunFairness(const FairnessOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const OwnTarget target,
                          StartOwnTarget(options.target));
  PinThread(0);
  const conformance::RawHost raw = conformance::MakeHost(
      VerbsApi::Iwarp(), "127.0.0.1", target.port, OwnTarget::kNqn);
  std::array<Values, kLoads> values;
  {
    SLUICE_ASSIGN_OR_RETURN(const Host quiet, Connect(raw, 1, options.bytes));
    SLUICE_ASSIGN_OR_RETURN(const Host other, Connect(raw, 1, options.bytes));
    SLUICE_ASSIGN_OR_RETURN(const Host greedy,
                            Connect(raw, options.greedy_depth, options.bytes));
    AdminLoad admin(other.controller.get());
    for (int i = 0; i <= options.repeats; ++i) {
      for (size_t load = 0; load < kLoads; ++load) {
        std::vector<NvmfQueue*> queues = {quiet.queue.get()};
        if (load == kShared) queues.push_back(other.queue.get());
        if (load == kGreedy) queues.push_back(greedy.queue.get());
        for (NvmfQueue* queue : queues) queue->ForgetLatency();
        admin.latency_nanos()->Clear();
        SLUICE_RETURN_IF_ERROR(Drive(queues, &admin, options.seconds));
        if (i == 0) continue;  // warms up
        const Histogram& latency = quiet.queue->latency_nanos();
        Values& each = values[load];
        each.p50_us.push_back(Microseconds(latency, 0.5));
        each.p99_us.push_back(Microseconds(latency, 0.99));
        uint64_t count = 0;
        for (const NvmfQueue* queue : queues) {
          count += queue->latency_nanos().count();
        }
        each.iops.push_back(static_cast<double>(count) / options.seconds);
        each.admin_p99_us.push_back(Microseconds(*admin.latency_nanos(), 0.99));
        each.admin_max_us.push_back(
            static_cast<double>(admin.latency_nanos()->max()) / 1e3);
      }
    }
  }
  std::vector<double> ratios;
  ratios.reserve(values[kGreedy].p99_us.size());
  for (size_t i = 0; i < values[kGreedy].p99_us.size(); ++i) {
    ratios.push_back(values[kGreedy].p99_us[i] / values[kShared].p99_us[i]);
  }
  std::printf(
      "A queue of depth 1: alone, beside another of depth 1, beside one of "
      "depth %u;\n%s, %u bytes, %d x %g s each in turns, medians\n",
      options.greedy_depth, options.target.export_spec.c_str(), options.bytes,
      options.repeats, options.seconds);
  std::printf("%-7s %9s %8s %8s %10s %10s\n", "load", "IOPS", "p50 us",
              "p99 us", "admin p99", "admin max");
  nlohmann::json out = nlohmann::json::object();
  for (size_t load = 0; load < kLoads; ++load) {
    const Values& each = values[load];
    std::printf("%-7s %9.0f %8.1f %8.1f %10.1f %10.1f\n", kLoadNames[load],
                Median(each.iops), Median(each.p50_us), Median(each.p99_us),
                Median(each.admin_p99_us), Median(each.admin_max_us));
    out[kLoadNames[load]] = {{"iops", each.iops},
                             {"p50_us", each.p50_us},
                             {"p99_us", each.p99_us},
                             {"admin_p99_us", each.admin_p99_us},
                             {"admin_max_us", each.admin_max_us}};
  }
  std::printf("p99 beside the full one, of its share beside its like: %.2f\n",
              Median(ratios));
  out["ratio"] = Median(ratios);
  if (!options.json.empty()) std::ofstream(options.json) << out.dump(2);
  const int code = target.process->Finish(SIGTERM);
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("sluiced ended with ", code));
}

}  // namespace sluice::bench
