#include "transport/iwarp/device.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/check.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/completion.h"
#include "transport/iwarp/limits.h"
#include "transport/iwarp/qp.h"
#include "transport/iwarp/wait.h"

namespace sluice::iwarp {
namespace {

// No hardware: a locally administered EUI-64, the same in each process.
constexpr uint64_t kGuid = 0x0200'00ff'fe51'c1ce;
constexpr uint32_t kQpNumberMask = 0xffffff;
constexpr int kCompVectorsMax = 64;

ibv_mtu MtuEnum(int mtu) {
  if (mtu >= 4096) return IBV_MTU_4096;
  if (mtu >= 2048) return IBV_MTU_2048;
  if (mtu >= 1024) return IBV_MTU_1024;
  return mtu >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

// The largest of the interfaces that are up: this device uses them all.
int LargestMtu() {
  int largest = 0;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return largest;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    ifreq request = {};
    std::strncpy(request.ifr_name, entry->ifa_name, IFNAMSIZ - 1);
    if (ioctl(fd, SIOCGIFMTU, &request) == 0) {
      largest = std::max(largest, request.ifr_mtu);
    }
  }
  if (fd >= 0) close(fd);
  freeifaddrs(list);
  return largest;
}

int RefuseMw(ibv_mw* /*mw*/) { return EOPNOTSUPP; }
int RefuseBind(ibv_qp* /*qp*/, ibv_mw* /*mw*/, ibv_mw_bind* /*bind*/) {
  return EOPNOTSUPP;
}
ibv_mw* RefuseAlloc(ibv_pd* /*pd*/, ibv_mw_type /*type*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input*,
                  ibv_device_attr_ex* attr, size_t bytes) {
  std::memset(attr, 0, bytes);
  return QueryDevice(context, &attr->orig_attr);
}

int QueryPortEx(ibv_context* context, uint8_t port, ibv_port_attr* attr,
                size_t bytes) {
  ibv_port_attr all;
  const int error = QueryPort(context, port, &all);
  if (error == 0) std::memcpy(attr, &all, std::min(bytes, sizeof(all)));
  return error;
}

// Runs `use(object)` for the object that the event is about, if it is about one
// that waits for its acknowledgement.
template <typename Use>
void WithObject(const ibv_async_event& event, Use use) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      use(Cq::From(event.element.cq));
      return;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      use(Srq::From(event.element.srq));
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      use(Qp::From(event.element.qp));
      return;
    default:
      return;
  }
}

uint32_t* AckedEvents(Cq* cq) { return &cq->async_events_completed; }
uint32_t* AckedEvents(Srq* srq) { return &srq->events_completed; }
uint32_t* AckedEvents(Qp* qp) { return &qp->events_completed; }

// What the object's destruction waits to see acknowledged.
void CountDelivered(const ibv_async_event& event) {
  WithObject(event, [](auto* object) {
    pthread_mutex_lock(&object->mutex);
    ++object->delivered_async_events;
    pthread_mutex_unlock(&object->mutex);
  });
}

}  // namespace

Context::Context() : verbs_context() {
  sz = sizeof(verbs_context);
  query_port = &QueryPortEx;
  query_device_ex = &QueryDeviceEx;
  ibv_context& base = this->context;
  // What verbs.h takes for "the structure around this one is a verbs_context".
  base.abi_compat = reinterpret_cast<void*>(UINTPTR_MAX);
  base.device = Device::Get().verbs();
  base.cmd_fd = -1;
  base.async_fd = MakeWaitFd(async_events.fd());
  base.num_comp_vectors =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u,
                                  static_cast<unsigned>(kCompVectorsMax)));
  pthread_mutex_init(&base.mutex, nullptr);
  base.ops._compat_query_device = nullptr;
  base.ops.alloc_mw = &RefuseAlloc;
  base.ops.bind_mw = &RefuseBind;
  base.ops.dealloc_mw = &RefuseMw;
  base.ops.poll_cq = &PollCq;
  base.ops.req_notify_cq = &ReqNotifyCq;
  base.ops.post_srq_recv = &PostSrqRecv;
  base.ops.post_send = &PostSend;
  base.ops.post_recv = &PostRecv;
}

Context* Context::From(ibv_context* context) {
  // It is the last member of the verbs_context that is the first of ours.
  auto* at = reinterpret_cast<std::byte*>(context);
  auto* outer =
      reinterpret_cast<verbs_context*>(at - offsetof(verbs_context, context));
  return static_cast<Context*>(outer);
}

Device::Device() {
  device_.node_type = IBV_NODE_RNIC;
  device_.transport_type = IBV_TRANSPORT_IWARP;
  std::strncpy(device_.name, kDeviceName, sizeof(device_.name) - 1);
  std::strncpy(device_.dev_name, kDeviceName, sizeof(device_.dev_name) - 1);
  SLUICE_CHECK(getrandom(&next_qp_number_, sizeof(next_qp_number_), 0) ==
               sizeof(next_qp_number_));
}

// Never destroyed: threads may still be here when the process ends.
Device& Device::Get() {
  static Device* device = new Device;
  return *device;
}

Context* Device::shared_context() {
  const std::lock_guard lock(context_mutex_);
  if (context_ == nullptr) context_ = new Context;
  return context_;
}

uint32_t Device::AddQp(Qp* qp) {
  const std::lock_guard lock(qps_mutex_);
  do {
    next_qp_number_ = (next_qp_number_ + 1) & kQpNumberMask;
  } while (next_qp_number_ < 2 || qps_.contains(next_qp_number_));
  qps_[next_qp_number_] = qp;
  return next_qp_number_;
}

void Device::RemoveQp(uint32_t number) {
  const std::lock_guard lock(qps_mutex_);
  qps_.erase(number);
}

Qp* Device::FindQp(uint32_t number) {
  const std::lock_guard lock(qps_mutex_);
  const auto found = qps_.find(number);
  return found == qps_.end() ? nullptr : found->second;
}

void PushAsyncEvent(ibv_context* context, const ibv_async_event& event) {
  Context::From(context)->async_events.Push(event, /*quietly=*/false);
}

// --- calls ---

ibv_device** GetDeviceList(int* num_devices) {
  auto** list = new ibv_device* [2] { Device::Get().verbs(), nullptr };
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

void FreeDeviceList(ibv_device** list) { delete[] list; }

const char* GetDeviceName(ibv_device* device) { return device->name; }

__be64 GetDeviceGuid(ibv_device* /*device*/) {
  return __builtin_bswap64(kGuid);
}

ibv_context* OpenDevice(ibv_device* /*device*/) {
  auto* context = new Context;
  if (context->context.async_fd >= 0) return context->verbs();
  delete context;
  errno = EMFILE;
  return nullptr;
}

int CloseDevice(ibv_context* raw) {
  Context* context = Context::From(raw);
  if (context == Device::Get().shared_context()) return 0;
  close(raw->async_fd);
  pthread_mutex_destroy(&raw->mutex);
  delete context;
  return 0;
}

int QueryDevice(ibv_context* context, ibv_device_attr* attr) {
  std::memset(attr, 0, sizeof(*attr));
  std::strncpy(attr->fw_ver, SLUICE_VERSION, sizeof(attr->fw_ver) - 1);
  attr->node_guid = attr->sys_image_guid = GetDeviceGuid(context->device);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  attr->vendor_id = kVendorId;
  attr->vendor_part_id = 1;
  attr->hw_ver = 1;
  attr->max_qp = kQpMax;
  attr->max_qp_wr = kQpWrMax;
  attr->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attr->max_sge = kSgeMax;
  attr->max_sge_rd = kReadSgeMax;
  attr->max_cq = kCqMax;
  attr->max_cqe = kCqeMax;
  attr->max_mr = kMrMax;
  attr->max_pd = kPdMax;
  attr->max_qp_rd_atom = kReadDepthMax;
  attr->max_qp_init_rd_atom = kReadDepthMax;
  attr->max_res_rd_atom = INT32_MAX;
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_srq = kSrqMax;
  attr->max_srq_wr = kSrqWrMax;
  attr->max_srq_sge = kSgeMax;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
  return 0;
}

int QueryPort(ibv_context* /*context*/, uint8_t port, ibv_port_attr* attr) {
  if (port != 1) return EINVAL;
  std::memset(attr, 0, sizeof(*attr));
  const int mtu = LargestMtu();
  attr->state = mtu > 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = MtuEnum(mtu);
  attr->gid_tbl_len = 1;
  attr->pkey_tbl_len = 1;
  attr->max_msg_sz = kMessageBytesMax;
  attr->active_width = 1;
  attr->active_speed = 1;
  attr->phys_state = mtu > 0 ? 5 : 3;  // LinkUp, Disabled
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  std::memset(gid, 0, sizeof(*gid));
  gid->global.subnet_prefix = GetDeviceGuid(context->device);
  return 0;
}

int QueryPkey(ibv_context* /*context*/, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) return EINVAL;
  *pkey = 0xffff;
  return 0;
}

int GetAsyncEvent(ibv_context* raw, ibv_async_event* event) {
  Context* context = Context::From(raw);
  while (!context->async_events.Take(event, &CountDelivered)) {
    if (!WaitReadable(raw->async_fd, raw->async_fd)) return -1;
  }
  context->async_events.Announce(false);
  return 0;
}

void AckAsyncEvent(ibv_async_event* event) {
  WithObject(*event, [](auto* object) {
    pthread_mutex_lock(&object->mutex);
    ++*AckedEvents(object);
    pthread_cond_signal(&object->cond);
    pthread_mutex_unlock(&object->mutex);
  });
}

ibv_context** GetDevices(int* num_devices) {
  auto** list =
      new ibv_context* [2] { Device::Get().shared_context()->verbs(), nullptr };
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

void FreeDevices(ibv_context** list) { delete[] list; }

}  // namespace sluice::iwarp
