// What an operator may set of the provider, with default, unit and effect. Set
// before the first call; the programs do so from their flags, the preload
// library from SLUICE_IWARP_* (docs/iwarp.md).
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace sluice::iwarp {

// Whether we ask for checksums. A peer that asks gets them either way.
enum class CrcPolicy : uint8_t {
  kAuto,  // not towards this machine itself
  kOn,
  kOff,
};

struct Options {
  CrcPolicy crc = CrcPolicy::kAuto;
  // A SEND that finds no receive waits this long, unread, in its socket; zero:
  // it ends the connection, as on other iWARP devices; infinity: for ever.
  absl::Duration receive_wait = absl::Seconds(1);
  // The passive side must not speak first [iwarp §1.4]. One that has something
  // to send all the same, and has heard nothing for this long, takes it that
  // the initiator is ready: programs for other transports do so.
  absl::Duration listen_first = absl::Milliseconds(500);
  // From TCP's accept to the end of the MPA request, and from our reply to the
  // first message of who agreed to speak first; from our request to the reply;
  // TCP's own connecting.
  absl::Duration request_timeout = absl::Seconds(5);
  absl::Duration reply_timeout = absl::Seconds(10);
  absl::Duration connect_timeout = absl::Seconds(10);
  // After we have closed: how long the peer may take to do so.
  absl::Duration linger = absl::Seconds(2);
  // A peer that no longer answers is noticed after about this long.
  absl::Duration dead_peer = absl::Seconds(30);
  // MPA revision to offer, 1 or 2; with 1 no read depths are agreed.
  int mpa_revision = 2;
  // Initiators ask to be the one that speaks first (RTR) [iwarp §1.3].
  bool peer_to_peer = false;
  // FPDUs up to this; 0: as TCP's segments, which iWARP cards want.
  uint32_t ulpdu_bytes = 0;
  // Programs that block elsewhere: a thread makes progress for them.
  bool helper_thread = false;
};

// The process's. Not thread-safe: before the first call of the provider.
Options& MutableOptions();
const Options& GetOptions();

}  // namespace sluice::iwarp
