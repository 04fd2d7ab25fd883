// An RDMA device on one reactor: the protection domain and registered memory,
// the completion channel and the completion queues. Everything that a queue
// pair of this reactor needs of the device.
//
// Home: its reactor. Made when the device appears or a listener finds it, gone
// when its last queue pair is.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/reactor.h"
#include "transport/completion_queue.h"
#include "transport/limits.h"
#include "transport/memory_domain.h"
#include "transport/shared_receives.h"

namespace sluice::transport {

class CqEngine;

struct LocalDeviceOptions {
  // Entries of each CQ; the device's and our own limits still hold.
  uint32_t cq_entries = kCqEntriesMax;
  // CQs of this device on this reactor at most; beyond that: no resources.
  uint32_t cq_count_max = 64;
  // Entries that each queue pair reserves too few: for tests, which are to show
  // that they would notice.
  uint32_t reserve_less = 0;
  // Completion vector of its CQs, the interrupt that announces completions; -1:
  // the reactor's number, modulo what the device has.
  int completion_vector = -1;
  // Processor to move that vector's interrupt to; -1: leave it.
  int interrupt_cpu = -1;
  // Memory to send from besides the extents, where the device can. It outlives
  // the LocalDevice.
  std::vector<absl::Span<std::byte>> lent;
  // Receives that queue pairs may share, with room for so much data behind a
  // command; 0: none, each has its own.
  uint32_t shared_receives = 0;
  // The deepest queue that is to fit; a device that has fewer has none.
  uint32_t shared_depth_max = 0;
  uint32_t shared_in_capsule_bytes = 0;
};

class LocalDevice {
 public:
  // Registers `extents`: may block for as long as pinning takes.
  static absl::StatusOr<std::unique_ptr<LocalDevice>> Create(
      CqEngine* engine, const VerbsApi& api, ibv_context* context,
      const DeviceTraits& traits, ExtentPool* extents,
      const LocalDeviceOptions& options);
  // Every queue pair is gone.
  ~LocalDevice();
  LocalDevice(const LocalDevice&) = delete;
  LocalDevice& operator=(const LocalDevice&) = delete;

  // A CQ with room for `entries` completions, reserved. Another CQ is made
  // when none has room, never is one resized. ResourceExhausted: at the limit.
  absl::StatusOr<CompletionQueue*> Reserve(uint32_t entries);
  // Entries that Reserve could still give out in all.
  uint64_t free_entries() const;

  // Receives for queue pairs to share: as the options say, where the device
  // can.
  bool has_shared_receives() const { return shared_count_ > 0; }
  // Those, with `depth` of them for one queue pair, until it leaves.
  // ResourceExhausted: not so many are left.
  absl::StatusOr<SharedReceives*> AdmitShared(uint32_t depth);
  void LeaveShared(SharedReceives* shared, uint32_t depth);
  // Null where there are none now.
  const SharedReceives* shared_receives() const {
    return shared_.empty() ? nullptr : shared_.back().get();
  }

  // What the channel announces now, which otherwise only a sleeper hears.
  void TakeEvents();

  const VerbsApi& api() const { return api_; }
  const LocalDeviceOptions& options() const { return options_; }
  ibv_context* context() const { return context_; }
  const DeviceTraits& traits() const { return traits_; }
  MemoryDomain* memory() { return memory_.get(); }
  const std::vector<std::unique_ptr<CompletionQueue>>& queues() const {
    return queues_;
  }

  // Queue pairs that live on it.
  uint32_t queue_pairs = 0;

 private:
  LocalDevice(CqEngine* engine, const VerbsApi& api, ibv_context* context,
              const DeviceTraits& traits, const LocalDeviceOptions& options)
      : engine_(engine),
        api_(api),
        context_(context),
        traits_(traits),
        options_(options) {}
  absl::Status OpenChannel();
  void BorrowMemory();
  void PlanSharedReceives();
  absl::StatusOr<CompletionQueue*> AddQueue(uint32_t entries_min);
  static void OnChannelReadable(void* context);
  bool TakeEvent();
  // No event comes any more: the CQs that hang on it are lost, those made from
  // now on have a new one.
  void OnChannelFailed(int error);
  bool AnyArmed() const;

  CqEngine* const engine_;
  const VerbsApi& api_;
  ibv_context* const context_;
  const DeviceTraits traits_;
  const LocalDeviceOptions options_;
  std::unique_ptr<MemoryDomain> memory_;
  std::vector<VerbsPtr<ibv_comp_channel>> failed_channels_;
  VerbsPtr<ibv_comp_channel> channel_;
  FdWatch* channel_watch_ = nullptr;
  bool added_ = false;  // to the engine
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
  uint32_t shared_count_ = 0;
  // The last one serves new queue pairs; those before are dead, and go with
  // their last one.
  std::vector<std::unique_ptr<SharedReceives>> shared_;
};

}  // namespace sluice::transport
