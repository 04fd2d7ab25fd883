#include "tools/bench/tcp_pair.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sluice::bench {
namespace {

void Tune(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A side, once `connect_one` has made all its sockets; if it cannot, the other
// side does not wait for it.
template <typename ConnectOne>
SideResult RunSide(const char* call, size_t connections, ConnectOne connect_one,
                   const ConnectedSide& run, int listener) {
  std::vector<int> fds;
  SideResult side;
  while (side.ok && fds.size() < connections) {
    const int fd = connect_one();
    if (fd < 0) {
      side = Failed(call);
      shutdown(listener, SHUT_RDWR);
      break;
    }
    Tune(fd);
    fds.push_back(fd);
  }
  if (side.ok) side = run(fds);
  for (const int fd : fds) close(fd);
  return side;
}

}  // namespace

RunResult RunConnected(const std::string& address, size_t connections,
                       const ConnectedSide& active,
                       const ConnectedSide& passive) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in bound = Address(address, 0);
  auto* generic = reinterpret_cast<sockaddr*>(&bound);
  socklen_t bytes = sizeof(bound);
  RunResult failed;
  if (bind(listener, generic, bytes) != 0 ||
      listen(listener, static_cast<int>(connections)) != 0 ||
      getsockname(listener, generic, &bytes) != 0) {
    failed.active = Failed("listen");
    close(listener);
    return failed;
  }
  const auto connect_one = [&] {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, generic, sizeof(bound)) == 0) return fd;
    close(fd);
    return -1;
  };
  const auto accept_one = [&] { return accept(listener, nullptr, nullptr); };
  const RunResult result = RunPair(
      [&] {
        return RunSide("connect", connections, connect_one, active, listener);
      },
      [&](const std::function<void()>& ready) {
        ready();
        return RunSide("accept", connections, accept_one, passive, listener);
      });
  close(listener);
  return result;
}

}  // namespace sluice::bench
