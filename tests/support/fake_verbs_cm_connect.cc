// Connecting, accepting, rejecting, disconnecting.
#include <algorithm>
#include <cerrno>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

// IB's reasons in a REJ message.
constexpr int kRejectNoListener = 8;
constexpr int kRejectConsumer = 28;

int RejectStatus(const Id& id, int ib_reason) {
  return id.device_context()->options().iwarp ? -ECONNREFUSED : ib_reason;
}

// Read depths of a request or reply within the device's limits; 255 stands for
// the limit. 0 or an errno.
int FixDepths(rdma_conn_param* param, const FakeDeviceOptions& options) {
  if (param->responder_resources == RDMA_MAX_RESP_RES) {
    param->responder_resources = static_cast<uint8_t>(options.max_qp_rd_atom);
  }
  if (param->initiator_depth == RDMA_MAX_INIT_DEPTH) {
    param->initiator_depth = static_cast<uint8_t>(options.max_qp_init_rd_atom);
  }
  const bool fits = param->responder_resources <= options.max_qp_rd_atom &&
                    param->initiator_depth <= options.max_qp_init_rd_atom;
  return fits ? 0 : EINVAL;
}

bool FitsPrivateData(const Id& id, size_t length_bytes, size_t ib_limit) {
  const bool iwarp = id.device_context()->options().iwarp;
  return length_bytes <= (iwarp ? kIwarpPrivateBytes : ib_limit);
}

// The listener that serves `destination`, a specific one before a wildcard.
Id* FindListener(Fabric* fabric, const sockaddr* destination) {
  Id* found = nullptr;
  for (const auto& id : fabric->ids.all()) {
    if (id->state != IdState::kListening) continue;
    if (PortOf(id->source()) != PortOf(destination)) continue;
    if (!Serves(id.get(), destination)) continue;
    if (found == nullptr || !IsWildcard(id->source())) found = id.get();
  }
  return found;
}

void PushRejected(Id* id, int status, const void* data, size_t length_bytes) {
  auto event =
      std::make_unique<CmEvent>(id, id, RDMA_CM_EVENT_REJECTED, status);
  event->SetPrivateData(data, length_bytes, kRejectPrivateBytes);
  PushEvent(std::move(event));
  id->state = IdState::kClosed;
  if (id->qp != nullptr) Fail(Qp::From(id->qp));
}

// The id that the listener's user will be given.
Id* MakePassive(Id* active, Id* listener, Context* context) {
  Fabric* fabric = active->fabric;
  Id* passive = fabric->ids.Add(std::make_unique<Id>());
  passive->fabric = fabric;
  passive->channel = listener->channel;
  passive->context = listener->context;
  passive->ps = listener->ps;
  passive->qp_type = IBV_QPT_RC;
  passive->verbs = context->verbs();
  passive->port_num = 1;
  CopyAddress(&passive->route.addr.src_storage, active->destination());
  CopyAddress(&passive->route.addr.dst_storage, active->source());
  passive->state = IdState::kRequested;
  passive->listener = listener;
  passive->peer = active;
  active->peer = passive;
  return passive;
}

