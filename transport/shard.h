// The transport of one reactor: its CQ engine, data extents, connection
// manager channel and devices. The connection manager hands it new
// connections; it keeps each until it dies.
//
// Home: its reactor.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/message.h"
#include "core/reactor.h"
#include "nvme/private_data.h"
#include "transport/cm_channel.h"
#include "transport/cq_engine.h"
#include "transport/local_device.h"
#include "transport/peer_advice.h"
#include "transport/queue_pair.h"

namespace sluice::transport {

class ConnectionManager;
class Shard;

struct ShardOptions {
  size_t pool_bytes = size_t{32} << 20;  // data extents of this reactor
  uint32_t cq_depth_factor = 4;
  uint32_t in_capsule_bytes = 4096;
  uint32_t inline_bytes = 16;  // QueuePairOptions, both
  uint32_t signal_every = 16;
  CqEngineOptions engine;
  LocalDeviceOptions device;
};

// A connection from its request to its end; counted by the connection manager.
// Travels to the shard and comes back when the queue pair is gone.
struct Ticket : Message {
  ConnectionManager* manager = nullptr;
  Shard* shard = nullptr;
  size_t shard_index = 0;  // in the manager's list
  rdma_cm_id* id = nullptr;
  nvme::ConnectRequest request;
  uint32_t read_depth = 1;   // RDMA READs the host lets us have in flight
  sockaddr_storage local{};  // the address the host connected to
  sockaddr_storage peer{};
  uint32_t share = 0;                // CQ entries, as the manager reckoned
  bool rejected = false;             // by the shard: no resources
  Halvings halvings;                 // as advised for this peer
  Trouble trouble = Trouble::kNone;  // of the queue pair
};

// Who takes a connection over: the target.
class ConnectionTaker {
 public:
  virtual ~ConnectionTaker() = default;
  // On the shard's reactor. Takes the queue pair, whose handler it has set when
  // it returns; the accept follows.
  virtual void OnConnection(Shard* shard, std::unique_ptr<QueuePair> qp,
                            const Ticket& ticket) = 0;
};

class Shard {
 public:
  // On the reactor's thread.
  static absl::StatusOr<std::unique_ptr<Shard>> Create(
      Reactor* reactor, const VerbsApi& api, const ShardOptions& options,
      ConnectionTaker* taker);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Opens the channel to the connection manager: again after a device went.
  absl::Status OpenChannel();
  void CloseChannel() { channel_.reset(); }

  // Makes the device usable here, if it is not yet. May block.
  absl::Status AddDevice(ibv_context* context, const DeviceTraits& traits);
  // Breaks the connections on the device.
  void BreakDevice(ibv_context* context, const char* why);
  // Forgets the device when no queue pair is left on it; false while there is.
  bool RemoveDevice(ibv_context* context);

  // Accepts the connection or rejects it; the ticket goes back either way.
  void Accept(Ticket* ticket);
  // Called by the owner of the queue pair when it has been destroyed.
  static void Return(Ticket* ticket);

  // The device said so about one of its objects; whose it is is looked up.
  void OnCqError(const ibv_cq* cq);
  void OnQpError(const ibv_qp* qp, const char* what);

  Reactor* reactor() const { return reactor_; }
  CqEngine* engine() { return &engine_; }
  ExtentPool* extents() { return extents_.get(); }
  const ShardOptions& options() const { return options_; }
  const std::vector<std::unique_ptr<LocalDevice>>& devices() const {
    return devices_;
  }

 private:
  Shard(Reactor* reactor, const VerbsApi& api, const ShardOptions& options,
        ConnectionTaker* taker)
      : reactor_(reactor),
        api_(api),
        options_(options),
        taker_(taker),
        engine_(reactor, options.engine) {}
  LocalDevice* Find(const ibv_context* context) const;
  void RejectNoResources(Ticket* ticket);

  Reactor* const reactor_;
  const VerbsApi& api_;
  const ShardOptions options_;
  ConnectionTaker* const taker_;
  CqEngine engine_;
  std::unique_ptr<ExtentPool> extents_;
  std::unique_ptr<CmChannel> channel_;
  std::vector<std::unique_ptr<LocalDevice>> devices_;
};

}  // namespace sluice::transport
