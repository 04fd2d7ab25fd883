// What connections to a peer have shown the next one should do otherwise. A
// peer that had no receive for our SENDs, or that refused a READ beside others,
// gets half as many at a time when it connects again.
//
// Owned by the connection manager. Bound: kPeersMax addresses, each for
// kAdviceKept since its last trouble; ports say nothing, a host takes another
// each time.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace sluice::transport {

// Why a connection broke, where other settings may avoid it.
enum class Trouble : uint8_t { kNone, kReceiverNotReady, kReadDepth };
// "receiver not ready", … Static text.
const char* TroubleName(Trouble trouble);

// How often what a queue pair may have in flight is halved, whatever its depth.
struct Halvings {
  uint8_t sends = 0;  // of SENDs, WRITEs and READs together
  uint8_t reads = 0;  // of READs

  friend bool operator==(const Halvings&, const Halvings&) = default;
};

class PeerAdvice {
 public:
  static constexpr size_t kPeersMax = 256;
  static constexpr absl::Duration kAdviceKept = absl::Minutes(10);
  static constexpr uint8_t kHalvingsMax = 8;
  // A queue pair cannot do with less: data and its response are one chain.
  static constexpr uint32_t kSendsMin = 2;

  // A connection of the peer's, made with `had`, met `trouble`. Returns what
  // the next one has: of several that were made with the same and break
  // together, the first one counts.
  Halvings Note(const sockaddr_storage& peer, Trouble trouble,
                const Halvings& had, int64_t now_nanos);
  Halvings For(const sockaddr_storage& peer, int64_t now_nanos) const;
  size_t size() const { return peers_.size(); }

 private:
  struct Advice {
    Halvings halvings;
    int64_t until_nanos = 0;
  };
  // Of an address, IPv4 too; a link-local one is of an interface.
  using Key = std::array<uint32_t, 5>;
  static Key KeyOf(const sockaddr_storage& peer);

  std::map<Key, Advice> peers_;
};

// What is left of a queue pair's sends and of its READs.
inline uint32_t HalvedSends(uint32_t sends, const Halvings& halvings) {
  return std::max(sends >> halvings.sends,
                  std::min(sends, PeerAdvice::kSendsMin));
}
inline uint32_t HalvedReads(uint32_t reads, const Halvings& halvings) {
  return std::max(reads >> halvings.reads, 1u);
}

}  // namespace sluice::transport
