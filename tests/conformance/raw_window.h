// A key that the target may invalidate with SEND_WITH_INV: a memory window of
// type 2 where the device has them (rxe), else the memory region's own key,
// which iWARP devices and the fake provider invalidate as well. RoCE devices
// fail the queue pair when an ordinary region's key is invalidated.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nvme/sgl.h"
#include "tests/conformance/raw_connection.h"
#include "tests/conformance/raw_memory.h"

namespace sluice::conformance {

class RawWindow {
 public:
  // Over all of `memory`, which must outlive it, as must `connection`, which
  // must be established. kUnimplemented if the device can do neither.
  static absl::StatusOr<std::unique_ptr<RawWindow>> Create(
      RawConnection* connection, RawMemory* memory);
  ~RawWindow();
  RawWindow(const RawWindow&) = delete;
  RawWindow& operator=(const RawWindow&) = delete;

  uint32_t rkey() const { return rkey_; }
  // 4Fh: the target may invalidate it.
  nvme::SglBytes Keyed(size_t offset, uint32_t length_bytes) const;

 private:
  explicit RawWindow(RawMemory* memory) : memory_(memory) {}

  RawMemory* const memory_;
  ibv_mw* window_ = nullptr;  // null: the region's own key
  uint32_t rkey_ = 0;
};

}  // namespace sluice::conformance
