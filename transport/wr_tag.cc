#include "transport/wr_tag.h"

namespace sluice::transport {

const char* WrKindName(WrKind kind) {
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
    case WrKind::kSharedReceive:
      return "shared_receive";
  }
  return "unknown";
}

}  // namespace sluice::transport
