// The two queue entries: Sqe, the 64 bytes at the head of every command
// capsule, and Cqe, the 16 bytes that are every response [spec §2.2, §2.3].
// Plain values, valid on any reactor. The layout is the wire's: ReadSqe and
// friends are one memcpy, and a test client may set any field to anything.
//
// What a command's dwords mean is in io_command.h, admin_command.h, connect.h
// and property.h; the 16 bytes of the SGL are in sgl.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/types/span.h"
#include "core/check.h"
#include "nvme/limits.h"
#include "nvme/opcodes.h"
#include "nvme/status.h"
#include "nvme/wire.h"

namespace sluice::nvme {

// One SGL descriptor, as it is on the wire.
using SglBytes = std::array<std::byte, kSglDescriptorBytes>;

// Keyed, all zeroes: what Linux and SPDK put into a command without data.
inline constexpr SglBytes kNoDataSgl = [] {
  SglBytes bytes{};
  bytes[15] = std::byte{0x40};
  return bytes;
}();

// PSDT: SGL for data; what all commands of a fabric carry.
inline constexpr uint8_t kPsdtSgl = 1;

// FUSE.
enum class Fuse : uint8_t { kNormal = 0, kFirst = 1, kSecond = 2, kReserved };

struct Sqe {
  uint8_t opcode = 0;
  uint8_t flags = kPsdtSgl << 6;  // FUSE 1:0, PSDT 7:6
  uint16_t cid = 0;               // echoed exactly, never interpreted
  uint32_t nsid = 0;              // fabrics: byte 0 is FCTYPE
  uint32_t cdw2 = 0;
  uint32_t cdw3 = 0;
  uint64_t mptr = 0;
  SglBytes sgl = kNoDataSgl;
  uint32_t cdw10 = 0;
  uint32_t cdw11 = 0;
  uint32_t cdw12 = 0;
  uint32_t cdw13 = 0;
  uint32_t cdw14 = 0;
  uint32_t cdw15 = 0;

  Fuse fuse() const { return static_cast<Fuse>(flags & 0x3); }
  uint8_t psdt() const { return flags >> 6; }
  void set_fuse(Fuse fuse) {
    flags = static_cast<uint8_t>((flags & ~0x3) | static_cast<uint8_t>(fuse));
  }
  void set_psdt(uint8_t psdt) {
    flags = static_cast<uint8_t>((flags & 0x3F) | (psdt << 6));
  }

  bool is_fabrics() const { return opcode == kFabricsOpcode; }
  // Meaningful for fabrics commands only.
  uint8_t fctype() const { return static_cast<uint8_t>(nsid); }
  void set_fctype(uint8_t fctype) { nsid = (nsid & ~uint32_t{0xFF}) | fctype; }

  Direction direction() const {
    return DirectionOf(is_fabrics() ? fctype() : opcode);
  }

  // CDW10 and CDW11, CDW12 and CDW13 as one number: SLBA, LPO, VALUE.
  uint64_t cdw10_11() const { return uint64_t{cdw11} << 32 | cdw10; }
  uint64_t cdw12_13() const { return uint64_t{cdw13} << 32 | cdw12; }
  void set_cdw10_11(uint64_t value) {
    cdw10 = static_cast<uint32_t>(value);
    cdw11 = static_cast<uint32_t>(value >> 32);
  }
  void set_cdw12_13(uint64_t value) {
    cdw12 = static_cast<uint32_t>(value);
    cdw13 = static_cast<uint32_t>(value >> 32);
  }
};

static_assert(sizeof(Sqe) == kSqeBytes);
static_assert(std::is_trivially_copyable_v<Sqe>);
static_assert(std::is_standard_layout_v<Sqe>);
static_assert(offsetof(Sqe, flags) == 1);
static_assert(offsetof(Sqe, cid) == 2);
static_assert(offsetof(Sqe, nsid) == 4);
static_assert(offsetof(Sqe, mptr) == 16);
static_assert(offsetof(Sqe, sgl) == 24);
static_assert(offsetof(Sqe, cdw10) == 40);
static_assert(offsetof(Sqe, cdw15) == 60);

struct Cqe {
  uint64_t result = 0;  // DW0 and DW1: command specific
  uint16_t sqhd = 0;    // commands taken, modulo the queue's depth
  uint16_t sqid = 0;    // reserved in fabrics; hosts ignore it
  uint16_t cid = 0;
  uint16_t status_wire = 0;  // Status::wire()

  uint32_t dw0() const { return static_cast<uint32_t>(result); }
  Status status() const { return Status::FromWire(status_wire); }
};

static_assert(sizeof(Cqe) == kCqeBytes);
static_assert(std::is_trivially_copyable_v<Cqe>);
static_assert(offsetof(Cqe, sqhd) == 8);
static_assert(offsetof(Cqe, sqid) == 10);
static_assert(offsetof(Cqe, cid) == 12);
static_assert(offsetof(Cqe, status_wire) == 14);

// A capsule shorter than kSqeBytes, a response shorter than kCqeBytes, is fatal
// for its connection [spec §2.1]: compare the size before you read.
inline Sqe ReadSqe(absl::Span<const std::byte> capsule) {
  SLUICE_CHECK(capsule.size() >= kSqeBytes);
  Sqe sqe;
  std::memcpy(&sqe, capsule.data(), sizeof(sqe));
  return sqe;
}

inline Cqe ReadCqe(absl::Span<const std::byte> response) {
  SLUICE_CHECK(response.size() >= kCqeBytes);
  Cqe cqe;
  std::memcpy(&cqe, response.data(), sizeof(cqe));
  return cqe;
}

inline void WriteSqe(const Sqe& sqe, absl::Span<std::byte> capsule) {
  SLUICE_CHECK(capsule.size() >= kSqeBytes);
  std::memcpy(capsule.data(), &sqe, sizeof(sqe));
}

inline void WriteCqe(const Cqe& cqe, absl::Span<std::byte> response) {
  SLUICE_CHECK(response.size() >= kCqeBytes);
  std::memcpy(response.data(), &cqe, sizeof(cqe));
}

// Refuses a PSDT other than 01b, and FUSE bits unless fused commands are
// served, as nvmet does: kInvalidField with DNR [spec §2.2]. First check of
// every command, fabrics commands too.
inline Status CheckFlags(const Sqe& sqe, bool fused_served) {
  if (sqe.psdt() != kPsdtSgl) return kInvalidField.WithDnr();
  if (sqe.fuse() == Fuse::kNormal) return kSuccess;
  if (!fused_served) return kInvalidField.WithDnr();
  if (sqe.fuse() == Fuse::kReserved) return kInvalidField.WithDnr();
  return kSuccess;
}

}  // namespace sluice::nvme
