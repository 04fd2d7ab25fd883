// What ibv_post_* returned, as an errno.
#pragma once

#include <cerrno>
#include <cstdlib>

namespace sluice::transport {

// Most return the errno, siw a negative one, and -1 with errno set where its
// doorbell failed.
inline int PostErrno(int returned) {
  return returned == -1 ? errno : std::abs(returned);
}

}  // namespace sluice::transport
