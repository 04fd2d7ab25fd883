#include "transport/peer_advice.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace sluice::transport {

const char* TroubleName(Trouble trouble) {
  switch (trouble) {
    case Trouble::kNone:
      break;
    case Trouble::kReceiverNotReady:
      return "receiver not ready";
    case Trouble::kReadDepth:
      return "read depth";
  }
  return "none";
}

PeerAdvice::Key PeerAdvice::KeyOf(const sockaddr_storage& peer) {
  Key key{};
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    std::memcpy(key.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
    key[4] = v6.sin6_scope_id;
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    // As IPv6 writes it: no other address is like it.
    key[2] = htonl(0xffff);
    key[3] = v4.sin_addr.s_addr;
  }
  return key;
}

Halvings PeerAdvice::Note(const sockaddr_storage& peer, Trouble trouble,
                          const Halvings& had, int64_t now_nanos) {
  std::erase_if(peers_, [now_nanos](const auto& entry) {
    return entry.second.until_nanos <= now_nanos;
  });
  const Key key = KeyOf(peer);
  if (peers_.size() >= kPeersMax && !peers_.contains(key)) {
    peers_.erase(std::min_element(
        peers_.begin(), peers_.end(), [](const auto& left, const auto& right) {
          return left.second.until_nanos < right.second.until_nanos;
        }));
  }
  Advice& advice = peers_[key];
  advice.until_nanos = now_nanos + absl::ToInt64Nanoseconds(kAdviceKept);
  const auto halve = [](uint8_t* now, uint8_t before) {
    if (*now <= before && before < kHalvingsMax) {
      *now = static_cast<uint8_t>(before + 1);
    }
  };
  if (trouble == Trouble::kReceiverNotReady) {
    halve(&advice.halvings.sends, had.sends);
  } else if (trouble == Trouble::kReadDepth) {
    halve(&advice.halvings.reads, had.reads);
  }
  return advice.halvings;
}

Halvings PeerAdvice::For(const sockaddr_storage& peer,
                         int64_t now_nanos) const {
  const auto found = peers_.find(KeyOf(peer));
  if (found == peers_.end() || found->second.until_nanos <= now_nanos) {
    return Halvings();
  }
  return found->second.halvings;
}

}  // namespace sluice::transport
