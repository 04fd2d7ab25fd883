// Names that outlive a restart: the serial number of a subsystem, NGUID and
// UUID of a namespace, derived from where it runs (the machine's id), the
// subsystem's NQN and the NSID. A host that reconnects finds the disk it knew.
//
// The bytes must never change, between builds, compilers and machines: they are
// made by a hash of our own, written out in identity.cc, and its golden values
// are a test. It spreads names; it hides nothing and stops no forger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice::nvme {

// 20 characters, "SL" and upper-case hexadecimal digits.
std::string DeriveSerial(absl::string_view machine_id,
                         absl::string_view subnqn);

// Never all zero.
std::array<std::byte, 16> DeriveNguid(absl::string_view machine_id,
                                      absl::string_view subnqn, uint32_t nsid);

// In text order (big-endian), version 8 (custom) and the variant of RFC 4122.
std::array<std::byte, 16> DeriveUuid(absl::string_view machine_id,
                                     absl::string_view subnqn, uint32_t nsid);

// "01234567-89ab-…", lower case.
std::string FormatUuid(const std::array<std::byte, 16>& uuid);

// The reverse; false if `text` is no UUID. Either case of digits.
bool ParseUuid(absl::string_view text, std::array<std::byte, 16>* out);

}  // namespace sluice::nvme
