// Addresses to listen on, as people write them and as sockets know them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::transport {

// Where to listen; the port chosen where it was 0.
struct ListenAddress {
  sockaddr_storage address{};
  std::string interface_zone;  // of an IPv6 link-local address, as typed

  uint16_t port() const;
  void set_port(uint16_t port);
  // "10.0.0.1:4420", "[fe80::1%eth0]:4420".
  std::string ToString() const;
};

// An IPv4 or IPv6 address in figures, without port and zone.
std::string AddressText(const sockaddr_storage& address);

// "ADDR", "ADDR:PORT", "[V6]", "[V6]:PORT", "[fe80::1%eth0]:PORT", ":PORT".
// InvalidArgument: not an address. Names are not resolved.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text,
                                                 uint16_t default_port);

}  // namespace sluice::transport
