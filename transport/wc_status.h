// Names of completion statuses, for people and counters: what libibverbs says
// of them is text for programs that link it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace sluice::transport {

// ibv_wc_status, and one more for what is none.
inline constexpr size_t kWcStatuses = IBV_WC_TM_RNDV_INCOMPLETE + 2;

size_t WcStatusIndex(ibv_wc_status status);
// Of an index: "success", "rnr_retry_exceeded", … "unknown". Static text.
const char* WcStatusName(size_t index);

}  // namespace sluice::transport
