#include "nvme/identity.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace sluice::nvme {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 Make128(uint64_t high, uint64_t low) {
  return Uint128{high} << 64 | low;
}

// FNV-1a with 128 bits, as published: basis and prime 2^88 + 0x13B.
constexpr Uint128 kFnvBasis = Make128(0x6C62272E07BB0142, 0x62B821756295C58D);
constexpr Uint128 kFnvPrime = Make128(0x0000000001000000, 0x000000000000013B);

void AddByte(uint8_t byte, Uint128* state) {
  *state = (*state ^ byte) * kFnvPrime;
}

void AddNumber(uint32_t value, Uint128* state) {
  for (int shift = 0; shift < 32; shift += 8) {
    AddByte(static_cast<uint8_t>(value >> shift), state);
  }
}

// The length first: ("ab", "c") and ("a", "bc") differ.
void AddText(absl::string_view text, Uint128* state) {
  AddNumber(static_cast<uint32_t>(text.size()), state);
  for (const char c : text) AddByte(static_cast<uint8_t>(c), state);
}

// The finaliser of SplitMix64: every bit of the input moves half of the output.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// FNV-1a's high bits lag behind its low ones, so both halves are stirred into
// one another. Each step can be undone: no two states become one.
Uint128 Finish(Uint128 state) {
  auto high = static_cast<uint64_t>(state >> 64);
  auto low = static_cast<uint64_t>(state);
  high ^= Mix(low);
  low ^= Mix(high);
  high ^= Mix(low + 0x9E3779B97F4A7C15);
  return Make128(high, low);
}

// `purpose` keeps the serial, the NGUID and the UUID of one thing apart.
std::array<std::byte, 16> Derive(absl::string_view purpose,
                                 absl::string_view machine_id,
                                 absl::string_view subnqn, uint32_t nsid) {
  Uint128 state = kFnvBasis;
  AddText(purpose, &state);
  AddText(machine_id, &state);
  AddText(subnqn, &state);
  AddNumber(nsid, &state);
  state = Finish(state);
  std::array<std::byte, 16> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(state >> (8 * (15 - i)));
  }
  return bytes;
}

bool IsDash(size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

// `c` is a hexadecimal digit.
uint8_t DigitValue(char c) {
  if (c <= '9') return static_cast<uint8_t>(c - '0');
  return static_cast<uint8_t>(
      absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10);
}

}  // namespace

std::string DeriveSerial(absl::string_view machine_id,
                         absl::string_view subnqn) {
  const auto bytes = Derive("sluice serial", machine_id, subnqn, 0);
  std::string serial = "SL";
  for (size_t i = 0; i < 9; ++i) {
    absl::StrAppendFormat(&serial, "%02X", std::to_integer<uint8_t>(bytes[i]));
  }
  return serial;
}

std::array<std::byte, 16> DeriveNguid(absl::string_view machine_id,
                                      absl::string_view subnqn, uint32_t nsid) {
  auto bytes = Derive("sluice nguid", machine_id, subnqn, nsid);
  bytes[15] |= std::byte{1};
  return bytes;
}

std::array<std::byte, 16> DeriveUuid(absl::string_view machine_id,
                                     absl::string_view subnqn, uint32_t nsid) {
  auto bytes = Derive("sluice uuid", machine_id, subnqn, nsid);
  bytes[6] = (bytes[6] & std::byte{0x0F}) | std::byte{0x80};
  bytes[8] = (bytes[8] & std::byte{0x3F}) | std::byte{0x80};
  return bytes;
}

std::string FormatUuid(const std::array<std::byte, 16>& uuid) {
  std::string text;
  for (const std::byte byte : uuid) {
    if (IsDash(text.size())) text += '-';
    absl::StrAppendFormat(&text, "%02x", std::to_integer<uint8_t>(byte));
  }
  return text;
}

bool ParseUuid(absl::string_view text, std::array<std::byte, 16>* out) {
  out->fill(std::byte{0});
  if (text.size() != 36) return false;
  size_t digit = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsDash(i)) {
      if (text[i] != '-') return false;
      continue;
    }
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) {
      return false;
    }
    std::byte& byte = (*out)[digit / 2];
    byte = byte << 4 | std::byte{DigitValue(text[i])};
    ++digit;
  }
  return true;
}

}  // namespace sluice::nvme
