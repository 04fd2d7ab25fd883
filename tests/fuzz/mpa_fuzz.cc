// Bytes through every decoder of the iWARP provider's that needs no state:
// MPA's start-up frames, segment headers, Terminates. Each gets memory that
// ends where the input does, and what it says must fit the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "transport/iwarp/mpa.h"
#include "transport/iwarp/rdmap.h"

namespace sluice::iwarp {
namespace {

using Bytes = std::vector<std::byte>;

void FuzzMpa(const Bytes& bytes, bool reply) {
  MpaFrame frame;
  size_t needed = 0;
  const MpaError error = DecodeMpa(bytes, reply, &frame, &needed);
  SLUICE_CHECK(needed >= kMpaHeaderBytes);
  SLUICE_CHECK(needed <= kMpaFrameMax);
  if (error == MpaError::kShort) SLUICE_CHECK(needed > bytes.size());
  if (error != MpaError::kNone) return;
  SLUICE_CHECK(needed <= bytes.size());
  SLUICE_CHECK(frame.user_bytes <= kMpaPrivateMax);
  const size_t most = frame.enhanced ? kUserDataMax : kUserDataMaxRevision1;
  if (frame.user_bytes > most) return;
  std::byte text[kMpaFrameMax];
  const size_t size = EncodeMpa(frame, text);
  SLUICE_CHECK(size == needed);
  MpaFrame again;
  SLUICE_CHECK(DecodeMpa({text, size}, reply, &again, &needed) ==
               MpaError::kNone);
  SLUICE_CHECK(again.ird == frame.ird || !frame.enhanced);
  SLUICE_CHECK(again.ord == frame.ord || !frame.enhanced);
  SLUICE_CHECK(std::ranges::equal(again.user(), frame.user()));
}

void FuzzHeader(const Bytes& bytes) {
  SegmentHeader header;
  uint32_t needed = 0;
  TerminateReason reason;
  const auto size = static_cast<uint32_t>(bytes.size());
  switch (DecodeHeader(bytes.data(), size, &header, &needed, &reason)) {
    case HeaderResult::kShort:
      SLUICE_CHECK(needed > size);
      SLUICE_CHECK(needed <= kHeaderBytesMax);
      return;
    case HeaderResult::kBad: {
      std::byte text[kTerminateMax];
      SLUICE_CHECK(PutTerminate(text, reason, nullptr, 0) <= kTerminateMax);
      SLUICE_CHECK(ReadTerminate(text + kUntaggedHeaderBytes) == reason);
      return;
    }
    case HeaderResult::kComplete:
      break;
  }
  SLUICE_CHECK(needed == HeaderBytes(header.opcode));
  SLUICE_CHECK(needed <= size);
  SLUICE_CHECK(header.payload_bytes() <= 65535);
  std::byte text[kTerminateMax];
  const uint32_t terminate =
      PutTerminate(text, kRdmapBounds, bytes.data(), needed);
  SLUICE_CHECK(terminate <= kTerminateMax);
  SLUICE_CHECK(ReadTerminate(text + kUntaggedHeaderBytes) == kRdmapBounds);
}

}  // namespace
}  // namespace sluice::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::iwarp;  // NOLINT: the entry point has no namespace
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> copy(bytes, bytes + size);
  FuzzMpa(copy, /*reply=*/false);
  FuzzMpa(copy, /*reply=*/true);
  FuzzHeader(copy);
  if (size >= kTerminateFixedBytes) ReadTerminate(copy.data());
  return 0;
}
