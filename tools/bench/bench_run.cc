#include "tools/bench/bench_run.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

namespace sluice::bench {
namespace {

int64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

SideResult Failed(const char* call) {
  SideResult result;
  result.ok = false;
  result.error = std::string(call) + ": " + std::strerror(errno);
  return result;
}

sockaddr_in Address(const std::string& text, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

int64_t NowNanos() { return Read(CLOCK_MONOTONIC); }
int64_t ThreadCpuNanos() { return Read(CLOCK_THREAD_CPUTIME_ID); }

uint64_t& ThreadCalls() {
  static thread_local uint64_t calls = 0;
  return calls;
}

void PinThread(unsigned int cpu) {
  const unsigned int count = std::thread::hardware_concurrency();
  if (count < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % count, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

double RunResult::percentile_us(double share) const {
  if (active.samples.empty()) return 0;
  std::vector<int64_t> sorted = active.samples;
  std::sort(sorted.begin(), sorted.end());
  const auto index =
      static_cast<size_t>(share * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[index]) / 1e3;
}

RunResult RunPair(
    const std::function<SideResult()>& active,
    const std::function<SideResult(const std::function<void()>&)>& passive) {
  RunResult result;
  std::promise<void> ready;
  std::thread passive_thread([&] {
    PinThread(1);
    bool said = false;
    result.passive = passive([&] {
      said = true;
      ready.set_value();
    });
    if (!said) ready.set_value();
  });
  ready.get_future().wait();
  std::thread active_thread([&] {
    PinThread(0);
    result.active = active();
  });
  active_thread.join();
  passive_thread.join();
  return result;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace sluice::bench
