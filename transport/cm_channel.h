// The connection manager's event channel of one reactor. An id's context is a
// CmSink; events go to it and are acknowledged at once.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/reactor.h"
#include "nvme/private_data.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::transport {

// Receives the connection manager's events of an id. The event is valid during
// the call; for CONNECT_REQUEST, `event.id` is the new id, and the sink is the
// listener's.
class CmSink {
 public:
  virtual ~CmSink() = default;
  // The event has been acknowledged already, so that ids may be destroyed.
  virtual void OnCmEvent(const rdma_cm_event& event) = 0;
};

// Answers a CONNECT_REQUEST with the reason as private data [spec §1.4], and
// destroys its id.
void RejectRequest(const VerbsApi& api, rdma_cm_id* id,
                   nvme::RejectReason reason);

class CmChannel {
 public:
  // NotFound: no RDMA device or no connection manager on this machine.
  static absl::StatusOr<std::unique_ptr<CmChannel>> Create(Reactor* reactor,
                                                           const VerbsApi& api);
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  rdma_event_channel* channel() const { return channel_; }

 private:
  CmChannel(Reactor* reactor, const VerbsApi& api, rdma_event_channel* channel)
      : reactor_(reactor), api_(api), channel_(channel) {}
  static void OnReadable(void* context);

  Reactor* reactor_;
  const VerbsApi& api_;
  rdma_event_channel* channel_;
  FdWatch* watch_ = nullptr;
};

}  // namespace sluice::transport
