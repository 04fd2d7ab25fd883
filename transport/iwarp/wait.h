// Waiting as programs expect it of a descriptor of verbs.
#pragma once

namespace sluice::iwarp {

// Waits until `wait_fd` is readable, unless O_NONBLOCK is set on `fd`, the one
// that the program sees: then false, with EAGAIN. False with EINTR, too.
bool WaitReadable(int fd, int wait_fd);

// That one is readable, or comes out of its epoll_wait, while `fd` is. False:
// the kernel refuses.
bool WatchReadable(int epoll_fd, int fd);

// A descriptor that is readable while `fd` is, and has flags of its own. -1
// with errno.
int MakeWaitFd(int fd);

}  // namespace sluice::iwarp
