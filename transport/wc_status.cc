#include "transport/wc_status.h"

#include <algorithm>
#include <iterator>

namespace sluice::transport {
namespace {

constexpr const char* kNames[] = {
    "success",
    "local_length_error",
    "local_qp_operation_error",
    "local_ee_context_error",
    "local_protection_error",
    "flushed",
    "memory_window_bind_error",
    "bad_response",
    "local_access_error",
    "remote_invalid_request",
    "remote_access_error",
    "remote_operation_error",
    "retry_exceeded",
    "rnr_retry_exceeded",
    "local_rdd_violation",
    "remote_invalid_rd_request",
    "remote_aborted",
    "invalid_ee_context_number",
    "invalid_ee_context_state",
    "fatal_error",
    "response_timeout",
    "general_error",
    "tag_matching_error",
    "tag_matching_rendezvous_incomplete",
    "unknown",
};
static_assert(std::size(kNames) == kWcStatuses);

}  // namespace

size_t WcStatusIndex(ibv_wc_status status) {
  return std::min(static_cast<size_t>(status), kWcStatuses - 1);
}

const char* WcStatusName(size_t index) {
  return kNames[std::min(index, kWcStatuses - 1)];
}

}  // namespace sluice::transport
