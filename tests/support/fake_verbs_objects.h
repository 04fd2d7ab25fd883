// The verbs objects of a FakeFabric other than queue pairs: each is the
// library's structure with what a device would know behind it. Owned by their
// Fabric, guarded by its mutex.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_verbs.h"
#include "tests/support/fake_verbs_address.h"
#include "tests/support/fake_verbs_event_queue.h"

namespace sluice::fake {

struct Context;
struct Cq;
struct Fabric;

// A device outlives its contexts: each time it returns it gets a new one, and
// the old ones stay, removed, until the fabric goes.
struct Device {
  std::string name;
  FakeDeviceOptions options;
  std::vector<AddressPrefix> prefixes;
  std::vector<std::unique_ptr<Context>> contexts;
  Context* present = nullptr;  // null while the device is away
};

struct Context : verbs_context {
  Context(Fabric* owner, Device* device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  static Context* From(ibv_context* context);
  ibv_context* verbs() { return &this->context; }
  const FakeDeviceOptions& options() const { return device->options; }

  Fabric* const fabric;
  Device* const device;
  ibv_device device_storage = {};
  bool removed = false;
  EventQueue<ibv_async_event> async_events;
};

struct Pd : ibv_pd {
  static Pd* From(ibv_pd* pd) { return static_cast<Pd*>(pd); }
  int user_count = 0;  // MRs and queue pairs
};

struct Mr : ibv_mr {
  int access = 0;

  bool Covers(uint64_t address, uint64_t length_bytes) const {
    const auto start = reinterpret_cast<uint64_t>(addr);
    return address >= start && length_bytes <= length &&
           address - start <= length - length_bytes;
  }
};

struct CompChannel : ibv_comp_channel {
  static CompChannel* From(ibv_comp_channel* channel) {
    return static_cast<CompChannel*>(channel);
  }
  EventQueue<Cq*> events;
  int cq_count = 0;
};

enum class Arming { kNone, kSolicited, kAny };

// A completion, and the queue entries of its queue pair that polling it frees.
struct CqEntry {
  ibv_wc wc = {};
  int freed_sends = 0;
  int freed_receives = 0;
  uint32_t wire_generation = 0;  // of a send behind a late payload; else 0
};

struct Cq : ibv_cq {
  static Cq* From(ibv_cq* cq) { return static_cast<Cq*>(cq); }

  std::deque<CqEntry> entries;  // at most `cqe`
  Arming arming = Arming::kNone;
  bool dead =
      false;  // overflowed or broken; gives what it holds, takes nothing
  int high_water = 0;
  unsigned int unacked_events = 0;
  unsigned int unacked_async_events = 0;
  int qp_count = 0;  // a queue pair that uses it twice counts twice
};

// One completion for `cq`. Notifies if it is armed for it; one that does not
// fit is an overflow: the CQ dies and its queue pairs fail. `solicited` also
// for errors.
void AddCompletion(Cq* cq, const CqEntry& entry, bool solicited);
// The CQ takes nothing more, its queue pairs fail, IBV_EVENT_CQ_ERR.
void KillCq(Cq* cq);
void PushAsyncEvent(Context* context, const ibv_async_event& event);

}  // namespace sluice::fake
