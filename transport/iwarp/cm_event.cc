// Events of the connection manager: made, fetched, acknowledged [iwarp §5.3].
#include <algorithm>
#include <cerrno>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/wait.h"

namespace sluice::iwarp {
namespace {

std::condition_variable& AckCondition() {
  static auto* condition = new std::condition_variable;
  return *condition;
}

}  // namespace

CmEvent* NewEvent(Id* id, Id* owner, rdma_cm_event_type type, int status) {
  auto* event = new CmEvent;
  event->rdma_cm_event::id = id;
  event->listen_id = owner == id ? nullptr : owner;
  event->event = type;
  event->status = status;
  event->param = {};
  event->owner = owner;
  return event;
}

void SetEventData(CmEvent* event, absl::Span<const std::byte> data) {
  // The API counts in 8 bits.
  const size_t bytes = std::min<size_t>(data.size(), UINT8_MAX);
  if (bytes == 0) return;
  std::copy_n(data.begin(), bytes, event->data.begin());
  event->param.conn.private_data = event->data.data();
  event->param.conn.private_data_len = static_cast<uint8_t>(bytes);
}

void PushEvent(CmEvent* event) {
  EventChannel* channel = EventChannel::From(event->rdma_cm_event::id->channel);
  channel->events.Push(event, /*quietly=*/false);
}

void PushIdEvent(Id* id, rdma_cm_event_type type, int status) {
  PushEvent(NewEvent(id, id, type, status));
}

int GetCmEvent(rdma_event_channel* raw, rdma_cm_event** event) {
  EventChannel* channel = EventChannel::From(raw);
  while (true) {
    const bool more = AdvanceChannel(channel);
    CmEvent* taken = nullptr;
    {
      const std::lock_guard lock(CmMutex());
      channel->events.Take(&taken, [](CmEvent* next) {
        ++next->owner->delivered_events;
        if (next->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
          --next->owner->requests_waiting;
        }
      });
      channel->events.Announce(more);
    }
    if (taken != nullptr) {
      *event = taken;
      return 0;
    }
    // With more to do the descriptor is readable: who waits comes back at
    // once, and who does not has others to serve, whatever peers send.
    if (!WaitReadable(channel->fd, channel->epoll_fd)) return -1;
  }
}

int AckCmEvent(rdma_cm_event* raw) {
  auto* event = static_cast<CmEvent*>(raw);
  {
    const std::lock_guard lock(CmMutex());
    ++event->owner->acked_events;
    AckCondition().notify_all();
  }
  delete event;
  return 0;
}

void WaitForAcks(Id* id, std::unique_lock<std::mutex>* lock) {
  AckCondition().wait(
      *lock, [id] { return id->acked_events == id->delivered_events; });
}

void DeliverNotes(const std::vector<Note>& notes) {
  const std::lock_guard lock(CmMutex());
  for (const Note& note : notes) {
    CmSocket* socket = CmTable::Get().Find(note.id_serial);
    if (socket == nullptr) continue;
    Id* id = socket->id;
    switch (note.kind) {
      case Note::Kind::kFirstFpdu:
        if (id->state != IdState::kConnected) break;
        id->socket.deadline_nanos = kNever;
        PushEstablished(id);
        break;
      case Note::Kind::kDisconnected:
        if (id->state != IdState::kConnected) break;
        id->state = IdState::kDisconnected;
        PushIdEvent(id, RDMA_CM_EVENT_DISCONNECTED, 0);
        break;
    }
  }
}

}  // namespace sluice::iwarp
