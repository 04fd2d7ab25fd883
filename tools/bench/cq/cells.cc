#include "tools/bench/cq/cells.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/status_macros.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/cq/side_cost.h"

namespace sluice::bench {
namespace {

using Json = nlohmann::json;

// A slow wave is seen so often at least.
constexpr double kWavesMin = 10;
constexpr double kFirstSeconds = 1;
constexpr double kSoakPiece = 0.25;

absl::StatusOr<Json> Ask(ControlConnection* control, const Json& what) {
  SLUICE_RETURN_IF_ERROR(control->WriteLine(what.dump()));
  SLUICE_ASSIGN_OR_RETURN(const std::string line, control->ReadLine());
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    return absl::DataLossError(absl::StrCat("the server says: ", line));
  }
  return answer;
}

CqLoad LoadOf(const CqCellLoad& cell, double rate_max, double seconds) {
  CqLoad load;
  load.seconds = seconds;
  load.rate = cell.share * rate_max;
  if (cell.half_period_nanos > 0) {
    load.kind = CqLoad::Kind::kWave;
    load.half_period_nanos = cell.half_period_nanos;
    load.seconds = std::max(
        seconds,
        2 * kWavesMin * static_cast<double>(cell.half_period_nanos) / 1e9);
  } else if (cell.share == 0) {
    load.kind = CqLoad::Kind::kIdle;
  } else {
    load.kind = cell.share < 1 ? CqLoad::Kind::kOpen : CqLoad::Kind::kClosed;
    if (load.kind == CqLoad::Kind::kClosed) load.rate = 0;
  }
  return load;
}

// On the first processor, which the server's reactor leaves alone.
absl::StatusOr<CqLoadResult> RunPinned(CqClient* client, const CqLoad& load) {
  if (load.kind == CqLoad::Kind::kIdle) {
    absl::SleepFor(absl::Seconds(load.seconds));
    CqLoadResult result;
    result.seconds = load.seconds;
    return result;
  }
  absl::StatusOr<CqLoadResult> result = absl::UnknownError("not run");
  std::thread thread([&] {
    PinThread(0);
    result = client->Run(load);
  });
  thread.join();
  return result;
}

double Delta(const Json& before, const Json& after, const char* key) {
  return after.value(key, 0.0) - before.value(key, 0.0);
}

absl::StatusOr<CqSample> RunOnce(ControlConnection* control, CqClient* client,
                                 const CqMode& mode, CqLoad load,
                                 double warmup_seconds) {
  SLUICE_RETURN_IF_ERROR(Ask(control, {{"spin", mode.spin}}).status());
  CqLoad warmup = load;
  warmup.seconds = std::max(warmup_seconds,
                            4e-9 * static_cast<double>(load.half_period_nanos));
  SLUICE_RETURN_IF_ERROR(RunPinned(client, warmup).status());
  SLUICE_ASSIGN_OR_RETURN(const Json before, Ask(control, Json::object()));
  const std::optional<uint64_t> energy = EnergyMicrojoules();
  const int64_t begin = NowNanos();
  SLUICE_ASSIGN_OR_RETURN(CqLoadResult result, RunPinned(client, load));
  const double wall = static_cast<double>(NowNanos() - begin) / 1e9;
  const std::optional<uint64_t> energy_after = EnergyMicrojoules();
  SLUICE_ASSIGN_OR_RETURN(const Json after, Ask(control, Json::object()));

  CqSample sample;
  sample.per_second = result.per_second();
  sample.p50_us = PercentileUs(&result.latency_nanos, 0.5);
  sample.p99_us = PercentileUs(&result.latency_nanos, 0.99);
  sample.p999_us = PercentileUs(&result.latency_nanos, 0.999);
  sample.after_pause_p99_us = PercentileUs(&result.after_pause_nanos, 0.99);
  const double cpu_nanos = Delta(before, after, "cpu_nanos");
  sample.cpu_share = cpu_nanos / 1e9 / wall;
  if (result.count > 0) {
    sample.cpu_us_per_message =
        cpu_nanos / 1e3 / static_cast<double>(result.count);
  }
  sample.client_cpu_share =
      static_cast<double>(result.client_cpu_nanos) / 1e9 / result.seconds;
  sample.sleeps_per_second = Delta(before, after, "sleeps") / wall;
  sample.rescued = Delta(before, after, "rescued");
  if (after.contains("system_calls")) {
    sample.calls_per_second = Delta(before, after, "system_calls") / wall;
  }
  if (energy && energy_after && *energy_after >= *energy) {
    sample.watts = static_cast<double>(*energy_after - *energy) / 1e6 / wall;
  }
  return sample;
}

}  // namespace

