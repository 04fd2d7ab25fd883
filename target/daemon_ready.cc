#include "target/daemon_ready.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice::target {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  while (!error && it != fs::directory_iterator()) {
    entries.push_back(it->path());
    it.increment(error);
  }
  return entries;
}

// Network interfaces under the RDMA devices, as far as sysfs tells.
std::set<std::string> RdmaInterfaces() {
  std::set<std::string> names;
  for (const fs::path& device : EntriesOf("/sys/class/infiniband")) {
    for (const fs::path& port : EntriesOf(device / "ports")) {
      for (const fs::path& gid : EntriesOf(port / "gid_attrs" / "ndevs")) {
        std::ifstream file(gid);
        std::string name;
        if (file >> name) names.insert(name);
      }
    }
  }
  return names;
}

// Text of an address that a host could reach, empty for others.
std::string UsableText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    const bool link_local = v6->sin6_addr.s6_addr[0] == 0xFE &&
                            (v6->sin6_addr.s6_addr[1] & 0xC0) == 0x80;
    if (!link_local) inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  }
  return text;
}

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

// What a host gives nvme connect as -a.
std::string ConnectHost(const transport::ListenAddress& address,
                        const LocalHosts& local) {
  std::string host = transport::AddressText(address.address);
  if (IsWildcard(host)) {
    const bool is_v6 = address.address.ss_family == AF_INET6;
    const std::string& found = is_v6 ? local.v6 : local.v4;
    return found.empty() ? "ADDR" : found;
  }
  // A link-local address means nothing without the interface.
  if (address.interface_zone.empty()) return host;
  return absl::StrCat(host, "%", address.interface_zone);
}

std::string DescribeNamespace(size_t nsid, const NamespaceOptions& space) {
  return absl::StrCat("  namespace ", nsid, " ", space.path, ", blocks of ",
                      space.block_bytes, space.read_only ? ", read-only" : "",
                      space.shared ? ", shared" : "", "\n");
}

}  // namespace

LocalHosts FindLocalHosts() {
  LocalHosts found;
  LocalHosts preferred;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  const std::set<std::string> rdma = RdmaInterfaces();
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    const std::string text = UsableText(entry->ifa_addr);
    const bool is_v6 = entry->ifa_addr->sa_family == AF_INET6;
    LocalHosts& into = rdma.count(entry->ifa_name) != 0 ? preferred : found;
    std::string& slot = is_v6 ? into.v6 : into.v4;
    if (slot.empty()) slot = text;
  }
  freeifaddrs(list);
  if (!preferred.v4.empty()) found.v4 = preferred.v4;
  if (!preferred.v6.empty()) found.v6 = preferred.v6;
  return found;
}

std::string ReadyLines(absl::Span<const transport::ListenAddress> addresses,
                       absl::Span<const std::string> nqns,
                       const LocalHosts& local) {
  std::string lines;
  for (const transport::ListenAddress& address : addresses) {
    for (const std::string& nqn : nqns) {
      absl::StrAppend(&lines, "listening rdma ", address.ToString(), " ", nqn,
                      "\nnvme connect -t rdma -a ", ConnectHost(address, local),
                      " -s ", address.port(), " -n ", nqn, "\n");
    }
  }
  return lines;
}

std::string DescribeExports(const TargetOptions& options,
                            absl::string_view default_nqn) {
  std::string lines = "configuration is valid; nothing was opened\n";
  for (const SubsystemOptions& subsystem : options.subsystems) {
    absl::StrAppend(
        &lines, "subsystem ",
        subsystem.nqn.empty() ? default_nqn : absl::string_view(subsystem.nqn),
        ", for ",
        subsystem.allowed_hosts.empty()
            ? std::string("every host")
            : absl::StrJoin(subsystem.allowed_hosts, " "),
        "\n");
    for (size_t i = 0; i < subsystem.namespaces.size(); ++i) {
      lines += DescribeNamespace(i + 1, subsystem.namespaces[i]);
    }
  }
  if (options.listen.empty()) lines += "listen on 0.0.0.0:4420\n";
  for (const std::string& address : options.listen) {
    absl::StrAppend(&lines, "listen on ", address, "\n");
  }
  return lines;
}

}  // namespace sluice::target
