#include "transport/listen_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice::transport {
namespace {

sockaddr_in* V4(sockaddr_storage* address) {
  return reinterpret_cast<sockaddr_in*>(address);
}
sockaddr_in6* V6(sockaddr_storage* address) {
  return reinterpret_cast<sockaddr_in6*>(address);
}
const sockaddr_in* V4(const sockaddr_storage* address) {
  return reinterpret_cast<const sockaddr_in*>(address);
}
const sockaddr_in6* V6(const sockaddr_storage* address) {
  return reinterpret_cast<const sockaddr_in6*>(address);
}

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "address '", text, "': ", why,
      "; use ADDR, ADDR:PORT, [V6ADDR]:PORT or [V6ADDR%IFACE]:PORT"));
}

// Splits into host and port text; the port's is empty when there is none.
bool Split(absl::string_view text, absl::string_view* host,
           absl::string_view* port) {
  *port = absl::string_view();
  if (!text.empty() && text[0] == '[') {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return false;
    *host = text.substr(1, end - 1);
    const absl::string_view rest = text.substr(end + 1);
    if (rest.empty()) return true;
    *port = rest.substr(1);
    return rest[0] == ':' && !port->empty();
  }
  const size_t first = text.find(':');
  *host = text;
  if (first == absl::string_view::npos) return true;
  if (text.find(':', first + 1) != absl::string_view::npos) return true;  // v6
  *host = text.substr(0, first);
  *port = text.substr(first + 1);
  return !port->empty();
}

}  // namespace

uint16_t ListenAddress::port() const {
  return ntohs(address.ss_family == AF_INET6 ? V6(&address)->sin6_port
                                             : V4(&address)->sin_port);
}

void ListenAddress::set_port(uint16_t port) {
  if (address.ss_family == AF_INET6) {
    V6(&address)->sin6_port = htons(port);
  } else {
    V4(&address)->sin_port = htons(port);
  }
}

std::string AddressText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &V6(&address)->sin6_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET, &V4(&address)->sin_addr, text, sizeof(text));
  }
  return text;
}

std::string ListenAddress::ToString() const {
  if (address.ss_family != AF_INET6) {
    return absl::StrCat(AddressText(address), ":", port());
  }
  const char* separator = interface_zone.empty() ? "" : "%";
  return absl::StrCat("[", AddressText(address), separator, interface_zone,
                      "]:", port());
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text,
                                                 uint16_t default_port) {
  absl::string_view host;
  absl::string_view port_text;
  if (!Split(text, &host, &port_text)) return Bad(text, "malformed");
  uint32_t port = default_port;
  if (!port_text.empty() &&
      (!absl::SimpleAtoi(port_text, &port) || port > 65535)) {
    return Bad(text, "the port is not a number up to 65535");
  }
  ListenAddress result;
  const std::vector<std::string> zone = absl::StrSplit(host, '%');
  const std::string name = host.empty() ? "0.0.0.0" : zone[0];
  if (zone.size() == 1 &&
      inet_pton(AF_INET, name.c_str(), &V4(&result.address)->sin_addr) == 1) {
    result.address.ss_family = AF_INET;
  } else if (zone.size() <= 2 &&
             inet_pton(AF_INET6, name.c_str(),
                       &V6(&result.address)->sin6_addr) == 1) {
    result.address.ss_family = AF_INET6;
    if (zone.size() == 2) {
      result.interface_zone = zone[1];
      const unsigned index = if_nametoindex(zone[1].c_str());
      if (index == 0) return Bad(text, "there is no such interface");
      V6(&result.address)->sin6_scope_id = index;
    }
  } else {
    return Bad(text, "not an IPv4 or IPv6 address");
  }
  result.set_port(static_cast<uint16_t>(port));
  return result;
}

}  // namespace sluice::transport
