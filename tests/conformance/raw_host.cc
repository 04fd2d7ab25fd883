#include "tests/conformance/raw_host.h"

#include <cstddef>

namespace sluice::conformance {

RawHost MakeHost(const VerbsApi& api, const std::string& address, uint16_t port,
                 const std::string& nqn) {
  RawHost host;
  host.api = &api;
  host.address = address;
  host.port = port;
  host.subnqn = nqn;
  host.hostnqn =
      "nqn.2014-08.org.nvmexpress:uuid:5108c35e-c0f0-4a57-9d1e-0123456789ab";
  for (size_t i = 0; i < host.hostid.size(); ++i) {
    host.hostid[i] = static_cast<std::byte>(0x51 + i);
  }
  return host;
}

}  // namespace sluice::conformance
