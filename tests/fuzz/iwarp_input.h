// What iwarp_fuzz reads its input as, and make_seeds writes.
//
// Byte 0 has flags, byte 1 the most bytes that are sent at a time (0: all).
// With kRecords the rest is records, each a byte with the length of what
// follows it: a segment from its control word on, which gets the ULPDU_Length,
// padding and checksum that it should have. A zero and a count in front of that
// add so many times kFuzzMoreBytes zeros to its payload. Without kRecords the
// rest is sent as it is.
//
// Keys and addresses of regions are not known before the run. kKeyMark and the
// number of a region stand for its key; kAddressMark, the number and a signed
// offset of 32 bits for an address in it.
#pragma once

#include <cstdint>

namespace sluice::iwarp {

inline constexpr uint8_t kFuzzCrc = 0x01;
inline constexpr uint8_t kFuzzPassive = 0x02;
inline constexpr uint8_t kFuzzRecords = 0x04;
inline constexpr uint8_t kFuzzReads = 0x08;       // some are in flight
inline constexpr uint8_t kFuzzNoReceives = 0x10;  // none are posted at first
inline constexpr uint8_t kFuzzDeregister = 0x20;  // a region goes half-way
inline constexpr uint8_t kFuzzSends = 0x40;
inline constexpr uint8_t kFuzzDisconnect = 0x80;  // this side ends it

inline constexpr uint32_t kFuzzMoreBytes = 256;

inline constexpr uint32_t kKeyMark = 0xfeed0000;  // | region
inline constexpr uint32_t kAddressMark = 0xaddd0000;

// Regions by number.
inline constexpr uint32_t kFuzzWritable = 0;
inline constexpr uint32_t kFuzzReadable = 1;
inline constexpr uint32_t kFuzzLocal = 2;
inline constexpr uint32_t kFuzzSink = 3;
inline constexpr uint32_t kFuzzStranger = 4;  // another PD's
inline constexpr uint32_t kFuzzMortal = 5;    // may go, or be invalidated
inline constexpr uint32_t kFuzzRegions = 6;

}  // namespace sluice::iwarp
