#include "transport/cm_channel.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/fd.h"
#include "core/status_macros.h"

namespace sluice::transport {

void RejectRequest(const VerbsApi& api, rdma_cm_id* id,
                   nvme::RejectReason reason) {
  const auto data = nvme::EncodeConnectReject({.reason = reason});
  api.reject(id, data.data(), static_cast<uint8_t>(data.size()));
  api.destroy_id(id);
}

absl::StatusOr<std::unique_ptr<CmChannel>> CmChannel::Create(
    Reactor* reactor, const VerbsApi& api) {
  rdma_event_channel* channel = api.create_event_channel();
  if (channel == nullptr) {
    const int error = errno;
    if (error == ENODEV || error == ENOSYS || error == ENOENT) {
      return absl::NotFoundError(
          "no RDMA device: rdma_create_event_channel found none; load the "
          "driver and rdma_ucm, or make one with: rdma link add rxe0 type rxe "
          "netdev IFACE");
    }
    return absl::ErrnoToStatus(error, "rdma_create_event_channel");
  }
  std::unique_ptr<CmChannel> made(new CmChannel(reactor, api, channel));
  SLUICE_RETURN_IF_ERROR(SetNonBlocking(channel->fd));
  made->watch_ = reactor->ring()->Watch(channel->fd, &OnReadable, made.get());
  return made;
}

CmChannel::~CmChannel() {
  if (watch_ != nullptr) reactor_->ring()->Unwatch(watch_);
  api_.destroy_event_channel(channel_);
}

void CmChannel::OnReadable(void* context) {
  auto* self = static_cast<CmChannel*>(context);
  rdma_cm_event* event = nullptr;
  while (self->api_.get_cm_event(self->channel_, &event) == 0) {
    // A copy with its private data, so that the event can be acknowledged
    // first: destroying an id waits for that.
    rdma_cm_event copy = *event;
    std::array<std::byte, 256> private_data;
    if (copy.param.conn.private_data != nullptr) {
      const size_t bytes = copy.param.conn.private_data_len;  // at most 255
      std::memcpy(private_data.data(), copy.param.conn.private_data, bytes);
      copy.param.conn.private_data = private_data.data();
    }
    rdma_cm_id* owner =
        copy.event == RDMA_CM_EVENT_CONNECT_REQUEST ? copy.listen_id : copy.id;
    auto* sink = static_cast<CmSink*>(owner->context);
    self->api_.ack_cm_event(event);
    if (sink != nullptr) sink->OnCmEvent(copy);
  }
}

}  // namespace sluice::transport
