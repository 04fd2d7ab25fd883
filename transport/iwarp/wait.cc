#include "transport/iwarp/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace sluice::iwarp {

bool WaitReadable(int fd, int wait_fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  if ((flags & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return false;
  }
  pollfd wait = {wait_fd, POLLIN, 0};
  return poll(&wait, 1, -1) >= 0;
}

bool WatchReadable(int epoll_fd, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

int MakeWaitFd(int fd) {
  const int made = epoll_create1(EPOLL_CLOEXEC);
  if (made < 0) return -1;
  if (WatchReadable(made, fd)) return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

}  // namespace sluice::iwarp
