// The inside of a FakeFabric: one mutex, and all objects behind it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/support/fake_verbs_cm.h"
#include "tests/support/fake_verbs_objects.h"
#include "tests/support/fake_verbs_qp.h"

namespace sluice::fake {

// Owns objects of one kind in the order of their creation. Removing one that
// is not there, or not any more, is the user's bug: CHECK.
template <typename T>
class Pool {
 public:
  T* Add(std::unique_ptr<T> object) {
    objects_.push_back(std::move(object));
    return objects_.back().get();
  }
  void Remove(const T* object) {
    const auto found = std::find_if(
        objects_.rbegin(), objects_.rend(),
        [object](const auto& owned) { return owned.get() == object; });
    SLUICE_CHECK(found != objects_.rend());
    objects_.erase(std::next(found).base());
  }
  int size() const { return static_cast<int>(objects_.size()); }
  const std::vector<std::unique_ptr<T>>& all() const { return objects_; }

 private:
  std::vector<std::unique_ptr<T>> objects_;
};

// The plan of FakeFaults.
struct FaultPlan {
  struct FailedCalls {
    std::string name;  // empty: any that counts
    int first;         // in calls from now
    int count;
    int error;
  };
  std::vector<FailedCalls> failed_calls;
  int swallow_every = 0;
  std::function<void(ibv_cq*)> on_arm;
  bool hold_sends = false;
  Clock::duration delay = Clock::duration::zero();
  FakeSide hold_side = FakeSide::kBoth;
  bool drop_flushes = false;
  FakeSide drop_side = FakeSide::kBoth;
  size_t late_bytes = 0;
  int late_operations = 1;
  FakeSide late_side = FakeSide::kBoth;
};

struct Fabric {
  Fabric() = default;
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  mutable std::mutex mutex;  // guards everything below

  std::vector<std::unique_ptr<Device>> devices;
  Pool<Pd> pds;
  Pool<Mr> mrs;
  Pool<CompChannel> comp_channels;
  Pool<Cq> cqs;
  Pool<Qp> qps;
  Pool<EventChannel> event_channels;
  Pool<Id> ids;
  int unacked_events = 0;

  std::unordered_map<uint32_t, Mr*> mrs_by_lkey;
  std::unordered_map<uint32_t, Mr*> mrs_by_rkey;
  std::unordered_map<uint32_t, Qp*> qps_by_number;
  std::mt19937 random;         // keys: the same in every run
  uint32_t next_qp_num = 17;   // never used twice
  uint16_t next_port = 49152;  // of those that bind picks

  std::deque<Qp*> failing;
  std::deque<Qp*> runnable;

  FaultPlan faults;
  std::map<std::string, int, std::less<>> call_counts;
  int any_call_count = 0;
  int failed_call_count = 0;
  int notification_count = 0;
  int swallowed_count = 0;
  uint64_t rnr_count = 0;
  uint64_t completion_count = 0;
  uint64_t overflow_count = 0;

  // Runs what DelaySends made wait. Started by the first DelaySends.
  std::thread delay_thread;
  std::condition_variable delay_wakeup;
  bool stopping = false;
};

// A device with a context.
void AddDevice(Fabric* fabric, FakeDeviceOptions options);
void AddContext(Fabric* fabric, Device* device);
Device* DeviceNamed(const Fabric& fabric, std::string_view name);  // CHECKs

bool IsOn(FakeSide side, const Qp& qp);

// The fabric of the calls that have no handle.
Fabric* CurrentFabric();

// Counts a call; the errno it is to fail with, or 0. `counts` for FailAnyCall.
int CountCall(Fabric* fabric, const char* name, bool counts);

// rdma_* results: 0, or -1 with errno set.
inline int CmResult(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

inline std::nullptr_t NullResult(int error) {
  errno = error;
  return nullptr;
}

}  // namespace sluice::fake
