// libibverbs by its exported names, over the provider: every function that gets
// one of its objects, since the real library would take it for one of its own
// [iwarp §4.11, §6]. What only turns numbers into words is left to the library.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/iwarp/calls.h"

// verbs.h has macros of these names.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

template <typename T>
T* Refuse(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

using namespace sluice::iwarp;  // NOLINT: the provider's calls by other names

extern "C" {

// --- devices ---

ibv_device** ibv_get_device_list(int* num_devices) {
  return GetDeviceList(num_devices);
}
void ibv_free_device_list(ibv_device** list) { FreeDeviceList(list); }
const char* ibv_get_device_name(ibv_device* device) {
  return GetDeviceName(device);
}
int ibv_get_device_index(ibv_device* /*device*/) { return -1; }
__be64 ibv_get_device_guid(ibv_device* device) { return GetDeviceGuid(device); }
ibv_context* ibv_open_device(ibv_device* device) { return OpenDevice(device); }
int ibv_close_device(ibv_context* context) { return CloseDevice(context); }
ibv_context* ibv_import_device(int /*cmd_fd*/) {
  return Refuse<ibv_context>(EOPNOTSUPP);
}
int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return QueryDevice(context, attr);
}
// Programs of older headers come here, with a structure that ends before what
// was added since [iwarp §4.11].
int ibv_query_port(ibv_context* context, uint8_t port,
                   _compat_ibv_port_attr* attr) {
  constexpr size_t kOldBytes = 48;
  ibv_port_attr all;
  const int error = QueryPort(context, port, &all);
  if (error == 0) std::memcpy(static_cast<void*>(attr), &all, kOldBytes);
  return error;
}
int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  return QueryGid(context, port, index, gid);
}
int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                      ibv_gid_entry* entry, uint32_t /*flags*/,
                      size_t entry_bytes) {
  ibv_gid_entry all = {};
  if (port > UINT8_MAX || QueryGid(context, static_cast<uint8_t>(port),
                                   static_cast<int>(index), &all.gid) != 0) {
    return EINVAL;
  }
  all.gid_index = index;
  all.port_num = port;
  all.gid_type = IBV_GID_TYPE_IB;
  std::memcpy(entry, &all, std::min(entry_bytes, sizeof(all)));
  return 0;
}
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                             size_t entries_max, uint32_t flags,
                             size_t entry_bytes) {
  if (entries_max == 0) return 0;
  const int error =
      _ibv_query_gid_ex(context, 1, 0, entries, flags, entry_bytes);
  return error == 0 ? 1 : -error;
}
int ibv_query_gid_type(ibv_context* /*context*/, uint8_t /*port*/,
                       unsigned int /*index*/, unsigned int* type) {
  *type = 0;
  return 0;
}
int ibv_query_pkey(ibv_context* context, uint8_t port, int index,
                   __be16* pkey) {
  return QueryPkey(context, port, index, pkey);
}
int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  __be16 only;
  return QueryPkey(context, port, 0, &only) == 0 && only == pkey ? 0 : -1;
}
// There is nothing in sysfs.
int ibv_read_sysfs_file(const char* /*directory*/, const char* /*file*/,
                        char* /*text*/, size_t /*bytes*/) {
  errno = ENOENT;
  return -1;
}
int ibv_read_ibdev_sysfs_file(char* /*text*/, size_t /*bytes*/,
                              ibv_device* /*device*/, const char* /*format*/,
                              ...) {
  errno = ENOENT;
  return -1;
}
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return GetAsyncEvent(context, event);
}
void ibv_ack_async_event(ibv_async_event* event) { AckAsyncEvent(event); }
// Memory is not pinned: a child has its own, and must leave ours alone.
int ibv_fork_init() { return 0; }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

// --- memory ---