absl::StatusOr<CqSoak> RunSoak(ControlConnection* control, CqClient* client,
                               const CqMode& mode, uint64_t messages) {
  SLUICE_ASSIGN_OR_RETURN(const Json before,
                          Ask(control, {{"spin", mode.spin}}));
  CqLoad load;
  load.kind = CqLoad::Kind::kPaced;
  load.pause_max_nanos =
      static_cast<int64_t>(2 * before.value("wake_cost_nanos", 0.0));
  load.seconds = kSoakPiece;
  CqSoak soak;
  soak.mode = mode.name;
  while (soak.messages < messages) {
    SLUICE_ASSIGN_OR_RETURN(const CqLoadResult result, RunPinned(client, load));
    soak.messages += result.count;
    soak.seconds += result.seconds;
  }
  SLUICE_ASSIGN_OR_RETURN(const Json after, Ask(control, Json::object()));
  soak.sleeps = Delta(before, after, "sleeps");
  soak.rearm_found = Delta(before, after, "rearm_found");
  soak.rescued = Delta(before, after, "rescued");
  return soak;
}

double CqCell::MedianOf(double CqSample::*figure) const {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const CqSample& sample : samples) values.push_back(sample.*figure);
  return Median(values);
}

double CqCell::MinOf(double CqSample::*figure) const {
  double least = samples.empty() ? 0 : samples[0].*figure;
  for (const CqSample& sample : samples) {
    least = std::min(least, sample.*figure);
  }
  return least;
}

double CqCell::MaxOf(double CqSample::*figure) const {
  double most = samples.empty() ? 0 : samples[0].*figure;
  for (const CqSample& sample : samples) most = std::max(most, sample.*figure);
  return most;
}

absl::StatusOr<std::vector<CqCell>> RunCells(
    ControlConnection* control, CqClient* client, const CqPlan& plan,
    const std::function<void(const std::string&)>& progress) {
  std::vector<CqCell> cells;
  for (const CqCellLoad& load : plan.loads) {
    for (const CqMode& mode : plan.modes)
      cells.push_back({mode.name, load, {}});
  }
  const CqMode poll = {"poll", {{"mode", "poll"}}};
  const CqCellLoad full = {"100", 1, 0};
  // TCP and the machine get up to speed.
  SLUICE_RETURN_IF_ERROR(RunOnce(control, client, poll,
                                 LoadOf(full, 0, kFirstSeconds),
                                 plan.warmup_seconds)
                             .status());
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    // The machine has faster and slower minutes: a share is of this one's rate.
    SLUICE_ASSIGN_OR_RETURN(
        const CqSample yard,
        RunOnce(control, client, poll, LoadOf(full, 0, plan.seconds),
                plan.warmup_seconds));
    progress(absl::StrCat(
        "repeat ", repeat + 1, " of ", plan.repeats, ": polling reaches ",
        static_cast<uint64_t>(yard.per_second), " messages/s"));
    for (size_t i = 0; i < plan.loads.size(); ++i) {
      const CqLoad load = LoadOf(plan.loads[i], yard.per_second, plan.seconds);
      for (size_t j = 0; j < plan.modes.size(); ++j) {
        const size_t turn =
            (j + static_cast<size_t>(repeat)) % plan.modes.size();
        SLUICE_ASSIGN_OR_RETURN(const CqSample sample,
                                RunOnce(control, client, plan.modes[turn], load,
                                        plan.warmup_seconds));
        cells[i * plan.modes.size() + turn].samples.push_back(sample);
      }
    }
  }
  return cells;
}

}  // namespace sluice::bench
