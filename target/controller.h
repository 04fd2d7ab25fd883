// A controller: what one host's association with a subsystem has in state.
// Properties, features, asynchronous events, the keep-alive timer, the list of
// its queues.
//
// Home: the reactor of its admin queue; others speak to it by CallOn. Lives
// from the admin Connect until its last queue is gone. Bound: kIoQueuesMax
// queues, kAerMax parked events, kErrorEntries log entries.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "core/async.h"
#include "core/reactor.h"
#include "nvme/aen.h"
#include "nvme/connect.h"
#include "nvme/log_page.h"
#include "nvme/property.h"
#include "target/subsystem.h"

namespace sluice::target {

class Queue;
class TargetShard;

inline constexpr uint32_t kAerMax = 4;               // AERL, true number
inline constexpr uint16_t kKeepAliveUnit100ms = 10;  // KAS
inline constexpr uint32_t kErrorEntries = 64;        // ELPE, true number
inline constexpr uint32_t kIoQueuesMax = 128;        // granted by feature 07h
inline constexpr char kModel[] = "sluice NVMe-oF target";
inline constexpr char kFirmware[] = "0.1";
inline constexpr uint8_t kMdts = 8;  // 4 KiB << 8
inline constexpr uint32_t kTransferBytesMax = 4096u << kMdts;

// What a controller of this target offers, the same for all.
struct ControllerLimits {
  uint32_t queue_depth_max = 128;  // MQES + 1
  uint32_t in_capsule_bytes = 4096;
  uint32_t io_queues_max = kIoQueuesMax;
};

struct ControllerInfo {
  uint16_t cntlid = 0;
  const Subsystem* subsystem = nullptr;
  nvme::Nqn hostnqn;
  nvme::HostId hostid{};
  sockaddr_storage local{};  // the address the host connected to
  ControllerLimits limits;
};

// Feature values that are only stored [spec §6.7].
struct Features {
  uint32_t arbitration = 0;
  uint32_t power_management = 0;
  uint32_t temperature_threshold = 0;
  uint32_t error_recovery = 0;
  uint32_t volatile_write_cache = 1;
  uint32_t write_atomicity = 0;
  uint32_t async_events = 0;  // feature 0Bh
  std::array<std::byte, 512> host_behaviour{};
  uint64_t timestamp_base_ms = 0;   // as set by the host
  int64_t timestamp_set_nanos = 0;  // when; 0: never
};

// Counters of a controller, its SMART log [spec §6.6].
struct ControllerCounters {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t read_commands = 0;
  uint64_t write_commands = 0;
  uint64_t media_errors = 0;

  void Add(const ControllerCounters& other);
};

// An I/O queue as its controller knows it.
struct IoQueueEntry {
  uint16_t qid = 0;
  TargetShard* shard = nullptr;
  uint64_t serial = 0;  // names the queue on its shard
};

class Controller {
 public:
  Controller(TargetShard* shard, Queue* admin_queue, const ControllerInfo& info,
             uint32_t kato_ms);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  const ControllerInfo& info() const { return info_; }
  const Subsystem& subsystem() const { return *info_.subsystem; }
  bool discovery() const { return subsystem().discovery(); }
  TargetShard* shard() const { return shard_; }

  // --- properties [spec §3.3], controller_property.cc ---
  nvme::Status GetProperty(const nvme::PropertyCommand& command,
                           uint64_t* value) const;
  nvme::Status SetProperty(const nvme::PropertyCommand& command);
  bool ready() const { return status_.ready; }
  nvme::Capabilities capabilities() const;

  // --- keep alive [spec §3.8] ---
  uint32_t kato_ms() const { return kato_ms_; }
  void SetKato(uint32_t kato_ms);
  // A Keep Alive was processed; on a discovery controller, any command.
  void Touch();

  // --- asynchronous events [spec §6.8], controller_events.cc ---
  // co_await of one: the DW0 of an event, or 0 with aborted().
  class EventWait : public Waiter {
   public:
    EventWait(Controller* controller, uint16_t cid)
        : controller_(controller), cid_(cid) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    uint32_t await_resume() const { return dw0_; }
    bool aborted() const { return aborted_; }

   private:
    friend class Controller;
    Controller* controller_;
    uint16_t cid_;
    uint32_t dw0_ = 0;
    bool aborted_ = false;
  };
  uint32_t parked_events() const { return parked_count_; }
  // Something happened: told to the host once, until its log is read.
  void Raise(const nvme::AsyncEvent& event);
  // The log was read with RAE 0: its event may be raised again.
  void LogRead(nvme::LogId log);
  // Ends parked requests, as Abort, a reset or the queue's end do.
  void AbortEvents();
  // Ends the one with this cid; false when there is none.
  bool AbortEvent(uint16_t cid);

  // The namespace changed: goes into log 04h and raises the event.
  void NamespaceChanged(uint32_t nsid);
  std::vector<uint32_t>* changed_namespaces() { return &changed_namespaces_; }

  // --- queues, controller.cc ---
  // Grants I/O queues (feature 07h); the number granted.
  uint32_t GrantIoQueues(uint32_t wanted);
  uint32_t granted_io_queues() const { return granted_io_queues_; }
  bool has_io_queues() const { return !io_queues_.empty(); }
  // An I/O Connect, checked in the order of [spec §3.2].
  nvme::ConnectOutcome Attach(const nvme::ConnectCommand& command,
                              const nvme::ConnectData& data,
                              const IoQueueEntry& entry);
  void Detach(uint16_t qid, uint64_t serial);
  // Takes every I/O queue down, from their own reactors.
  void DropIoQueues(const char* why);
  // The association ends: drops everything. Repeats do nothing.
  void Fail(const char* why);
  // The admin queue went down: parked requests end, the I/O queues go too.
  void BeginTeardown(const char* why);
  // Waits until the I/O queues are gone and forgets the controller's id.
  Task<void> Teardown();
  // Counters of the controller and of its I/O queues, wherever they are.
  Task<ControllerCounters> CollectCounters();

  Features* features() { return &features_; }
  ControllerCounters* counters() { return &counters_; }

  // --- error log [spec §6.6, LID 01h] ---
  // An entry for a failed command; its response then has MORE set.
  void LogError(const nvme::ErrorEntry& entry);
  // Newest first.
  std::vector<nvme::ErrorEntry> Errors() const;

 private:
  static void OnKeepAliveTimer(void* context);
  void ArmKeepAlive();
  void Reset();     // EN 1 to 0
  void Shutdown();  // SHN

  TargetShard* const shard_;
  Queue* admin_queue_;  // null once it is going
  const ControllerInfo info_;
  nvme::ControllerConfiguration configuration_;
  uint32_t cc_ = 0;  // as written
  nvme::ControllerStatus status_;
  bool failed_ = false;
  bool closing_ = false;

  uint32_t kato_ms_;
  Timer keep_alive_timer_;
  int64_t last_alive_nanos_ = 0;

  IntrusiveList<Waiter> parked_;
  uint32_t parked_count_ = 0;
  std::vector<nvme::AsyncEvent> pending_;  // raised, not yet told
  std::vector<nvme::AsyncEvent> masked_;   // told, log not read yet
  std::vector<uint32_t> changed_namespaces_;

  uint32_t granted_io_queues_ = 0;
  std::vector<IoQueueEntry> io_queues_;
  Gate io_queues_gone_;  // opens when the last one goes after BeginTeardown

  Features features_;
  ControllerCounters counters_;
  std::array<nvme::ErrorEntry, kErrorEntries> errors_{};
  uint64_t error_count_ = 0;
};

}  // namespace sluice::target
