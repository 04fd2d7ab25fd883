// The fake connection manager's objects and the steps that connections, queue
// pairs and device removal share. Owned by their Fabric, guarded by its mutex.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/fake_verbs_event_queue.h"
#include "tests/support/fake_verbs_objects.h"

namespace sluice::fake {

struct Id;

struct CmEvent : rdma_cm_event {
  CmEvent(Id* owner, Id* subject, rdma_cm_event_type type, int status);

  // `padded_bytes` is what an IB message carries; iWARP's length is exact.
  void SetPrivateData(const void* data, size_t length_bytes,
                      size_t padded_bytes);

  Id* owner;  // whose event it is to acknowledge: the listener's for a request
  std::vector<std::byte> private_data;
};

struct EventChannel : rdma_event_channel {
  static EventChannel* From(rdma_event_channel* channel) {
    return static_cast<EventChannel*>(channel);
  }
  Fabric* fabric = nullptr;
  EventQueue<std::unique_ptr<CmEvent>> events;
};

// Active:  kIdle -bind-> kBound -resolve_addr-> kAddressResolved
//          -resolve_route-> kRouteResolved -connect-> kConnecting
//          -accept by the peer-> kConnected -disconnect-> kClosed
// Passive: kRequested -accept-> kConnected; -reject-> kClosed
// Listener: kBound -listen-> kListening
// A reject, a peer that goes and a removed device lead to kClosed.
enum class IdState {
  kIdle,
  kBound,
  kListening,
  kAddressResolved,
  kRouteResolved,
  kConnecting,
  kRequested,
  kConnected,
  kClosed,
};

struct Id : rdma_cm_id {
  static Id* From(rdma_cm_id* id) { return static_cast<Id*>(id); }
  sockaddr* source() { return &route.addr.src_addr; }
  sockaddr* destination() { return &route.addr.dst_addr; }
  Context* device_context() const {
    return verbs == nullptr ? nullptr : Context::From(verbs);
  }
  EventChannel* event_channel() const { return EventChannel::From(channel); }

  Fabric* fabric = nullptr;
  IdState state = IdState::kIdle;
  Id* peer = nullptr;      // from connect on, while both ids live
  Id* listener = nullptr;  // of a request not fetched yet
  bool owns_port = false;  // bound it; a passive id shares its listener's
  bool reuse_address = false;
  bool family_only = false;  // a listener on [::] refuses IPv4
  int backlog = 0;           // 0: no limit
  int pending_requests = 0;  // queued, not fetched
  int unacked_events = 0;
  rdma_conn_param requested = {};  // as the initiator asked, unswapped
};

// Sizes of IB's private data with RDMA_PS_TCP; siw's limit.
inline constexpr size_t kRequestPrivateBytes = 56;
inline constexpr size_t kReplyPrivateBytes = 196;
inline constexpr size_t kRejectPrivateBytes = 148;
inline constexpr size_t kIwarpPrivateBytes = 251;

void PushEvent(std::unique_ptr<CmEvent> event);
void PushEvent(Id* id, rdma_cm_event_type type, int status);
// Gives the id a source address and the device behind it; 0 or an errno.
int BindSource(Id* id, const sockaddr* address);
// The device that has the address, present or not; null: none.
Device* FindDevice(Fabric* fabric, const sockaddr* address);
// True if a listener at `id`'s source address serves `address`.
bool Serves(Id* id, const sockaddr* address);

// Both ends of an established connection: DISCONNECTED, no peer any more. The
// caller fails the queue pairs.
void CloseConnection(Id* id);
// A request that will not be: its initiator gets REJECTED and its queue pair
// fails. `data` may be null.
void RejectRequest(Id* passive, const void* data, size_t length_bytes);
// The device is gone: DEVICE_REMOVAL, and the peer on another one is told.
void RemoveFromDevice(Id* id);

}  // namespace sluice::fake
