// Devices, their contexts and their asynchronous events.
#include <cstdint>
#include <cstring>
#include <limits>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

// A count kept in the object the event is about; null for a port or device.
unsigned int* UnackedCount(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &Cq::From(event.element.cq)->unacked_async_events;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_ACCESS_ERR:
      return &Qp::From(event.element.qp)->unacked_async_events;
    default:
      return nullptr;
  }
}

Fabric* FabricOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return Context::From(event.element.cq->context)->fabric;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_ACCESS_ERR:
      return Qp::From(event.element.qp)->fabric;
    default:
      return CurrentFabric();
  }
}

// A null-terminated array, as both lists are.
template <typename T, typename Get>
T** MakeList(const Fabric& fabric, int* count, Get get) {
  auto** list = new T*[fabric.devices.size() + 1]();
  int found = 0;
  for (const auto& device : fabric.devices) {
    if (device->present != nullptr) list[found++] = get(device->present);
  }
  if (count != nullptr) *count = found;
  return list;
}

}  // namespace

Context::Context(Fabric* owner, Device* of_device)
    : verbs_context{}, fabric(owner), device(of_device) {
  const bool iwarp = options().iwarp;
  device_storage.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  device_storage.transport_type =
      iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  std::strncpy(device_storage.name, device->name.c_str(),
               sizeof(device_storage.name) - 1);
  std::strncpy(device_storage.dev_name, device->name.c_str(),
               sizeof(device_storage.dev_name) - 1);

  sz = sizeof(verbs_context);
  // What marks the context as one inside a verbs_context.
  this->context.abi_compat =
      reinterpret_cast<void*>(std::numeric_limits<uintptr_t>::max());
  this->context.device = &device_storage;
  this->context.cmd_fd = -1;
  this->context.async_fd = async_events.fd();
  this->context.num_comp_vectors = options().comp_vectors;
  this->context.ops.poll_cq = &PollCq;
  this->context.ops.req_notify_cq = &ReqNotifyCq;
  this->context.ops.post_send = &PostSend;
  this->context.ops.post_recv = &PostRecv;
}

Context* Context::From(ibv_context* context) {
  auto* address =
      reinterpret_cast<char*>(context) - offsetof(verbs_context, context);
  return static_cast<Context*>(reinterpret_cast<verbs_context*>(address));
}

void AddContext(Fabric* fabric, Device* device) {
  SLUICE_CHECK(device->present == nullptr);
  device->contexts.push_back(std::make_unique<Context>(fabric, device));
  device->present = device->contexts.back().get();
}

void PushAsyncEvent(Context* context, const ibv_async_event& event) {
  context->async_events.Push(event);
}

ibv_device** GetDeviceList(int* num_devices) {
  Fabric* fabric = CurrentFabric();
  std::lock_guard lock(fabric->mutex);
  return MakeList<ibv_device>(*fabric, num_devices, [](Context* context) {
    return &context->device_storage;
  });
}

void FreeDeviceList(ibv_device** list) { delete[] list; }

const char* GetDeviceName(ibv_device* device) { return device->name; }

ibv_context** GetDevices(int* num_devices) {
  Fabric* fabric = CurrentFabric();
  std::lock_guard lock(fabric->mutex);
  if (fabric->devices.empty()) return NullResult(ENODEV);
  return MakeList<ibv_context>(
      *fabric, num_devices, [](Context* context) { return context->verbs(); });
}

void FreeDevices(ibv_context** list) { delete[] list; }

int QueryDevice(ibv_context* raw, ibv_device_attr* attr) {
  const Context* context = Context::From(raw);
  const std::lock_guard lock(context->fabric->mutex);
  if (context->removed) return EIO;
  const FakeDeviceOptions& options = context->options();
  *attr = {};
  std::strncpy(attr->fw_ver, "0", sizeof(attr->fw_ver) - 1);
  attr->max_mr_size = std::numeric_limits<uint64_t>::max();
  attr->page_size_cap = 4096;
  attr->max_qp = 65536;
  attr->max_qp_wr = options.max_qp_wr;
  if (options.mem_mgt_extensions) {
    attr->device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS;
  }
  attr->vendor_id = options.vendor_id;
  attr->max_sge = options.max_sge;
  attr->max_sge_rd = options.max_sge_rd;
  attr->max_cq = 65536;
  attr->max_cqe = options.max_cqe;
  attr->max_mr = 65536;
  attr->max_pd = 65536;
  attr->max_qp_rd_atom = options.max_qp_rd_atom;
  attr->max_res_rd_atom = options.max_qp_rd_atom * attr->max_qp;
  attr->max_qp_init_rd_atom = options.max_qp_init_rd_atom;
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
  return 0;
}

int QueryPort(ibv_context* raw, uint8_t port, ibv_port_attr* attr) {
  const Context* context = Context::From(raw);
  const std::lock_guard lock(context->fabric->mutex);
  if (context->removed) return EIO;
  if (port != 1) return EINVAL;
  *attr = {};
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = IBV_MTU_1024;
  attr->gid_tbl_len = 1;
  attr->max_msg_sz = 1U << 31;
  attr->pkey_tbl_len = 1;
  attr->active_width = 1;
  attr->active_speed = 1;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int GetAsyncEvent(ibv_context* raw, ibv_async_event* event) {
  Context* context = Context::From(raw);
  std::unique_lock lock(context->fabric->mutex);
  const int error = context->async_events.Take(&lock, event);
  if (error != 0) return CmResult(error);
  unsigned int* count = UnackedCount(*event);
  if (count != nullptr) ++*count;
  ++context->fabric->unacked_events;
  return 0;
}

void AckAsyncEvent(ibv_async_event* event) {
  Fabric* fabric = FabricOf(*event);
  const std::lock_guard lock(fabric->mutex);
  unsigned int* count = UnackedCount(*event);
  if (count != nullptr) {
    SLUICE_CHECK(*count > 0);
    --*count;
  }
  SLUICE_CHECK(fabric->unacked_events > 0);
  --fabric->unacked_events;
}

}  // namespace sluice::fake
