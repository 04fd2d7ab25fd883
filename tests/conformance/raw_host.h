// Who connects to what: the values that every queue of a raw host shares.
#pragma once

#include <cstdint>
#include <string>

#include "nvme/connect.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::conformance {

struct RawHost {
  const VerbsApi* api = nullptr;
  std::string address;
  uint16_t port = 4420;
  std::string subnqn;
  std::string hostnqn;
  nvme::HostId hostid{};
};

// A host NQN and id that nobody else uses; the rest is the arguments'.
RawHost MakeHost(const VerbsApi& api, const std::string& address, uint16_t port,
                 const std::string& nqn);

}  // namespace sluice::conformance
