#include "target/discovery.h"

#include <netinet/in.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "nvme/nqn.h"
#include "transport/listen_address.h"

namespace sluice::target {
namespace {

using nvme::DiscoveryEntry;
using transport::ListenAddress;

// As nvmet: a host may do without SQ flow control on any queue.
constexpr uint8_t kTreq =
    nvme::kTreqSecureNotRequired | nvme::kTreqDisableFlowControl;
// All ways to reach this service give the same log, and it may stay connected:
// Keep Alive and the event of log 70h are served.
constexpr uint16_t kSelfEflags =
    nvme::kEflagsDuplicate | nvme::kEflagsPersistent;

bool IsWildcard(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof(v6));
    return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
  }
  sockaddr_in v4;
  std::memcpy(&v4, &address, sizeof(v4));
  return v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

nvme::AddressFamily FamilyOf(const ListenAddress& address) {
  return address.address.ss_family == AF_INET6 ? nvme::AddressFamily::kIpv6
                                               : nvme::AddressFamily::kIpv4;
}

// Where `host`, whose own way here was `local`, reaches the listener. False:
// it listens on every address of a family in which we know of none.
bool Reachable(const ListenAddress& listener, const sockaddr_storage& local,
               ListenAddress* out) {
  *out = listener;
  if (!IsWildcard(listener.address)) return true;
  if (listener.address.ss_family != local.ss_family) return false;
  out->address = local;
  out->set_port(listener.port());
  return true;
}

// Listeners are numbered from 1 in their order.
uint16_t PortId(size_t index) { return static_cast<uint16_t>(index + 1); }

// That of the listener by which the host came; 0 when it cannot be said.
uint16_t PortIdOf(const TargetShared& shared, const ListenAddress& local) {
  for (size_t i = 0; i < shared.addresses.size(); ++i) {
    ListenAddress reached;
    if (!Reachable(shared.addresses[i], local.address, &reached)) continue;
    if (reached.port() != local.port()) continue;
    if (transport::AddressText(reached.address) ==
        transport::AddressText(local.address)) {
      return PortId(i);
    }
  }
  return 0;
}

DiscoveryEntry MakeEntry(const ListenAddress& address, uint16_t port_id,
                         absl::string_view subnqn) {
  DiscoveryEntry entry;
  entry.family = FamilyOf(address);
  entry.treq = kTreq;
  entry.port_id = port_id;
  entry.service = absl::StrCat(address.port());
  entry.subnqn = std::string(subnqn);
  entry.address = transport::AddressText(address.address);
  return entry;
}

DiscoveryEntry SelfEntry(const TargetShared& shared,
                         const ControllerInfo& info) {
  ListenAddress local;
  local.address = info.local;
  DiscoveryEntry entry =
      MakeEntry(local, PortIdOf(shared, local), info.subsystem->nqn().view());
  entry.subtype = nvme::SubsystemType::kCurrentDiscovery;
  entry.eflags = kSelfEflags;
  return entry;
}

}  // namespace

std::vector<DiscoveryEntry> DiscoveryEntries(const TargetShared& shared,
                                             const ControllerInfo& info) {
  std::vector<DiscoveryEntry> entries = {SelfEntry(shared, info)};
  for (size_t i = 0; i < shared.addresses.size(); ++i) {
    ListenAddress address;
    if (!Reachable(shared.addresses[i], info.local, &address)) continue;
    for (const auto& subsystem : shared.subsystems) {
      if (subsystem->discovery()) continue;
      if (!subsystem->HostAllowed(info.hostnqn)) continue;
      entries.push_back(MakeEntry(address, PortId(i), subsystem->nqn().view()));
    }
  }
  return entries;
}

std::vector<std::byte> DiscoveryLog(const TargetShared& shared,
                                    const ControllerInfo& info) {
  return nvme::BuildDiscoveryLog(shared.discovery_generation,
                                 DiscoveryEntries(shared, info));
}

}  // namespace sluice::target
