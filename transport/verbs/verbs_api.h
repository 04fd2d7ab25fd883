// The seam: every control call of libibverbs and librdmacm that sluice makes,
// as a table of functions with exactly their signatures. `System()` is those
// two libraries. A provider in user space fills a table of its own, and the
// data path needs none: ibv_post_send, ibv_post_recv, ibv_post_srq_recv,
// ibv_poll_cq and ibv_req_notify_cq dispatch through the context's `ops`.
//
// An id and all objects made from it belong to one table and never mix; the
// real libraries crash on a context that is not their own. Errors come in
// three styles, as in the libraries: pointers are null and set errno,
// ibv_modify_qp and the query functions return the errno, rdma_* return -1 and
// set errno (System() sees to it). ENODEV and ENOSYS mean "no device here".
//
// Tables are immutable and live for ever. Thread-safe.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

namespace sluice {

struct VerbsApi {
  const char* name;  // "verbs", "fake", …: for logs

  // Devices.
  ibv_device** (*get_device_list)(int* num_devices);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  int (*query_device)(ibv_context* context, ibv_device_attr* attr);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attr);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);

  // Protection domains and memory regions.
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length_bytes, int access);
  int (*dereg_mr)(ibv_mr* mr);

  // Completion channels and completion queues. Never a resize: iWARP devices
  // cannot.
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int cqe, void* cq_context,
                       ibv_comp_channel* channel, int comp_vector);
  int (*destroy_cq)(ibv_cq* cq);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq,
                      void** cq_context);
  void (*ack_cq_events)(ibv_cq* cq, unsigned int events_count);

  // Shared receive queues.
  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
  int (*destroy_srq)(ibv_srq* srq);
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);

  // Queue pairs. Made and destroyed through the connection manager below.
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
                  ibv_qp_init_attr* init_attr);

  // The connection manager, librdmacm.
  rdma_event_channel* (*create_event_channel)();
  void (*destroy_event_channel)(rdma_event_channel* channel);
  int (*get_cm_event)(rdma_event_channel* channel, rdma_cm_event** event);
  int (*ack_cm_event)(rdma_cm_event* event);
  int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space port_space);
  int (*destroy_id)(rdma_cm_id* id);
  int (*set_option)(rdma_cm_id* id, int level, int name, void* value,
                    size_t value_bytes);
  int (*bind_addr)(rdma_cm_id* id, sockaddr* address);
  int (*resolve_addr)(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                      int timeout_ms);
  int (*resolve_route)(rdma_cm_id* id, int timeout_ms);
  int (*create_qp)(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr);
  void (*destroy_qp)(rdma_cm_id* id);
  int (*connect)(rdma_cm_id* id, rdma_conn_param* param);
  int (*listen)(rdma_cm_id* id, int backlog);
  int (*accept)(rdma_cm_id* id, rdma_conn_param* param);
  int (*reject)(rdma_cm_id* id, const void* private_data,
                uint8_t private_data_bytes);
  int (*disconnect)(rdma_cm_id* id);
  int (*migrate_id)(rdma_cm_id* id, rdma_event_channel* channel);
  __be16 (*get_src_port)(rdma_cm_id* id);
  ibv_context** (*get_devices)(int* num_devices);
  void (*free_devices)(ibv_context** list);

  // libibverbs and librdmacm of this machine.
  static const VerbsApi& System();
  // The provider in this process, over TCP (transport/iwarp).
  static const VerbsApi& Iwarp();
};

}  // namespace sluice
