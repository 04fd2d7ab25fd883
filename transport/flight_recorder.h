// The last completions of a CQ, always on: a store of 32 bytes each. Answers
// what a lost completion asks: what came back, and when?
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transport/limits.h"

namespace sluice::transport {

struct FlightRecord {
  int64_t time_nanos = 0;  // start of the tick that polled it
  uint64_t wr_id = 0;      // a WrTag
  uint32_t qp_number = 0;
  uint32_t byte_count = 0;
  uint16_t opcode = 0;  // ibv_wc_opcode
  uint16_t status = 0;  // ibv_wc_status
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

 private:
  std::array<FlightRecord, kFlightRecords> records_{};
  uint64_t next_ = 0;
};

}  // namespace sluice::transport
