#include "transport/flight_recorder.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "transport/wr_tag.h"

namespace sluice::transport {
namespace {

bool IsReceive(const FlightRecord& record) {
  return WrTag::Unpack(record.wr_id).kind == WrKind::kReceive;
}

void AppendLine(const FlightRecord& record, std::string* text) {
  const WrTag tag = WrTag::Unpack(record.wr_id);
  const int64_t seconds = record.time_nanos / 1'000'000'000;
  const int64_t nanos = record.time_nanos % 1'000'000'000;
  if (record.status == FlightRecord::kPosted) {
    absl::StrAppendFormat(
        text, "t=%d.%09d qp=%#x posted %s slot=%d qp_slot=%d/%d bytes=%d\n",
        seconds, nanos, record.qp_number, WrKindName(tag.kind), tag.slot,
        tag.qp_index, tag.qp_generation, record.byte_count);
    return;
  }
  absl::StrAppendFormat(
      text,
      "t=%d.%09d qp=%#x %s slot=%d qp_slot=%d/%d opcode=%d status=%d "
      "vendor=%#x bytes=%d\n",
      seconds, nanos, record.qp_number, WrKindName(tag.kind), tag.slot,
      tag.qp_index, tag.qp_generation, record.opcode, record.status,
      record.vendor_error, record.byte_count);
}

}  // namespace

std::string FlightRecorder::Dump(uint32_t count) const {
  const uint64_t available =
      std::min<uint64_t>({next_, kFlightRecords, uint64_t{count}});
  std::string text;
  for (uint64_t i = next_ - available; i < next_; ++i) {
    AppendLine(At(i), &text);
  }
  return text;
}

bool FlightRecorder::CameBack(uint64_t number) const {
  const FlightRecord& posted = At(number);
  const bool receive = IsReceive(posted);
  // Sends posted behind it, whose completions say that it is done.
  absl::flat_hash_set<uint64_t> behind;
  for (uint64_t i = number + 1; i < next_; ++i) {
    const FlightRecord& record = At(i);
    if (record.qp_number != posted.qp_number || IsReceive(record) != receive) {
      continue;
    }
    if (record.status == FlightRecord::kPosted) {
      // Its slot is used again: it had come back.
      if (record.wr_id == posted.wr_id) return true;
      if (!receive) behind.insert(record.wr_id);
      continue;
    }
    if (record.wr_id == posted.wr_id || behind.contains(record.wr_id)) {
      return true;
    }
  }
  return false;
}

std::string FlightRecorder::DumpFrom(uint64_t number,
                                     uint32_t following) const {
  std::string text = "never came back: ";
  const FlightRecord& posted = At(number);
  AppendLine(posted, &text);
  uint32_t left = following;
  for (uint64_t i = number + 1; i < next_ && left > 0; ++i) {
    if (At(i).qp_number != posted.qp_number) continue;
    absl::StrAppend(&text, "  then ");
    AppendLine(At(i), &text);
    --left;
  }
  return text;
}

std::string FlightRecorder::DumpMissing(uint32_t qp_number, uint32_t count,
                                        uint32_t following) const {
  std::string text;
  uint32_t left = count;
  for (uint64_t i = first(); i < next_ && left > 0; ++i) {
    if (At(i).status != FlightRecord::kPosted) continue;
    if (At(i).qp_number != qp_number || CameBack(i)) continue;
    text += DumpFrom(i, following);
    --left;
  }
  return text;
}

std::string FlightRecorder::DumpMissingSends(int64_t before_nanos,
                                             uint32_t count,
                                             uint32_t following) const {
  std::string text;
  uint32_t left = count;
  for (uint64_t i = first(); i < next_ && left > 0; ++i) {
    const FlightRecord& record = At(i);
    if (record.time_nanos >= before_nanos) break;
    if (record.status != FlightRecord::kPosted || IsReceive(record)) continue;
    if (CameBack(i)) continue;
    text += DumpFrom(i, following);
    --left;
  }
  return text;
}

}  // namespace sluice::transport
