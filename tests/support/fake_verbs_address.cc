#include "tests/support/fake_verbs_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "core/check.h"

namespace sluice::fake {
namespace {

using Bytes = std::array<uint8_t, 16>;

sockaddr_in AsV4(const void* address) {
  sockaddr_in copy;
  std::memcpy(&copy, address, sizeof(copy));
  return copy;
}

sockaddr_in6 AsV6(const void* address) {
  sockaddr_in6 copy;
  std::memcpy(&copy, address, sizeof(copy));
  return copy;
}

Bytes BytesOf(const sockaddr* address) {
  Bytes bytes = {};
  if (address->sa_family == AF_INET) {
    const sockaddr_in v4 = AsV4(address);
    std::memcpy(bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
  } else {
    const sockaddr_in6 v6 = AsV6(address);
    std::memcpy(bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  }
  return bytes;
}

}  // namespace

size_t AddressSize(const sockaddr* address) {
  if (address->sa_family == AF_INET) return sizeof(sockaddr_in);
  if (address->sa_family == AF_INET6) return sizeof(sockaddr_in6);
  return 0;
}

void CopyAddress(sockaddr_storage* to, const sockaddr* from) {
  *to = {};
  std::memcpy(to, from, AddressSize(from));
}

uint16_t PortOf(const sockaddr* address) {
  return ntohs(address->sa_family == AF_INET ? AsV4(address).sin_port
                                             : AsV6(address).sin6_port);
}

void SetPort(sockaddr_storage* address, uint16_t port) {
  if (address->ss_family == AF_INET) {
    sockaddr_in v4 = AsV4(address);
    v4.sin_port = htons(port);
    std::memcpy(address, &v4, sizeof(v4));
  } else {
    sockaddr_in6 v6 = AsV6(address);
    v6.sin6_port = htons(port);
    std::memcpy(address, &v6, sizeof(v6));
  }
}

bool IsWildcard(const sockaddr* address) { return BytesOf(address) == Bytes{}; }

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  return a->sa_family == b->sa_family && BytesOf(a) == BytesOf(b);
}

AddressPrefix::AddressPrefix(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  family_ = host.find(':') == std::string::npos ? AF_INET : AF_INET6;
  length_bits_ = family_ == AF_INET ? 32 : 128;
  if (slash != std::string_view::npos) {
    length_bits_ = std::stoi(std::string(text.substr(slash + 1)));
  }
  SLUICE_CHECK(inet_pton(family_, host.c_str(), bytes_.data()) == 1);
}

bool AddressPrefix::Contains(const sockaddr* address) const {
  if (address->sa_family != family_) return false;
  const Bytes bytes = BytesOf(address);
  for (int bit = 0; bit < length_bits_; ++bit) {
    const size_t index = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((bytes[index] ^ bytes_[index]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace sluice::fake
