// The connection manager: ids, their events, and the sockets of connections
// that are not made yet [iwarp §1.4, §5]. When both ends have agreed, the
// socket goes to the queue pair and the id only hears how it ends.
//
// One mutex for all of it: CmMutex. A queue pair's group comes under it, never
// around it. Progress is made by who waits for events of a channel: its
// descriptor is an epoll over those sockets.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "transport/iwarp/deadline.h"
#include "transport/iwarp/event_queue.h"
#include "transport/iwarp/mpa.h"
#include "transport/iwarp/qp.h"

namespace sluice::iwarp {

struct CmEvent;
struct Id;

struct EventChannel : rdma_event_channel {
  static EventChannel* From(rdma_event_channel* channel) {
    return static_cast<EventChannel*>(channel);
  }
  int epoll_fd = -1;
  int timer_fd = -1;
  EventQueue<CmEvent*> events;
  int64_t deadline_nanos = kNever;  // the earliest of its sockets'
};

// Something that a channel's epoll knows by its serial: never a pointer, which
// could be gone.
struct CmSocket {
  enum class Kind : uint8_t {
    kNone,
    kListener,
    kHalfOpen,  // a request has not come in full
    kActive,    // connecting, or waiting for the reply
    kEstablished,
  };
  Kind kind = Kind::kNone;
  uint64_t serial = 0;
  int fd = -1;
  Id* id = nullptr;                 // the listener's, of a half-open one
  EventChannel* channel = nullptr;  // that watches it
  int64_t deadline_nanos = kNever;
  // What has come of a frame.
  std::array<std::byte, kMpaFrameMax> text;
  size_t text_bytes = 0;
};

// kIdle -> kBound -> kListening; kBound or kIdle -> kAddressed -> kRouted ->
// kConnecting -> kConnected; kRequested (by a listener) -> kConnected; all but
// kListening -> kDisconnected.
enum class IdState : uint8_t {
  kIdle,
  kBound,
  kListening,
  kAddressed,
  kRouted,
  kConnecting,
  kRequested,
  kConnected,
  kDisconnected,
};

struct Id : rdma_cm_id {
  static Id* From(rdma_cm_id* id) { return static_cast<Id*>(id); }

  IdState state = IdState::kIdle;
  CmSocket socket;  // its serial is the id's
  MpaFrame sent;    // the request, of the active side
  MpaFrame got;     // the request, of the passive side
  StreamOptions stream;
  // Of the queue pair that is connected or to be, which may be gone: the
  // program destroys its own ones without a word to the id. 0: none.
  uint32_t qp_number = 0;
  bool connected_tcp = false;
  bool port_is_tcps = false;  // src_addr's is what connecting gave it
  bool v6_only = false;
  uint8_t type_of_service = 0;
  int backlog = 0;
  int requests_waiting = 0;  // CONNECT_REQUESTs that nobody has fetched
  std::list<std::unique_ptr<CmSocket>> half_open;  // oldest first
  uint32_t delivered_events = 0;
  uint32_t acked_events = 0;
  // Made without a channel: it has its own, and calls wait for their event.
  bool synchronous = false;
  // Of rdma_create_ep for a listener: each request's queue pair is made so.
  std::unique_ptr<ibv_qp_init_attr> qp_attr;
  // Made by CmCreateQp and gone with the queue pair.
  bool owns_send_cq = false;
  bool owns_recv_cq = false;
};

struct CmEvent : rdma_cm_event {
  Id* owner = nullptr;  // waits for its acknowledgement
  std::array<std::byte, kMpaPrivateMax> data;
};

std::mutex& CmMutex();

// --- with the mutex held ---

class CmTable {
 public:
  static CmTable& Get();
  uint64_t Add(CmSocket* socket);
  void Remove(uint64_t serial);
  CmSocket* Find(uint64_t serial) const;
  template <typename Visit>
  void Each(Visit visit) const {
    for (const auto& [serial, socket] : sockets_) visit(socket);
  }

 private:
  std::unordered_map<uint64_t, CmSocket*> sockets_;
  uint64_t next_ = 1;
};

// cm_channel.cc: the channel waits for `events` (EPOLL*) of the socket, or no
// longer.
bool WatchSocket(CmSocket* socket, uint32_t events);
void RewatchSocket(CmSocket* socket, uint32_t events);
void UnwatchSocket(CmSocket* socket);
void SetSocketDeadline(CmSocket* socket, int64_t nanos);
// Unwatches and closes.
void CloseSocket(CmSocket* socket);

// cm_event.cc
// The event of `id`, accounted to `owner`; data is copied.
CmEvent* NewEvent(Id* id, Id* owner, rdma_cm_event_type type, int status);
void PushEvent(CmEvent* event);
void PushIdEvent(Id* id, rdma_cm_event_type type, int status);
void SetEventData(CmEvent* event, absl::Span<const std::byte> data);
// Until all delivered events of the id are acknowledged.
void WaitForAcks(Id* id, std::unique_lock<std::mutex>* lock);

// cm_frame.cc: reads what has come of a start-up frame. kNone: it is whole;
// kShort: more is to come; kEnded: it will not, and errno says why.
MpaError ReadFrame(CmSocket* socket, bool expect_reply, MpaFrame* frame);

// cm_listen.cc
void OnListenerReadable(Id* listener);
// One that could accept nothing tries again.
void ResumeListener(Id* listener);
void OnHalfOpenReadable(CmSocket* half_open);
void DropHalfOpen(CmSocket* half_open);
// The peer's request is refused, without data; its socket is closed.
void RefuseRequest(Id* id);
// TCP of a connection: no delay, and a dead peer is noticed.
void TuneSocket(int fd, uint8_t type_of_service);

// An initiator that agreed to speak first has not.
void OnFirstFpduDeadline(Id* id);

// cm_connect.cc
void OnActiveReady(Id* id);
void OnActiveDeadline(Id* id);
// Hands the socket to the queue pair, which sends `first` then. False, with
// errno: nothing was handed over, nor sent.
bool Establish(Id* id, absl::Span<const std::byte> first = {});
// Wakes the id's channel when the connection ends; `fd` stays the queue pair's.
void WatchEnd(Id* id, int fd);
// The same on another channel, where the id goes.
void RewatchEnd(Id* id, EventChannel* channel);
void PushEstablished(Id* id);
// The id's queue pair from now on: its own, or the one that is named. Null:
// there is none.
Qp* ChooseQp(Id* id, const rdma_conn_param* param);
// That one, while the mutex is held; null when it is gone.
Qp* QpOf(const Id& id);
// What the parameters ask for, within the device's limits; 0xff: all of it.
// False: too much.
bool DepthsOf(const rdma_conn_param* param, uint32_t* ird, uint32_t* ord);
bool IsLoopback(const sockaddr* address);
bool WantsCrc(const Id& id);

// --- without it ---

// cm_sync.cc: waits for the event that ends what a synchronous id was told to
// do, and keeps it in id->event. 0, or -1 with errno; at once for other ids.
int Complete(rdma_cm_id* id);

// cm_channel.cc: serves the channel's sockets, within bounds. True when there
// is more to do.
bool AdvanceChannel(EventChannel* channel);

inline socklen_t AddressBytes(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                        : sizeof(sockaddr_in);
}

}  // namespace sluice::iwarp
