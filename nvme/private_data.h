// The private data that NVMe-oF puts into the messages of the RDMA connection
// manager: request, accept and reject [spec §1.2-1.4]. A request is decoded on
// the listener's reactor before there is a queue; all of it comes from the
// peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nvme/limits.h"

namespace sluice::nvme {

// STS of a reject [spec §1.4]. kNone is ours and goes on no wire.
enum class RejectReason : uint16_t {
  kNone = 0,
  kInvalidPrivateDataLength = 1,
  kInvalidRecordFormat = 2,
  kInvalidQid = 3,
  kInvalidHsqsize = 4,
  kInvalidHrqsize = 5,
  kNoResources = 6,
  kInvalidIrd = 7,
  kInvalidOrd = 8,
  kInvalidCntlid = 9,
};

// "invalid HSQSIZE". Never null; static text.
const char* RejectReasonName(RejectReason reason);

struct ConnectRequest {
  uint16_t record_format = 0;  // RECFMT
  uint16_t qid = 0;            // 0 is the admin queue
  uint16_t hrqsize = 0;        // a plain count of the host's receives
  uint16_t hsqsize = 0;        // 0's based; see queue_depth()
  uint16_t cntlid = 0;         // 0 is "not known yet", from older hosts always

  // Command slots of the host, 1..65536: what the target posts receives for.
  uint32_t queue_depth() const { return uint32_t{hsqsize} + 1; }
  void set_queue_depth(uint32_t depth) {
    hsqsize = static_cast<uint16_t>(depth - 1);
  }
  bool is_admin() const { return qid == 0; }
};

// What a listener offers. Depths are true numbers.
struct ConnectRequestLimits {
  uint16_t qid_max = 0;
  uint32_t admin_depth_max = kAdminDepthMin;
  uint32_t io_depth_max = 128;  // MQES + 1
};

// Checks `private_data` in the order of [spec §1.7], as far as it alone can
// tell: length, RECFMT, QID, HSQSIZE, HRQSIZE. Read depth, CNTLID and resources
// are left to the caller. IB and RoCE pad the data to 56 bytes, so more than 32
// is right. *out is what the peer sent, unless the length was wrong.
RejectReason DecodeConnectRequest(absl::Span<const std::byte> private_data,
                                  const ConnectRequestLimits& limits,
                                  ConnectRequest* out);

std::array<std::byte, kConnectRequestBytes> EncodeConnectRequest(
    const ConnectRequest& request);

struct ConnectAccept {
  uint16_t record_format = 0;
  uint16_t crqsize = 0;  // receives of the controller, a plain count
};

// False when there are less than 32 bytes: SPDK's initiator takes that as a
// failure, Linux ignores the whole data [spec §1.3].
bool DecodeConnectAccept(absl::Span<const std::byte> private_data,
                         ConnectAccept* out);

std::array<std::byte, kConnectAcceptBytes> EncodeConnectAccept(
    const ConnectAccept& accept);

struct ConnectReject {
  uint16_t record_format = 0;
  RejectReason reason = RejectReason::kNone;  // may be a number not listed
};

// False when there are less than 4 bytes: a bare reject, as a peer gives it
// that dropped the id [spec §1.7].
bool DecodeConnectReject(absl::Span<const std::byte> private_data,
                         ConnectReject* out);

std::array<std::byte, kConnectRejectBytes> EncodeConnectReject(
    const ConnectReject& reject);

}  // namespace sluice::nvme
