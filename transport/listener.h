// A listening id and a device of the connection manager. Private to it.
#pragma once

#include "transport/connection_manager.h"

namespace sluice::transport {

class ConnectionManager::Listener final : public CmSink {
 public:
  Listener(ConnectionManager* manager, ListenAddress where)
      : address(std::move(where)), manager_(manager) {}

  void OnCmEvent(const rdma_cm_event& event) override;

  // Listens on every device.
  bool wildcard() const { return id != nullptr && id->verbs == nullptr; }

  ListenAddress address;
  rdma_cm_id* id = nullptr;

 private:
  ConnectionManager* const manager_;
};

class ConnectionManager::Device {
 public:
  Device(ConnectionManager* owner, ibv_context* verbs, DeviceTraits known)
      : manager(owner), context(verbs), traits(std::move(known)) {}

  ConnectionManager* const manager;
  ibv_context* const context;
  const DeviceTraits traits;
  FdWatch* watch = nullptr;  // of asynchronous events
  bool removing = false;
};

}  // namespace sluice::transport
