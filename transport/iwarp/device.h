// The one device of this provider, its contexts, and what both say of
// themselves. There is no hardware behind it: it carries every address of this
// machine, and lives as long as the process.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "transport/iwarp/event_queue.h"
#include "transport/iwarp/memory.h"

namespace sluice::iwarp {

struct Qp;

inline constexpr uint32_t kVendorId = 0x51c1ce;
inline constexpr char kDeviceName[] = "iwarp0";

struct Context : verbs_context {
  Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  static Context* From(ibv_context* context);
  ibv_context* verbs() { return &this->context; }

  EventQueue<ibv_async_event> async_events;
};

class Device {
 public:
  static Device& Get();

  ibv_device* verbs() { return &device_; }
  // What ids get, and rdma_get_devices lists: opened once, never closed.
  Context* shared_context();

  MrTable memory;

  // Queue pair numbers: none is given out again soon.
  uint32_t AddQp(Qp* qp);
  void RemoveQp(uint32_t number);
  // Null: there is no such one. With CmMutex held by all who call this or
  // RemoveQp: what is found lives until it is released.
  Qp* FindQp(uint32_t number);

  // Objects alive, for the limits that the device attributes tell.
  std::atomic<int> pd_count{0};
  std::atomic<int> cq_count{0};
  std::atomic<int> qp_count{0};
  std::atomic<int> srq_count{0};

 private:
  Device();

  ibv_device device_{};
  std::mutex context_mutex_;
  Context* context_ = nullptr;
  std::mutex qps_mutex_;
  std::unordered_map<uint32_t, Qp*> qps_;
  uint32_t next_qp_number_ = 0;
};

// Asynchronous events of an object [iwarp §4.6]. Thread-safe.
void PushAsyncEvent(ibv_context* context, const ibv_async_event& event);

}  // namespace sluice::iwarp
