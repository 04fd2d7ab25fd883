// Asynchronous events of devices, their removal and their return: the slow
// half of the connection manager.
#include <algorithm>
#include <cerrno>

#include "core/async.h"
#include "core/check.h"
#include "core/fd.h"
#include "core/log.h"
#include "transport/listener.h"

namespace sluice::transport {
namespace {

// How long a device's connections may take to be torn down, in steps.
constexpr absl::Duration kRemovalStep = absl::Milliseconds(20);

// A word to a shard about an object of the device. Frees itself.
struct ObjectError : Message {
  Shard* shard = nullptr;
  const ibv_cq* cq = nullptr;
  const ibv_qp* qp = nullptr;
  ibv_context* context = nullptr;
  const char* what = "";

  static void Run(Message* message) {
    std::unique_ptr<ObjectError> self(static_cast<ObjectError*>(message));
    if (self->cq != nullptr) self->shard->OnCqError(self->cq);
    if (self->qp != nullptr) self->shard->OnQpError(self->qp, self->what);
    if (self->context != nullptr) {
      self->shard->BreakDevice(self->context, self->what);
    }
  }
};

void Tell(const std::vector<Shard*>& shards, const ObjectError& error) {
  for (Shard* shard : shards) {
    auto* message = new ObjectError(error);
    message->shard = shard;
    message->run = &ObjectError::Run;
    shard->reactor()->Post(message);
  }
}

}  // namespace

void ConnectionManager::OnAsyncEvent(void* context) {
  auto* device = static_cast<Device*>(context);
  ConnectionManager* self = device->manager;
  // librdmacm opened the context, with reads that wait.
  if (!SetNonBlocking(device->context->async_fd).ok()) return;
  ibv_async_event event;
  while (self->api_.get_async_event(device->context, &event) == 0) {
    const ibv_async_event copy = event;
    // First, since destroying the object waits for it; pointers are only
    // compared from here on.
    self->api_.ack_async_event(&event);
    self->HandleAsyncEvent(device, copy);
  }
}

void ConnectionManager::HandleAsyncEvent(Device* device,
                                         const ibv_async_event& event) {
  ObjectError error;
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      ++stats_.cq_errors;
      error.cq = event.element.cq;
      Tell(shards_, error);
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      ++stats_.queue_pair_errors;
      error.qp = event.element.qp;
      error.what = "queue pair error event";
      Tell(shards_, error);
      return;
    case IBV_EVENT_DEVICE_FATAL:
      ++stats_.device_failures;
      SLUICE_LOG(kError) << "device failed"
                         << KV("device", device->traits.name);
      OnDeviceRemoved(device->context);
      return;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      SLUICE_LOG(kInfo) << "port "
                        << (event.event_type == IBV_EVENT_PORT_ERR ? "down"
                                                                   : "up")
                        << KV("device", device->traits.name)
                        << KV("port", event.element.port_num);
      return;
    default:
      SLUICE_LOG(kDebug) << "device event" << KV("device", device->traits.name)
                         << KV("type", static_cast<int>(event.event_type));
      return;
  }
}

void ConnectionManager::OnListenerLost(Listener* listener) {
  ibv_context* context = listener->id->verbs;
  SLUICE_LOG(kWarning) << "listener lost, waiting for its device"
                       << KV("address", listener->address.ToString());
  api_.destroy_id(listener->id);
  listener->id = nullptr;
  if (context != nullptr) OnDeviceRemoved(context);
  scope_.Spawn(Reopen(listener));
}

void ConnectionManager::OnDeviceRemoved(ibv_context* context) {
  for (const auto& device : devices_) {
    if (device->context != context || device->removing) continue;
    device->removing = true;
    ++stats_.device_removals;
    scope_.Spawn(RemoveDevice(device.get()));
    break;
  }
  // A wildcard listener hears nothing of it, and must find the device again.
  for (const auto& listener : listeners_) {
    if (listener->wildcard()) OnListenerLost(listener.get());
  }
}

// Tears everything on the device down, then lets librdmacm go of it.
Task<void> ConnectionManager::RemoveDevice(Device* device) {
  const std::string name = device->traits.name;
  ibv_context* context = device->context;
  reactor_->ring()->Unwatch(device->watch);
  ObjectError error;
  error.context = context;
  error.what = "the device was removed";
  Tell(shards_, error);
  for (Shard* shard : shards_) {
    bool removed = false;
    while (!removed) {
      const auto remove = [shard, context] {
        return shard->RemoveDevice(context);
      };
      CallOn call(shard->reactor(), remove);
      removed = co_await call;
      if (removed) break;
      SleepFor pause(reactor_, kRemovalStep);
      co_await pause;
    }
  }
  devices_.erase(std::find_if(
      devices_.begin(), devices_.end(),
      [device](const auto& entry) { return entry.get() == device; }));
  SLUICE_LOG(kWarning) << "device gone" << KV("device", name);
  // librdmacm keeps a context of its own open, and drops it when its list of
  // devices is read again; with no other device left it never does.
  int count = 0;
  ibv_context** list = api_.get_devices(&count);
  if (list != nullptr) api_.free_devices(list);
  if (devices_.empty() && count == 0) owner_->OnDeviceStuck(name);
}

Task<void> ConnectionManager::Reopen(Listener* listener) {
  while (!closing_) {
    SleepFor pause(reactor_, options_.retry);
    co_await pause;
    if (closing_) break;
    absl::Status status = OpenListener(listener);
    if (!status.ok()) continue;
    status = co_await AddDevicesOf(listener);
    if (status.ok()) {
      SLUICE_LOG(kInfo) << "listening again"
                        << KV("address", listener->address.ToString());
      break;
    }
    SLUICE_LOG(kWarning) << "listener not ready" << KV("why", status.message());
    api_.destroy_id(listener->id);
    listener->id = nullptr;
  }
}

}  // namespace sluice::transport