void PushRequest(Id* passive, Id* listener, const rdma_conn_param& param) {
  auto event = std::make_unique<CmEvent>(listener, passive,
                                         RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event->param.conn = param;
  event->param.conn.private_data = nullptr;
  event->param.conn.private_data_len = 0;
  event->param.conn.responder_resources = param.initiator_depth;
  event->param.conn.initiator_depth = param.responder_resources;
  event->SetPrivateData(param.private_data, param.private_data_len,
                        kRequestPrivateBytes);
  ++listener->pending_requests;
  PushEvent(std::move(event));
}

// What accept uses if it is given nothing.
rdma_conn_param DefaultReply(const Id& passive) {
  const FakeDeviceOptions& options = passive.device_context()->options();
  rdma_conn_param reply = passive.requested;
  reply.private_data = nullptr;
  reply.private_data_len = 0;
  reply.responder_resources = static_cast<uint8_t>(
      std::min<int>(passive.requested.initiator_depth, options.max_qp_rd_atom));
  reply.initiator_depth = static_cast<uint8_t>(std::min<int>(
      passive.requested.responder_resources, options.max_qp_init_rd_atom));
  return reply;
}

// Both queue pairs to RTS with what was negotiated.
void Join(Qp* active, Qp* passive, const rdma_conn_param& request,
          const rdma_conn_param& reply) {
  active->peer = passive;
  active->max_rd_atomic =
      std::min(request.initiator_depth, reply.responder_resources);
  active->max_dest_rd_atomic =
      std::min(request.responder_resources, reply.initiator_depth);
  active->rnr_retry = reply.rnr_retry_count;
  active->live_state = IBV_QPS_RTS;

  passive->peer = active;
  passive->max_rd_atomic = reply.initiator_depth;
  passive->max_dest_rd_atomic = reply.responder_resources;
  passive->rnr_retry = request.rnr_retry_count;
  passive->live_state = IBV_QPS_RTS;
}

void PushEstablished(Id* active, Id* passive, const rdma_conn_param& reply) {
  auto event =
      std::make_unique<CmEvent>(active, active, RDMA_CM_EVENT_ESTABLISHED, 0);
  event->param.conn.responder_resources = reply.initiator_depth;
  event->param.conn.initiator_depth = reply.responder_resources;
  event->param.conn.rnr_retry_count = reply.rnr_retry_count;
  event->param.conn.qp_num = passive->qp->qp_num;
  event->SetPrivateData(reply.private_data, reply.private_data_len,
                        kReplyPrivateBytes);
  PushEvent(std::move(event));
  PushEvent(passive, RDMA_CM_EVENT_ESTABLISHED, 0);
}

bool IsInit(const Id& id) {
  return id.qp != nullptr && Qp::From(id.qp)->live_state == IBV_QPS_INIT;
}

void Unpair(Id* id) {
  if (id->peer != nullptr) id->peer->peer = nullptr;
  id->peer = nullptr;
}

void PushDisconnected(Id* id) {
  id->state = IdState::kClosed;
  PushEvent(id, RDMA_CM_EVENT_DISCONNECTED, 0);
  if (id->device_context()->options().timewait_exit) {
    PushEvent(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
  }
}

}  // namespace

void CloseConnection(Id* id) {
  Id* peer = id->peer;
  Unpair(id);
  PushDisconnected(id);
  if (peer != nullptr) PushDisconnected(peer);
}

void RejectRequest(Id* passive, const void* data, size_t length_bytes) {
  Id* active = passive->peer;
  passive->state = IdState::kClosed;
  Unpair(passive);
  if (active == nullptr) return;
  PushRejected(active, RejectStatus(*active, kRejectConsumer), data,
               length_bytes);
}

void RemoveFromDevice(Id* id) {
  Id* peer = id->peer;
  const bool was_connected = id->state == IdState::kConnected;
  Unpair(id);
  id->state = IdState::kClosed;
  PushEvent(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
  if (peer == nullptr || peer->verbs == id->verbs) return;
  if (was_connected) {
    PushDisconnected(peer);
    const bool flushes =
        peer->device_context()->options().flush_on_peer_disconnect;
    if (flushes && peer->qp != nullptr) Fail(Qp::From(peer->qp));
  } else {
    PushRejected(peer, RejectStatus(*peer, kRejectConsumer), nullptr, 0);
  }
}

int Connect(rdma_cm_id* raw, rdma_conn_param* param) {
  Id* id = Id::From(raw);
  Fabric* fabric = id->fabric;
  const std::lock_guard lock(fabric->mutex);
  if (id->state != IdState::kRouteResolved) return CmResult(EINVAL);
  if (id->device_context()->removed) return CmResult(ENODEV);
  if (!IsInit(*id)) return CmResult(EINVAL);
  rdma_conn_param request = *param;
  const int error = FixDepths(&request, id->device_context()->options());
  if (error != 0) return CmResult(error);
  if (!FitsPrivateData(*id, request.private_data_len, kRequestPrivateBytes)) {
    return CmResult(EINVAL);
  }
  request.qp_num = id->qp->qp_num;

  id->state = IdState::kConnecting;
  const Device* device = FindDevice(fabric, id->destination());
  const bool can_reach =
      device != nullptr && device->present != nullptr &&
      device->options.iwarp == id->device_context()->options().iwarp;
  Id* listener = FindListener(fabric, id->destination());
  if (!can_reach) {
    id->state = IdState::kClosed;
    PushEvent(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  } else if (listener == nullptr ||
             (listener->backlog > 0 &&
              listener->pending_requests >= listener->backlog)) {
    PushRejected(id, RejectStatus(*id, kRejectNoListener), nullptr, 0);
  } else {
    Id* passive = MakePassive(id, listener, device->present);
    passive->requested = request;
    PushRequest(passive, listener, request);
  }
  Settle(fabric);
  return 0;
}

int Accept(rdma_cm_id* raw, rdma_conn_param* param) {
  Id* id = Id::From(raw);
  Fabric* fabric = id->fabric;
  const std::lock_guard lock(fabric->mutex);
  if (id->state != IdState::kRequested || !IsInit(*id)) return CmResult(EINVAL);
  if (id->device_context()->removed) return CmResult(ENODEV);
  rdma_conn_param reply = param == nullptr ? DefaultReply(*id) : *param;
  const int error = FixDepths(&reply, id->device_context()->options());
  if (error != 0) return CmResult(error);
  if (!FitsPrivateData(*id, reply.private_data_len, kReplyPrivateBytes)) {
    return CmResult(EINVAL);
  }
  Id* active = id->peer;
  if (!IsInit(*active)) {  // its queue pair went away meanwhile
    RejectRequest(id, nullptr, 0);
    Settle(fabric);
    return CmResult(ECONNRESET);
  }
  id->state = IdState::kConnected;
  active->state = IdState::kConnected;
  Join(Qp::From(active->qp), Qp::From(id->qp), id->requested, reply);
  PushEstablished(active, id, reply);
  Settle(fabric);
  return 0;
}

int Reject(rdma_cm_id* raw, const void* private_data,
           uint8_t private_data_bytes) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  if (id->state != IdState::kRequested) return CmResult(EINVAL);
  if (!FitsPrivateData(*id, private_data_bytes, kRejectPrivateBytes)) {
    return CmResult(EINVAL);
  }
  RejectRequest(id, private_data, private_data_bytes);
  Settle(id->fabric);
  return 0;
}

int Disconnect(rdma_cm_id* raw) {
  Id* id = Id::From(raw);
  const std::lock_guard lock(id->fabric->mutex);
  const bool was_connected = id->state == IdState::kConnected;
  if (!was_connected && id->state != IdState::kClosed) return CmResult(EINVAL);
  Qp* qp = id->qp == nullptr ? nullptr : Qp::From(id->qp);
  if (was_connected) {
    Id* peer = id->peer;
    const bool flushes =
        peer->device_context()->options().flush_on_peer_disconnect;
    if (qp != nullptr) DrainWire(qp);
    CloseConnection(id);
    if (flushes && peer->qp != nullptr) Fail(Qp::From(peer->qp));
  }
  if (qp != nullptr) Fail(qp);
  Settle(id->fabric);
  return 0;
}

}  // namespace sluice::fake
