#include "tools/bench/cq/control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice::bench {
namespace {

constexpr absl::Duration kConnectWait = absl::Seconds(5);
constexpr size_t kLineBytesMax = 65536;

socklen_t LengthOf(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                       : sizeof(sockaddr_in);
}

void SendAtOnce(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlConnection>> ControlConnection::Connect(
    const transport::ListenAddress& address) {
  const absl::Time end = absl::Now() + kConnectWait;
  while (true) {
    const int fd =
        socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address.address),
                LengthOf(address.address)) == 0) {
      SendAtOnce(fd);
      return std::make_unique<ControlConnection>(fd);
    }
    const int error = errno;
    close(fd);
    if (absl::Now() > end) {
      return absl::ErrnoToStatus(
          error, absl::StrCat("connect to ", address.ToString()));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

ControlConnection::~ControlConnection() { close(fd_); }

absl::StatusOr<std::string> ControlConnection::ReadLine() {
  while (true) {
    const size_t length = held_.find('\n');
    if (length != std::string::npos) {
      std::string line = held_.substr(0, length);
      held_.erase(0, length + 1);
      return line;
    }
    if (held_.size() > kLineBytesMax) {
      return absl::InvalidArgumentError("a line without an end");
    }
    char piece[4096];
    const ssize_t got = read(fd_, piece, sizeof(piece));
    if (got < 0) return absl::ErrnoToStatus(errno, "read");
    if (got == 0) return absl::OutOfRangeError("the other end has gone");
    held_.append(piece, static_cast<size_t>(got));
  }
}

absl::Status ControlConnection::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "send");
}

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::Open(
    const transport::ListenAddress& address) {
  const int fd =
      socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  transport::ListenAddress bound = address;
  socklen_t length = sizeof(bound.address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.address),
           LengthOf(address.address)) != 0 ||
      listen(fd, 1) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound.address), &length) !=
          0) {
    const int error = errno;
    close(fd);
    return absl::ErrnoToStatus(error,
                               absl::StrCat("listen on ", address.ToString()));
  }
  return std::unique_ptr<ControlListener>(
      new ControlListener(fd, bound.port()));
}

ControlListener::~ControlListener() { close(fd_); }

absl::StatusOr<std::unique_ptr<ControlConnection>> ControlListener::Accept() {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "accept");
  SendAtOnce(fd);
  return std::make_unique<ControlConnection>(fd);
}

}  // namespace sluice::bench