ibv_pd* ibv_alloc_pd(ibv_context* context) { return AllocPd(context); }
int ibv_dealloc_pd(ibv_pd* pd) { return DeallocPd(pd); }
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return RegMr(pd, address, length, access);
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                        int access) {
  return RegMrIova(pd, address, length, iova, access);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length,
                         uint64_t iova, unsigned int access) {
  return RegMrIova(pd, address, length, iova, static_cast<int>(access));
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* /*pd*/, uint64_t /*offset*/,
                          size_t /*length*/, uint64_t /*iova*/, int /*fd*/,
                          int /*access*/) {
  return Refuse<ibv_mr>(EOPNOTSUPP);
}
int ibv_rereg_mr(ibv_mr* /*mr*/, int /*flags*/, ibv_pd* /*pd*/,
                 void* /*address*/, size_t /*length*/, int /*access*/) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}
int ibv_dereg_mr(ibv_mr* mr) { return DeregMr(mr); }
ibv_pd* ibv_import_pd(ibv_context* /*context*/, uint32_t /*handle*/) {
  return Refuse<ibv_pd>(EOPNOTSUPP);
}
ibv_mr* ibv_import_mr(ibv_pd* /*pd*/, uint32_t /*handle*/) {
  return Refuse<ibv_mr>(EOPNOTSUPP);
}

// --- completions ---

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return CreateCompChannel(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return DestroyCompChannel(channel);
}
ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                      ibv_comp_channel* channel, int comp_vector) {
  return CreateCq(context, cqe, cq_context, channel, comp_vector);
}
int ibv_resize_cq(ibv_cq* /*cq*/, int /*cqe*/) { return EOPNOTSUPP; }
int ibv_destroy_cq(ibv_cq* cq) { return DestroyCq(cq); }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq,
                     void** cq_context) {
  return GetCqEvent(channel, cq, cq_context);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  AckCqEvents(cq, count);
}

// --- queue pairs ---

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return CreateQp(pd, attr);
}
int ibv_destroy_qp(ibv_qp* qp) { return DestroyQp(qp); }
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  return ModifyQp(qp, attr, attr_mask);
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
                 ibv_qp_init_attr* init_attr) {
  return QueryQp(qp, attr, attr_mask, init_attr);
}
int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*opcode*/,
                               uint32_t /*flags*/) {
  return 0;
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* /*qp*/) { return nullptr; }
int ibv_query_ece(ibv_qp* /*qp*/, ibv_ece* /*ece*/) { return EOPNOTSUPP; }
int ibv_set_ece(ibv_qp* /*qp*/, ibv_ece* /*ece*/) { return EOPNOTSUPP; }
ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return CreateSrq(pd, attr);
}
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask) {
  return ModifySrq(srq, attr, attr_mask);
}
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return QuerySrq(srq, attr);
}
int ibv_destroy_srq(ibv_srq* srq) { return DestroySrq(srq); }

// --- what iWARP has not ---

ibv_ah* ibv_create_ah(ibv_pd* /*pd*/, ibv_ah_attr* /*attr*/) {
  return Refuse<ibv_ah>(EOPNOTSUPP);
}
int ibv_init_ah_from_wc(ibv_context* /*context*/, uint8_t /*port*/,
                        ibv_wc* /*wc*/, ibv_grh* /*grh*/,
                        ibv_ah_attr* /*attr*/) {
  return EOPNOTSUPP;
}
ibv_ah* ibv_create_ah_from_wc(ibv_pd* /*pd*/, ibv_wc* /*wc*/, ibv_grh* /*grh*/,
                              uint8_t /*port*/) {
  return Refuse<ibv_ah>(EOPNOTSUPP);
}
int ibv_destroy_ah(ibv_ah* /*ah*/) { return EOPNOTSUPP; }
int ibv_attach_mcast(ibv_qp* /*qp*/, const ibv_gid* /*gid*/, uint16_t /*lid*/) {
  return EOPNOTSUPP;
}
int ibv_detach_mcast(ibv_qp* /*qp*/, const ibv_gid* /*gid*/, uint16_t /*lid*/) {
  return EOPNOTSUPP;
}

}  // extern "C"
