// The Connect command, first on every queue: its SQE, its 1024 bytes of data
// and its answer [spec §3.2]. What needs the target's state (does the subsystem
// exist, is the controller enabled) is checked there, in the order of the
// spec's table; this file has the checks that need the bytes alone.
//
// The private data of the connection manager is in private_data.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "nvme/limits.h"
#include "nvme/nqn.h"
#include "nvme/sqe.h"
#include "nvme/status.h"

namespace sluice::nvme {

// CATTR bits.
inline constexpr uint8_t kCattrDisableFlowControl = 1 << 2;
inline constexpr uint8_t kCattrQueueDeletion = 1 << 3;
inline constexpr uint8_t kCattrDiscoveryController = 1 << 4;

// The SQE's own fields.
struct ConnectCommand {
  uint16_t record_format = 0;
  uint16_t qid = 0;
  uint16_t sqsize = 0;  // 0's based; see queue_depth()
  uint8_t cattr = 0;
  uint32_t kato_ms = 0;  // 0 is off; to be ignored on an I/O queue (SPDK)
  uint16_t nvmsetid = 0;

  uint32_t queue_depth() const { return uint32_t{sqsize} + 1; }
  void set_queue_depth(uint32_t depth) {
    sqsize = static_cast<uint16_t>(depth - 1);
  }
  bool is_admin() const { return qid == 0; }
};

ConnectCommand DecodeConnectCommand(const Sqe& sqe);
// Sets opcode, FCTYPE and the fields above; cid and sgl stay.
void EncodeConnectCommand(const ConnectCommand& command, Sqe* sqe);

// 16 bytes in UUID text order [spec §10.5]. All zero on an I/O queue means "do
// not check".
using HostId = std::array<std::byte, 16>;

struct ConnectData {
  HostId hostid{};
  uint16_t cntlid = kCntlidDynamic;
  Nqn subnqn;
  Nqn hostnqn;
};

// Where the fields are: for an error's IPO, and for tests that break them.
inline constexpr uint16_t kConnectRecfmtOffset = 40;
inline constexpr uint16_t kConnectQidOffset = 42;
inline constexpr uint16_t kConnectSqsizeOffset = 44;
inline constexpr uint16_t kConnectDataHostidOffset = 0;
inline constexpr uint16_t kConnectDataCntlidOffset = 16;
inline constexpr uint16_t kConnectDataSubnqnOffset = 256;
inline constexpr uint16_t kConnectDataHostnqnOffset = 512;

// Status and DW0 of a Connect's response. A failed Connect makes no entry in
// the error log [spec §3.2].
struct ConnectOutcome {
  Status status;
  uint32_t dw0 = 0;

  bool ok() const { return status.ok(); }
};

// Success. `authentication` sets ATR: the host must authenticate next.
ConnectOutcome ConnectAccepted(uint16_t cntlid, bool authentication);
// 182h with DNR and the field to blame: IPO with IATTR 0 or 1.
ConnectOutcome InvalidConnectSqe(uint16_t offset_bytes);
ConnectOutcome InvalidConnectData(uint16_t offset_bytes);

// RECFMT is 0 and QID is the one of the connection request; SQSIZE is at least
// 1 and no more than the request's HSQSIZE.
ConnectOutcome CheckConnectCommand(const ConnectCommand& command,
                                   uint16_t request_qid,
                                   uint16_t request_hsqsize);

// Decodes the data and checks both NQNs; for an admin queue, that CNTLID asks
// for the dynamic model. Less than 1024 bytes: kDataSglLengthInvalid.
ConnectOutcome DecodeConnectData(absl::Span<const std::byte> data,
                                 bool is_admin, ConnectData* out);

std::array<std::byte, kConnectDataBytes> EncodeConnectData(
    const ConnectData& data);

// DW0 of a success, for the initiator.
struct ConnectResponse {
  uint16_t cntlid = 0;
  bool authentication_required = false;  // ATR
  bool secure_channel_required = false;  // ASCR: never valid on RDMA
};
ConnectResponse DecodeConnectResponse(uint32_t dw0);

// DW0 of kConnectInvalidParameters, for the initiator.
struct ConnectErrorLocation {
  uint16_t offset_bytes = 0;  // IPO
  bool in_data = false;       // IATTR; else in the SQE
};
ConnectErrorLocation DecodeConnectError(uint32_t dw0);

// Disconnect, which ends an I/O queue: optional, no host sends it [spec §3.6].
void EncodeDisconnect(uint16_t record_format, Sqe* sqe);
Status DecodeDisconnect(const Sqe& sqe);

}  // namespace sluice::nvme
