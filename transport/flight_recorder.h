// The last work requests posted for a CQ and the last completions polled from
// it, always on: a store of 32 bytes each. Answers what a lost completion asks:
// what was posted, did it come back, and what followed?
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transport/limits.h"

namespace sluice::transport {

struct FlightRecord {
  // Of a work request on its way to the device.
  static constexpr uint16_t kPosted = UINT16_MAX;

  int64_t time_nanos = 0;  // start of the tick that posted or polled it
  uint64_t wr_id = 0;      // a WrTag
  uint32_t qp_number = 0;
  uint32_t byte_count = 0;
  uint16_t opcode = 0;  // ibv_wc_opcode; posted: ibv_wr_opcode, or 0
  uint16_t status = 0;  // ibv_wc_status, or kPosted
  uint32_t vendor_error = 0;
};
static_assert(sizeof(FlightRecord) == 32);

class FlightRecorder {
 public:
  void Record(const FlightRecord& record) {
    records_[next_++ % kFlightRecords] = record;
  }
  uint64_t recorded() const { return next_; }
  // The last `count`, oldest first, one line each.
  std::string Dump(uint32_t count) const;
  // Work requests of that queue pair which are known to be posted and not known
  // to have come back, the oldest `count` of them: each with the `following`
  // records of the queue pair after it. A SEND, WRITE or READ has come back,
  // too, when one posted behind it has. Empty when there are none.
  std::string DumpMissing(uint32_t qp_number, uint32_t count,
                          uint32_t following) const;
  // The same of all queue pairs, receives left out, if posted before then.
  std::string DumpMissingSends(int64_t before_nanos, uint32_t count,
                               uint32_t following) const;

 private:
  const FlightRecord& At(uint64_t number) const {
    return records_[number % kFlightRecords];
  }
  uint64_t first() const {
    return next_ > kFlightRecords ? next_ - kFlightRecords : 0;
  }
  bool CameBack(uint64_t number) const;
  std::string DumpFrom(uint64_t number, uint32_t following) const;

  std::array<FlightRecord, kFlightRecords> records_{};
  uint64_t next_ = 0;
};

}  // namespace sluice::transport
