// A start-up frame on its way in: of either side, in whatever pieces it comes.
#include <sys/socket.h>

#include <cerrno>

#include "core/check.h"
#include "transport/iwarp/cm.h"

namespace sluice::iwarp {

MpaError ReadFrame(CmSocket* socket, bool expect_reply, MpaFrame* frame) {
  size_t needed = kMpaHeaderBytes;
  const auto decode = [&] {
    return DecodeMpa(
        absl::MakeConstSpan(socket->text.data(), socket->text_bytes),
        expect_reply, frame, &needed);
  };
  // How much is missing of what came before.
  if (socket->text_bytes >= kMpaHeaderBytes) decode();
  while (true) {
    SLUICE_CHECK(needed <= kMpaFrameMax);
    // No more than the frame: what is behind it is for the queue pair.
    const ssize_t got =
        recv(socket->fd, socket->text.data() + socket->text_bytes,
             needed - socket->text_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return MpaError::kShort;
    if (got <= 0) {
      if (got == 0) errno = ECONNRESET;
      return MpaError::kEnded;
    }
    socket->text_bytes += static_cast<size_t>(got);
    const MpaError error = decode();
    if (error != MpaError::kShort) return error;
  }
}

}  // namespace sluice::iwarp
