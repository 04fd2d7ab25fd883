// What the preload library is told by the environment, before main().
//
//   SLUICE_IWARP_CRC=auto|on|off   checksums (default auto: not to ourselves)
//   SLUICE_IWARP_MPA=1|2           MPA revision to offer (default 2)
//   SLUICE_IWARP_P2P=0|1           begin with a message of nothing, so that the
//                                  other end may send first (default 1)
//   SLUICE_IWARP_WAIT_MS=N         how long a SEND waits for a receive (1000)
//   SLUICE_IWARP_ULPDU=BYTES       largest ULPDU (default: as TCP's segments)
//   SLUICE_IWARP_LOG=LEVEL         of the provider (default warning)
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

void Complain(const char* name, const char* text) {
  SLUICE_LOG(kError) << "ignored: " << name << "=" << text;
}

// The variable's number, or what it is without one.
uint32_t Number(const char* name, uint32_t otherwise, uint32_t max) {
  const char* text = std::getenv(name);
  uint32_t value = 0;
  if (text == nullptr) return otherwise;
  if (absl::SimpleAtoi(text, &value) && value <= max) return value;
  Complain(name, text);
  return otherwise;
}

[[gnu::constructor]] void ReadEnvironment() {
  SetLogLevel(LogLevel::kWarning);
  if (const char* text = std::getenv("SLUICE_IWARP_LOG")) {
    const absl::StatusOr<LogLevel> level = ParseLogLevel(text);
    if (level.ok()) {
      SetLogLevel(*level);
    } else {
      Complain("SLUICE_IWARP_LOG", text);
    }
  }
  Options& options = MutableOptions();
  options.helper_thread = true;
  if (const char* text = std::getenv("SLUICE_IWARP_CRC")) {
    const std::string crc = text;
    if (crc == "on") {
      options.crc = CrcPolicy::kOn;
    } else if (crc == "off") {
      options.crc = CrcPolicy::kOff;
    } else if (crc != "auto") {
      Complain("SLUICE_IWARP_CRC", text);
    }
  }
  options.mpa_revision = Number("SLUICE_IWARP_MPA", 2, 2) == 1 ? 1 : 2;
  options.peer_to_peer = Number("SLUICE_IWARP_P2P", 1, 1) == 1;
  options.receive_wait =
      absl::Milliseconds(Number("SLUICE_IWARP_WAIT_MS", 1000, 3'600'000));
  options.ulpdu_bytes = Number("SLUICE_IWARP_ULPDU", 0, 65535);
}

}  // namespace
}  // namespace sluice::iwarp
