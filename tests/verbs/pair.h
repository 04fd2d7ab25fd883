// Two endpoints in this process, connected through the connection manager.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/verbs/endpoint.h"
#include "tests/verbs/events.h"

namespace sluice::verbs {

// An id that listens on the suite's address, on a port that it was given.
class Listener {
 public:
  explicit Listener(CmEvents* events, int backlog = 16,
                    const std::string& address = Flags().address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  rdma_cm_id* id = nullptr;
  uint16_t port = 0;
};

// A new id with address and route of that port; null after a failure.
rdma_cm_id* Dial(CmEvents* events, uint16_t port,
                 const std::string& address = Flags().address);

// READs in flight, as rdma_conn_param has them.
struct Depths {
  uint8_t initiator_depth = 8;
  uint8_t responder_resources = 8;
};
rdma_conn_param Param(const Depths& depths, const Bytes& private_data = {});

struct PairOptions {
  EndpointOptions active;
  EndpointOptions passive;
  Depths active_depths;
  Depths passive_depths;
  bool connect = true;
  // The active side has sent something: on iWARP the passive one may not
  // before [iwarp §1.4].
  bool greet = true;

  // Changes both sides.
  template <typename Change>
  PairOptions& Both(Change change) {
    change(&active);
    change(&passive);
    return *this;
  }
};

class Pair {
 public:
  explicit Pair(const PairOptions& options = {});

  // Everything was made, and connected, as the options say.
  bool ok() const { return ok_; }
  // Greets once more: what was sent before has arrived then.
  bool Greet();
  // Both sides know that it is over. The one that is told first disconnects,
  // too: InfiniBand's connection manager tells the other one then.
  bool WaitDisconnected();

  AsyncEvents async;
  CmEvents active_events;
  CmEvents passive_events;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Endpoint> passive;
  std::unique_ptr<Endpoint> active;
  CmSeen request;      // what the passive side was asked
  CmSeen established;  // what the active side was told

 private:
  bool Make(const PairOptions& options);
  bool Connect(const PairOptions& options);

  bool ok_ = false;
};

}  // namespace sluice::verbs
