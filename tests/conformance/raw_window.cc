#include "tests/conformance/raw_window.h"

#include "core/status_macros.h"

namespace sluice::conformance {

absl::StatusOr<std::unique_ptr<RawWindow>> RawWindow::Create(
    RawConnection* connection, RawMemory* memory) {
  std::unique_ptr<RawWindow> window(new RawWindow(memory));
  window->window_ = ibv_alloc_mw(connection->pd(), IBV_MW_TYPE_2);
  if (window->window_ == nullptr) {
    window->rkey_ = memory->rkey();
    return window;
  }
  window->rkey_ = ibv_inc_rkey(window->window_->rkey);
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = window->window_;
  wr.bind_mw.rkey = window->rkey_;
  wr.bind_mw.bind_info.mr = memory->mr();
  wr.bind_mw.bind_info.addr = memory->address();
  wr.bind_mw.bind_info.length = memory->size();
  wr.bind_mw.bind_info.mw_access_flags =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  SLUICE_RETURN_IF_ERROR(connection->Post(wr));
  SLUICE_RETURN_IF_ERROR(connection->WaitSent());
  if (connection->ended()) {
    return absl::UnimplementedError("the device cannot bind memory windows");
  }
  return window;
}

RawWindow::~RawWindow() {
  if (window_ != nullptr) (void)ibv_dealloc_mw(window_);
}

nvme::SglBytes RawWindow::Keyed(size_t offset, uint32_t length_bytes) const {
  return nvme::EncodeKeyed({.address = memory_->address(offset),
                            .length_bytes = length_bytes,
                            .key = rkey_},
                           /*invalidate=*/true);
}

}  // namespace sluice::conformance
