// The NVM command set: what the dwords of an I/O command say [spec §7]. True
// numbers come out: block_count() and range_count() are never 0's based. No
// decoder here can fail; the checks that follow take what the target knows of
// the namespace. Nothing is allocated.
//
// Encoders set opcode and dwords; cid, nsid and sgl are the caller's. Flush has
// no fields: its opcode and nsid say it all.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "nvme/limits.h"
#include "nvme/opcodes.h"
#include "nvme/sqe.h"
#include "nvme/status.h"

namespace sluice::nvme {

// Read, Write, Compare, Verify, Write Zeroes, Write Uncorrectable [spec §7.2].
struct BlockCommand {
  uint64_t slba = 0;
  uint16_t nlb = 0;  // 0's based; see block_count()
  bool fua = false;
  bool limited_retry = false;       // LR
  bool pract = false;               // PRACT
  uint8_t prchk = 0;                // 3 bits: guard, application, reference
  bool deallocate = false;          // DEAC, Write Zeroes only
  bool storage_tag_check = false;   // STC
  uint8_t directive_type = 0;       // DTYPE, 4 bits
  uint8_t dataset_hints = 0;        // DSM, CDW13 7:0
  uint16_t directive_specific = 0;  // DSPEC

  // 1..65536.
  uint32_t block_count() const { return uint32_t{nlb} + 1; }
  void set_block_count(uint32_t count) {
    nlb = static_cast<uint16_t>(count - 1);
  }
};

BlockCommand DecodeBlock(const Sqe& sqe);
void EncodeBlock(IoOpcode opcode, const BlockCommand& command, Sqe* sqe);

// Whether slba + block_count <= namespace_blocks, without overflow:
// kLbaOutOfRange with DNR if not. A count of 0 may start at the very end.
Status CheckRange(uint64_t slba, uint64_t block_count,
                  uint64_t namespace_blocks);

// For commands that move blocks: at most `transfer_bytes_max` (MDTS), else
// kInvalidField; the SGL has room for all, else kDataSglLengthInvalid. Longer
// SGLs are right [spec §2.9]. Both with DNR.
Status CheckTransfer(uint32_t block_count, uint32_t block_bytes,
                     uint32_t sgl_bytes, uint32_t transfer_bytes_max);

// Dataset Management [spec §7.5].
struct DsmCommand {
  uint8_t nr = 0;           // 0's based; see range_count()
  bool hint_read = false;   // IDR
  bool hint_write = false;  // IDW
  bool deallocate = false;  // AD; without it nothing is to be done

  // 1..256.
  uint32_t range_count() const { return uint32_t{nr} + 1; }
  // Linux always sends 4096 bytes: compare with <=.
  uint32_t data_bytes() const {
    return range_count() * static_cast<uint32_t>(kDsmRangeBytes);
  }
};

DsmCommand DecodeDsm(const Sqe& sqe);
void EncodeDsm(const DsmCommand& command, Sqe* sqe);

struct DsmRange {
  uint32_t context_attributes = 0;
  uint32_t block_count = 0;  // a plain count; 0 is nothing
  uint64_t slba = 0;
};

// Range `index` of the command's data, which has (index + 1) * 16 bytes or
// more: compare data_bytes() first.
DsmRange ReadDsmRange(absl::Span<const std::byte> data, uint32_t index);
void WriteDsmRange(const DsmRange& range, uint32_t index,
                   absl::Span<std::byte> data);

}  // namespace sluice::nvme
