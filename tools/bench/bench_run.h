// One measured run of two threads, each on a processor of its own: what they
// did, how long it took, what it cost each of them.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::bench {

// What one side says of its run.
struct SideResult {
  bool ok = true;
  std::string error;
  uint64_t count = 0;  // messages or bytes, as the case counts
  int64_t wall_nanos = 0;
  int64_t cpu_nanos = 0;         // of its thread
  uint64_t calls = 0;            // system calls; counted by socket loops only
  std::vector<int64_t> samples;  // nanoseconds, of the side that measures
};

struct RunResult {
  SideResult active;
  SideResult passive;

  bool ok() const { return active.ok && passive.ok; }
  double per_second() const {
    return static_cast<double>(active.count) * 1e9 /
           static_cast<double>(active.wall_nanos);
  }
  // The sample at that share of them, in microseconds; 0 without samples.
  double percentile_us(double share) const;
};

// What a side says that could not begin: errno's reason.
SideResult Failed(const char* call);
// Samples that a side keeps at most.
inline constexpr size_t kSamplesMax = 1'000'000;

// Of an IPv4 address in text.
sockaddr_in Address(const std::string& text, uint16_t port);

int64_t NowNanos();
int64_t ThreadCpuNanos();
// Of this thread: the loop that makes system calls counts them here.
uint64_t& ThreadCalls();
// What `work(&side)` took, on this thread.
template <typename Work>
SideResult Measure(Work work) {
  SideResult side;
  const int64_t wall = NowNanos();
  const int64_t cpu = ThreadCpuNanos();
  const uint64_t calls = ThreadCalls();
  work(&side);
  side.wall_nanos = NowNanos() - wall;
  side.cpu_nanos = ThreadCpuNanos() - cpu;
  side.calls = ThreadCalls() - calls;
  return side;
}
// Only where there is more than one processor.
void PinThread(unsigned int cpu);

// Runs both sides; `passive` first says that it is ready by the argument's
// call.
RunResult RunPair(
    const std::function<SideResult()>& active,
    const std::function<SideResult(const std::function<void()>&)>& passive);

double Median(std::vector<double> values);

}  // namespace sluice::bench
