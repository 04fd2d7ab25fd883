// Listens, checks connection requests and spreads them over the shards. Knows
// the devices, their asynchronous events, their going and their coming back.
//
// Home: the control reactor. Bound: `queues_max` connections in the process;
// the listener's reactor only picks, the work is the shard's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "transport/listen_address.h"
#include "transport/shard.h"

namespace sluice::transport {

struct ConnectionManagerOptions {
  uint32_t queues_max = 4096;   // queue pairs of the process
  uint32_t io_depth_max = 128;  // MQES + 1
  uint32_t admin_depth_max = 128;
  uint16_t qid_max = 1024;
  int backlog = 128;
  // How often a lost listener is tried again.
  absl::Duration retry = absl::Milliseconds(500);
};

// What the manager asks of, and tells, the one above it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  // Whether `cntlid` of a request is a controller here [spec §1.7]; 0 never
  // asks.
  virtual bool KnowsController(uint16_t cntlid) = 0;
  // A device went and nothing else may let go of it but a new process.
  virtual void OnDeviceStuck(const std::string& device) = 0;
};

struct ConnectionStats {
  uint64_t requests = 0;
  uint64_t accepted = 0;      // handed to a shard
  uint64_t rejected = 0;      // for what they asked
  uint64_t no_resources = 0;  // rejected for want of room
  uint64_t closed = 0;
  uint64_t device_removals = 0;
  uint64_t device_failures = 0;  // fatal events
  uint64_t cq_errors = 0;        // asynchronous events, both
  uint64_t queue_pair_errors = 0;
  uint64_t adapted = 0;  // accepted with less, for the peer's earlier trouble
};

class ConnectionManager {
 public:
  ConnectionManager(Reactor* reactor, const VerbsApi& api,
                    const ConnectionManagerOptions& options,
                    std::vector<Shard*> shards, ConnectionOwner* owner);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  Reactor* reactor() const { return reactor_; }

  // Opens the channels. NotFound: no RDMA device here.
  absl::Status Open();
  // Listens and makes the address's devices ready on every shard; `address`
  // gets the port chosen. When it returns, a host can connect. Suspends.
  // Errors name the address and say what to do.
  Task<absl::Status> Listen(ListenAddress* address);
  // Until StartAccepting and after StopAccepting connections are rejected.
  void StartAccepting() { accepting_ = true; }
  void StopAccepting() { accepting_ = false; }
  // Closes listeners, devices and channels. All connections must be gone.
  Task<void> Close();

  uint32_t connections() const { return connections_; }
  const ConnectionStats& stats() const { return stats_; }
  const std::vector<ListenAddress>& addresses() const { return addresses_; }

  // A connection's end, from its shard.
  static void OnTicketBack(Message* message);

 private:
  class Listener;
  class Device;

  void OnRequest(const rdma_cm_event& event);
  void Adapt(Ticket* ticket);
  void NoteTrouble(const Ticket& ticket);
  nvme::RejectReason Check(const rdma_cm_event& event,
                           nvme::ConnectRequest* request);
  size_t PickShard() const;
  Task<absl::Status> AddDevice(ibv_context* context);
  Task<absl::Status> AddDevicesOf(Listener* listener);
  // Opens the listener's id. Errors as Listen.
  absl::Status OpenListener(Listener* listener);
  void OnListenerLost(Listener* listener);
  void OnDeviceRemoved(ibv_context* context);
  Task<void> RemoveDevice(Device* device);
  Task<void> Reopen(Listener* listener);
  static void OnAsyncEvent(void* context);
  void HandleAsyncEvent(Device* device, const ibv_async_event& event);

  Reactor* const reactor_;
  const VerbsApi& api_;
  const ConnectionManagerOptions options_;
  const std::vector<Shard*> shards_;
  ConnectionOwner* const owner_;
  std::unique_ptr<CmChannel> channel_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<ListenAddress> addresses_;
  std::vector<uint64_t> shares_;  // CQ entries handed out, per shard
  uint32_t connections_ = 0;
  bool accepting_ = false;
  bool closing_ = false;
  Scope scope_;
  PeerAdvice advice_;
  ConnectionStats stats_;
};

}  // namespace sluice::transport
