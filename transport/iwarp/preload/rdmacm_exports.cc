// librdmacm by its exported names, over the provider [iwarp §5, §6]. rsockets
// are not among them: they reach into the real library's ids.
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>

#include "transport/iwarp/calls.h"

using namespace sluice::iwarp;  // NOLINT: the provider's calls by other names

namespace {

int Refuse(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" {

rdma_event_channel* rdma_create_event_channel() { return CreateEventChannel(); }
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  DestroyEventChannel(channel);
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return GetCmEvent(channel, event);
}
int rdma_ack_cm_event(rdma_cm_event* event) { return AckCmEvent(event); }

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space port_space) {
  return CreateId(channel, id, context, port_space);
}
int rdma_destroy_id(rdma_cm_id* id) { return DestroyId(id); }
int rdma_set_option(rdma_cm_id* id, int level, int name, void* value,
                    size_t value_bytes) {
  return SetOption(id, level, name, value, value_bytes);
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return BindAddr(id, address);
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                      int timeout_ms) {
  return ResolveAddr(id, source, destination, timeout_ms);
}
int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return ResolveRoute(id, timeout_ms);
}
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return MigrateId(id, channel);
}
__be16 rdma_get_src_port(rdma_cm_id* id) { return GetSrcPort(id); }
__be16 rdma_get_dst_port(rdma_cm_id* id) { return GetDstPort(id); }

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  return CmCreateQp(id, pd, attr);
}
int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  if ((attr->comp_mask & ~uint32_t{IBV_QP_INIT_ATTR_PD}) != 0) {
    return Refuse(EOPNOTSUPP);
  }
  ibv_pd* pd =
      (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : nullptr;
  // It begins as the plain one does.
  return CmCreateQp(id, pd, reinterpret_cast<ibv_qp_init_attr*>(attr));
}
void rdma_destroy_qp(rdma_cm_id* id) { CmDestroyQp(id); }
int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (id->srq != nullptr || pd == nullptr) return Refuse(EINVAL);
  id->srq = CreateSrq(pd, attr);
  return id->srq == nullptr ? -1 : 0;
}
void rdma_destroy_srq(rdma_cm_id* id) {
  if (id->srq != nullptr) DestroySrq(id->srq);
  id->srq = nullptr;
}
int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* attr_mask) {
  return InitQpAttr(id, attr, attr_mask);
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  return Connect(id, param);
}
int rdma_listen(rdma_cm_id* id, int backlog) { return Listen(id, backlog); }
int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  return Accept(id, param);
}
int rdma_reject(rdma_cm_id* id, const void* private_data,
                uint8_t private_data_bytes) {
  return Reject(id, private_data, private_data_bytes);
}
int rdma_reject_ece(rdma_cm_id* id, const void* private_data,
                    uint8_t private_data_bytes) {
  return Reject(id, private_data, private_data_bytes);
}
int rdma_disconnect(rdma_cm_id* id) { return CmDisconnect(id); }
int rdma_establish(rdma_cm_id* id) {
  return id->qp == nullptr ? 0 : Refuse(EINVAL);
}
int rdma_notify(rdma_cm_id* /*id*/, ibv_event_type /*event*/) { return 0; }
int rdma_get_remote_ece(rdma_cm_id* /*id*/, ibv_ece* /*ece*/) {
  return Refuse(EOPNOTSUPP);
}
int rdma_set_local_ece(rdma_cm_id* /*id*/, ibv_ece* /*ece*/) { return 0; }

ibv_context** rdma_get_devices(int* num_devices) {
  return GetDevices(num_devices);
}
void rdma_free_devices(ibv_context** list) { FreeDevices(list); }

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                   ibv_qp_init_attr* attr) {
  return CreateEp(id, info, pd, attr);
}
void rdma_destroy_ep(rdma_cm_id* id) { DestroyEp(id); }
int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  return GetRequest(listener, id);
}
int rdma_getaddrinfo(const char* node, const char* service,
                     const rdma_addrinfo* hints, rdma_addrinfo** info) {
  return GetAddrInfo(node, service, hints, info);
}
void rdma_freeaddrinfo(rdma_addrinfo* info) { FreeAddrInfo(info); }

// TCP has no such groups.
int rdma_join_multicast(rdma_cm_id* /*id*/, sockaddr* /*address*/,
                        void* /*context*/) {
  return Refuse(ENOSYS);
}
int rdma_join_multicast_ex(rdma_cm_id* /*id*/,
                           rdma_cm_join_mc_attr_ex* /*attr*/,
                           void* /*context*/) {
  return Refuse(ENOSYS);
}
int rdma_leave_multicast(rdma_cm_id* /*id*/, sockaddr* /*address*/) {
  return Refuse(ENOSYS);
}

// Programs that can use rsockets call it for all their descriptors.
int rpoll(pollfd* fds, nfds_t count, int timeout_ms) {
  return poll(fds, count, timeout_ms);
}

}  // extern "C"
