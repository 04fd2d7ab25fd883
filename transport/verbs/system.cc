// The system's libraries behind the table. Macros and inline wrappers of
// verbs.h (ibv_query_port, ibv_reg_mr) are called here and nowhere else.
#include "transport/verbs/errno_kept.h"
#include "transport/verbs/verbs_api.h"

namespace sluice {
namespace {

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  return ibv_query_port(context, port, attr);
}

ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length_bytes, int access) {
  // verbs.h turns ibv_reg_mr into a macro that looks at whether `access` is
  // constant; it is not, here.
  return ibv_reg_mr(pd, address, length_bytes, access);
}

}  // namespace

const VerbsApi& VerbsApi::System() {
  static const VerbsApi api = {
      .name = "verbs",
      .get_device_list = &ibv_get_device_list,
      .free_device_list = &ibv_free_device_list,
      .get_device_name = &ibv_get_device_name,
      .query_device = &ibv_query_device,
      .query_port = &QueryPort,
      .get_async_event = &ibv_get_async_event,
      .ack_async_event = &ibv_ack_async_event,
      .alloc_pd = &ErrnoKept<&ibv_alloc_pd>::Call,
      .dealloc_pd = &ibv_dealloc_pd,
      .reg_mr = &ErrnoKept<&RegMr>::Call,
      .dereg_mr = &ibv_dereg_mr,
      .create_comp_channel = &ErrnoKept<&ibv_create_comp_channel>::Call,
      .destroy_comp_channel = &ibv_destroy_comp_channel,
      .create_cq = &ErrnoKept<&ibv_create_cq>::Call,
      .destroy_cq = &ibv_destroy_cq,
      .get_cq_event = &ibv_get_cq_event,
      .ack_cq_events = &ibv_ack_cq_events,
      .create_srq = &ErrnoKept<&ibv_create_srq>::Call,
      .destroy_srq = &ibv_destroy_srq,
      .modify_srq = &ibv_modify_srq,
      .query_srq = &ibv_query_srq,
      .modify_qp = &ibv_modify_qp,
      .query_qp = &ibv_query_qp,
      .create_event_channel = &ErrnoKept<&rdma_create_event_channel>::Call,
      .destroy_event_channel = &rdma_destroy_event_channel,
      .get_cm_event = &rdma_get_cm_event,
      .ack_cm_event = &rdma_ack_cm_event,
      .create_id = &ErrnoKept<&rdma_create_id>::Call,
      .destroy_id = &rdma_destroy_id,
      .set_option = &rdma_set_option,
      .bind_addr = &ErrnoKept<&rdma_bind_addr>::Call,
      .resolve_addr = &ErrnoKept<&rdma_resolve_addr>::Call,
      .resolve_route = &ErrnoKept<&rdma_resolve_route>::Call,
      .create_qp = &ErrnoKept<&rdma_create_qp>::Call,
      .destroy_qp = &rdma_destroy_qp,
      .connect = &ErrnoKept<&rdma_connect>::Call,
      .listen = &ErrnoKept<&rdma_listen>::Call,
      .accept = &ErrnoKept<&rdma_accept>::Call,
      .reject = &rdma_reject,
      .disconnect = &rdma_disconnect,
      .migrate_id = &ErrnoKept<&rdma_migrate_id>::Call,
      .get_src_port = &rdma_get_src_port,
      .get_devices = &rdma_get_devices,
      .free_devices = &rdma_free_devices,
  };
  return api;
}

}  // namespace sluice
