// Socket addresses of both families, as the fake connection manager compares
// them. Pure functions.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::fake {

// sizeof the family's structure; 0 for a family other than IPv4 and IPv6.
size_t AddressSize(const sockaddr* address);
void CopyAddress(sockaddr_storage* to, const sockaddr* from);
uint16_t PortOf(const sockaddr* address);  // host order
void SetPort(sockaddr_storage* address, uint16_t port);
bool IsWildcard(const sockaddr* address);
// Ports and scopes are ignored.
bool SameAddress(const sockaddr* a, const sockaddr* b);

// An address, or the addresses that begin alike.
class AddressPrefix {
 public:
  // "127.0.0.0/8", "::1"; CHECKs.
  explicit AddressPrefix(std::string_view text);

  bool Contains(const sockaddr* address) const;

 private:
  int family_;
  std::array<uint8_t, 16> bytes_ = {};
  int length_bits_;
};

}  // namespace sluice::fake
