// Event channels of the connection manager, and ids moving between them.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {

CmEvent::CmEvent(Id* of, Id* subject, rdma_cm_event_type type, int result)
    : rdma_cm_event{}, owner(of) {
  id = subject;
  listen_id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? of : nullptr;
  event = type;
  status = result;
}

void CmEvent::SetPrivateData(const void* data, size_t length_bytes,
                             size_t padded_bytes) {
  const bool iwarp = Id::From(id)->device_context()->options().iwarp;
  private_data.assign(iwarp ? length_bytes : padded_bytes, std::byte{0});
  SLUICE_CHECK(length_bytes <= private_data.size());
  if (private_data.empty()) return;
  if (length_bytes > 0) std::memcpy(private_data.data(), data, length_bytes);
  param.conn.private_data = private_data.data();
  param.conn.private_data_len = static_cast<uint8_t>(private_data.size());
}

void PushEvent(std::unique_ptr<CmEvent> event) {
  EventChannel* channel = event->owner->event_channel();
  channel->events.Push(std::move(event));
}

void PushEvent(Id* id, rdma_cm_event_type type, int status) {
  PushEvent(std::make_unique<CmEvent>(id, id, type, status));
}

rdma_event_channel* CreateEventChannel() {
  Fabric* fabric = CurrentFabric();
  const std::lock_guard lock(fabric->mutex);
  if (fabric->devices.empty()) return NullResult(ENODEV);
  EventChannel* channel =
      fabric->event_channels.Add(std::make_unique<EventChannel>());
  channel->fabric = fabric;
  channel->fd = channel->events.fd();
  return channel;
}

void DestroyEventChannel(rdma_event_channel* raw) {
  EventChannel* channel = EventChannel::From(raw);
  const std::lock_guard lock(channel->fabric->mutex);
  for (const auto& id : channel->fabric->ids.all()) {
    SLUICE_CHECK(id->channel != raw);  // ids are destroyed first
  }
  channel->fabric->event_channels.Remove(channel);
}

int GetCmEvent(rdma_event_channel* raw, rdma_cm_event** event) {
  EventChannel* channel = EventChannel::From(raw);
  std::unique_lock lock(channel->fabric->mutex);
  std::unique_ptr<CmEvent> taken;
  const int error = channel->events.Take(&lock, &taken);
  if (error != 0) return CmResult(error);
  if (taken->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    Id::From(taken->id)->listener = nullptr;
    --taken->owner->pending_requests;
  }
  ++taken->owner->unacked_events;
  ++channel->fabric->unacked_events;
  *event = taken.release();
  return 0;
}

int AckCmEvent(rdma_cm_event* raw) {
  const std::unique_ptr<CmEvent> event(static_cast<CmEvent*>(raw));
  Fabric* fabric = event->owner->fabric;
  const std::lock_guard lock(fabric->mutex);
  SLUICE_CHECK(event->owner->unacked_events > 0);
  --event->owner->unacked_events;
  --fabric->unacked_events;
  return 0;
}

int MigrateId(rdma_cm_id* raw, rdma_event_channel* to) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (to == nullptr) return CmResult(EINVAL);  // synchronous ids: not here
  SLUICE_CHECK(id->unacked_events == 0);       // would block for ever

  // Requests that a listener's user has not fetched go with it.
  const auto moves = [id](const Id* other) {
    return other == id || other->listener == id;
  };
  auto moved = id->event_channel()->events.Extract(
      [&](const std::unique_ptr<CmEvent>& event) {
        return moves(event->owner);
      });
  for (const auto& other : id->fabric->ids.all()) {
    if (moves(other.get())) other->channel = to;
  }
  for (auto& event : moved) PushEvent(std::move(event));
  return 0;
}

}  // namespace sluice::fake
