// The calls of the fake provider: the functions behind VerbsApi and behind the
// context's `ops`. Each locks its fabric's mutex and has exactly the contract
// of the library's call of that name.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

namespace sluice::fake {

// fake_verbs_device.cc
ibv_device** GetDeviceList(int* num_devices);
void FreeDeviceList(ibv_device** list);
const char* GetDeviceName(ibv_device* device);
int QueryDevice(ibv_context* context, ibv_device_attr* attr);
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr);
int GetAsyncEvent(ibv_context* context, ibv_async_event* event);
void AckAsyncEvent(ibv_async_event* event);
ibv_context** GetDevices(int* num_devices);
void FreeDevices(ibv_context** list);

// fake_verbs_memory.cc
ibv_pd* AllocPd(ibv_context* context);
int DeallocPd(ibv_pd* pd);
ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length_bytes, int access);
int DeregMr(ibv_mr* mr);

// fake_verbs_cq.cc
ibv_comp_channel* CreateCompChannel(ibv_context* context);
int DestroyCompChannel(ibv_comp_channel* channel);
ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector);
int DestroyCq(ibv_cq* cq);
int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void AckCqEvents(ibv_cq* cq, unsigned int events_count);
int PollCq(ibv_cq* cq, int num_entries, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);

// fake_verbs_qp.cc
int CreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr);
void DestroyQp(rdma_cm_id* id);
int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
            ibv_qp_init_attr* init_attr);

// fake_verbs_post.cc
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// fake_verbs_cm_event.cc
rdma_event_channel* CreateEventChannel();
void DestroyEventChannel(rdma_event_channel* channel);
int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event);
int AckCmEvent(rdma_cm_event* event);
int MigrateId(rdma_cm_id* id, rdma_event_channel* channel);

// fake_verbs_cm_id.cc
int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space);
int DestroyId(rdma_cm_id* id);
int SetOption(rdma_cm_id* id, int level, int name, void* value,
              size_t value_bytes);
int BindAddr(rdma_cm_id* id, sockaddr* address);
int ResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                int timeout_ms);
int ResolveRoute(rdma_cm_id* id, int timeout_ms);
int Listen(rdma_cm_id* id, int backlog);
__be16 GetSrcPort(rdma_cm_id* id);

// fake_verbs_cm_connect.cc
int Connect(rdma_cm_id* id, rdma_conn_param* param);
int Accept(rdma_cm_id* id, rdma_conn_param* param);
int Reject(rdma_cm_id* id, const void* private_data,
           uint8_t private_data_bytes);
int Disconnect(rdma_cm_id* id);

}  // namespace sluice::fake
