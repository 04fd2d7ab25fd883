#include "transport/flight_recorder.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "transport/wr_tag.h"

namespace sluice::transport {
namespace {

const char* KindName(WrKind kind) {
  switch (kind) {
    case WrKind::kNone:
      return "none";
    case WrKind::kReceive:
      return "receive";
    case WrKind::kSend:
      return "send";
    case WrKind::kWrite:
      return "write";
    case WrKind::kRead:
      return "read";
    case WrKind::kSilent:
      return "silent";
    case WrKind::kNudge:
      return "nudge";
  }
  return "unknown";
}

}  // namespace

std::string FlightRecorder::Dump(uint32_t count) const {
  const uint64_t available =
      std::min<uint64_t>({next_, kFlightRecords, uint64_t{count}});
  std::string text;
  for (uint64_t i = next_ - available; i < next_; ++i) {
    const FlightRecord& record = records_[i % kFlightRecords];
    const WrTag tag = WrTag::Unpack(record.wr_id);
    absl::StrAppendFormat(
        &text,
        "t=%d.%09d qp=%#x %s slot=%d qp_slot=%d/%d opcode=%d status=%d "
        "vendor=%#x bytes=%d\n",
        record.time_nanos / 1'000'000'000, record.time_nanos % 1'000'000'000,
        record.qp_number, KindName(tag.kind), tag.slot, tag.qp_index,
        tag.qp_generation, record.opcode, record.status, record.vendor_error,
        record.byte_count);
  }
  return text;
}

}  // namespace sluice::transport
