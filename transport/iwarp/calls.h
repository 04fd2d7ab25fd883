// The provider's functions, with the signatures of libibverbs and librdmacm.
// table.cc makes VerbsApi::Iwarp() of some, the preload library exports all.
// Errors are reported as there: a null pointer or -1 with errno set, or the
// errno returned. What takes a handle takes only this provider's.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

namespace sluice::iwarp {

// --- device.cc ---
ibv_device** GetDeviceList(int* num_devices);
void FreeDeviceList(ibv_device** list);
const char* GetDeviceName(ibv_device* device);
__be64 GetDeviceGuid(ibv_device* device);
ibv_context* OpenDevice(ibv_device* device);
int CloseDevice(ibv_context* context);
int QueryDevice(ibv_context* context, ibv_device_attr* attr);
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr);
int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
int QueryPkey(ibv_context* context, uint8_t port, int index, __be16* pkey);
int GetAsyncEvent(ibv_context* context, ibv_async_event* event);
void AckAsyncEvent(ibv_async_event* event);
ibv_context** GetDevices(int* num_devices);
void FreeDevices(ibv_context** list);

// --- memory_calls.cc ---
ibv_pd* AllocPd(ibv_context* context);
int DeallocPd(ibv_pd* pd);
ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length, int access);
ibv_mr* RegMrIova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                  int access);
int DeregMr(ibv_mr* mr);

// --- cq_calls.cc ---
ibv_comp_channel* CreateCompChannel(ibv_context* context);
int DestroyCompChannel(ibv_comp_channel* channel);
ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector);
int DestroyCq(ibv_cq* cq);
int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void AckCqEvents(ibv_cq* cq, unsigned int count);
int PollCq(ibv_cq* cq, int num_entries, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);

// --- qp_calls.cc, qp_post.cc ---
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr);
int DestroyQp(ibv_qp* qp);
int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
            ibv_qp_init_attr* init_attr);
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// --- srq.cc ---
ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
int DestroySrq(ibv_srq* srq);
int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

// --- cm_channel.cc, cm_event.cc ---
rdma_event_channel* CreateEventChannel();
void DestroyEventChannel(rdma_event_channel* channel);
int GetCmEvent(rdma_event_channel* channel, rdma_cm_event** event);
int AckCmEvent(rdma_cm_event* event);

// --- cm_id.cc ---
int CreateId(rdma_event_channel* channel, rdma_cm_id** id, void* context,
             rdma_port_space port_space);
int DestroyId(rdma_cm_id* id);
int SetOption(rdma_cm_id* id, int level, int name, void* value,
              size_t value_bytes);
int BindAddr(rdma_cm_id* id, sockaddr* address);
int ResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                int timeout_ms);
int ResolveRoute(rdma_cm_id* id, int timeout_ms);
int CmCreateQp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr);
void CmDestroyQp(rdma_cm_id* id);
int MigrateId(rdma_cm_id* id, rdma_event_channel* channel);
__be16 GetSrcPort(rdma_cm_id* id);
__be16 GetDstPort(rdma_cm_id* id);

// --- cm_connect.cc, cm_listen.cc ---
int Connect(rdma_cm_id* id, rdma_conn_param* param);
int Listen(rdma_cm_id* id, int backlog);
int Accept(rdma_cm_id* id, rdma_conn_param* param);
int Reject(rdma_cm_id* id, const void* private_data,
           uint8_t private_data_bytes);
int CmDisconnect(rdma_cm_id* id);

// --- cm_sync.cc: what the preload library exports besides ---
int CreateEp(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
             ibv_qp_init_attr* attr);
void DestroyEp(rdma_cm_id* id);
int GetRequest(rdma_cm_id* listener, rdma_cm_id** id);
int GetAddrInfo(const char* node, const char* service,
                const rdma_addrinfo* hints, rdma_addrinfo** info);
void FreeAddrInfo(rdma_addrinfo* info);
int InitQpAttr(rdma_cm_id* id, ibv_qp_attr* attr, int* attr_mask);

}  // namespace sluice::iwarp
