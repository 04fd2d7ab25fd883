#include "target/core_advice.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice::target {
namespace {

// "2-3,7"; what is not of this form is skipped.
std::set<int> ParseList(const std::string& text) {
  std::set<int> cpus;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    if (!absl::SimpleAtoi(range.first, &first)) continue;
    int last = first;
    if (!range.second.empty() && !absl::SimpleAtoi(range.second, &last)) {
      continue;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

}  // namespace

CoreFacts ReadCoreFacts() {
  CoreFacts facts;
  facts.cpus = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  std::ifstream file("/sys/devices/system/cpu/isolated");
  std::getline(file, facts.isolated);
  return facts;
}

std::vector<std::string> CoreAdvice(const std::vector<int>& cores,
                                    const CoreFacts& facts, PollMode mode,
                                    uint32_t realtime_priority) {
  std::vector<std::string> advice;
  const bool on_zero = std::count(cores.begin(), cores.end(), 0) > 0;
  if (on_zero && facts.cpus > 1) {
    advice.push_back(
        "a reactor runs on processor 0, which takes most interrupts and the "
        "kernel's own work; give --cores others where you can");
  }
  const std::set<int> isolated = ParseList(facts.isolated);
  const auto is_isolated = [&](int cpu) { return isolated.contains(cpu); };
  const auto used = std::count_if(cores.begin(), cores.end(), is_isolated);
  if (!isolated.empty() && used == 0) {
    advice.push_back(absl::StrCat("processors ", facts.isolated,
                                  " are isolated and no reactor runs there; "
                                  "give them with --cores"));
  } else if (used > 0 && used < static_cast<int64_t>(cores.size())) {
    advice.push_back(absl::StrCat(
        "some reactors run on isolated processors (", facts.isolated,
        "), some do not: their latencies will differ"));
  }
  const auto reactors = static_cast<int>(std::max<size_t>(cores.size(), 1));
  if (mode == PollMode::kPoll && reactors >= facts.cpus) {
    advice.push_back(absl::StrCat(
        "polling reactors take all ", facts.cpus,
        " processors of this machine; nothing else, the network included, has "
        "one to itself"));
  }
  if (mode == PollMode::kPoll && realtime_priority > 0) {
    advice.push_back(
        "polling with a real-time priority starves everything else on its "
        "processors, and the kernel stops it for 50 ms in each second "
        "(kernel.sched_rt_runtime_us)");
  }
  return advice;
}

}  // namespace sluice::target
