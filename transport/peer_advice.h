// What connections to a peer have shown the next one should do otherwise. A
// peer that had no receive for our SENDs, or that refused a READ beside others,
// gets half as many at a time when it connects again.
//
// Owned by the connection manager. Bound: kPeersMax addresses, each for
// kAdviceKept since its last trouble; ports say nothing, a host takes another
// each time.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace sluice::transport {

// Why a connection broke, where other settings may avoid it.
enum class Trouble : uint8_t { kNone, kReceiverNotReady, kReadDepth };
// "receiver not ready", … Static text.
const char* TroubleName(Trouble trouble);

// What a queue pair may have in flight.
struct PeerLimits {
  uint32_t sends = 0;  // SENDs, WRITEs and READs together; 0: no limit known
  uint32_t reads = 0;  // READs; 0: no limit known

  friend bool operator==(const PeerLimits&, const PeerLimits&) = default;
};

class PeerAdvice {
 public:
  static constexpr size_t kPeersMax = 256;
  static constexpr absl::Duration kAdviceKept = absl::Minutes(10);
  // A queue pair cannot do with less: data and its response are one chain.
  static constexpr uint32_t kSendsMin = 2;

  // The peer's connection met `trouble` with `used`, both known. Returns what
  // the next one has.
  PeerLimits Note(const sockaddr_storage& peer, Trouble trouble,
                  const PeerLimits& used, int64_t now_nanos);
  PeerLimits For(const sockaddr_storage& peer, int64_t now_nanos) const;
  size_t size() const { return peers_.size(); }

 private:
  struct Advice {
    PeerLimits limits;
    int64_t until_nanos = 0;
  };
  // Of an address, IPv4 too; a link-local one is of an interface.
  using Key = std::array<uint32_t, 5>;
  static Key KeyOf(const sockaddr_storage& peer);

  std::map<Key, Advice> peers_;
};

}  // namespace sluice::transport
