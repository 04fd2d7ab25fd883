#include "tools/bench/raw_tcp.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tools/bench/tcp_pair.h"

namespace sluice::bench {
namespace {

constexpr size_t kBatchBytes = 64 * 1024;
constexpr int kEventsMax = 64;

ssize_t Receive(int fd, std::byte* data, size_t bytes, int flags) {
  ++ThreadCalls();
  return recv(fd, data, bytes, flags);
}

// All of it; false at the end of the stream.
bool SendAll(int fd, const std::byte* data, size_t bytes) {
  while (bytes > 0) {
    ++ThreadCalls();
    const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, std::byte* data, size_t bytes, bool polling) {
  while (bytes > 0) {
    const ssize_t got = Receive(fd, data, bytes, polling ? MSG_DONTWAIT : 0);
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) return false;
    data += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// What there is, at least a byte, without sleeping; 0 or less at the end.
ssize_t ReceiveSome(int fd, std::byte* data, size_t bytes) {
  ssize_t got;
  do {
    got = Receive(fd, data, bytes, MSG_DONTWAIT);
  } while (got < 0 && errno == EAGAIN);
  return got;
}

// One connection between the two sides.
template <typename Active, typename Passive>
RunResult RunOne(const RawOptions& options, Active active, Passive passive) {
  return RunConnected(
      options.address, 1,
      [&](const std::vector<int>& fds) { return active(fds[0]); },
      [&](const std::vector<int>& fds) { return passive(fds[0]); });
}

// One side of an echo. Edges are enough: a short read has emptied the socket.
SideResult Echo(const std::vector<int>& fds, size_t bytes, bool polling,
                bool starts, double seconds) {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  for (size_t i = 0; i < fds.size(); ++i) {
    epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = i}};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[i], &event) != 0) {
      return Failed("epoll_ctl");
    }
  }
  SideResult result = Measure([&](SideResult* side) {
    const std::vector<std::byte> message(bytes, std::byte{0x5a});
    std::vector<std::byte> read(4 * bytes);
    std::vector<size_t> held(fds.size());
    const int64_t end = NowNanos() + static_cast<int64_t>(seconds * 1e9);
    bool open = true;
    for (size_t i = 0; starts && i < fds.size(); ++i) {
      open = open && SendAll(fds[i], message.data(), bytes);
    }
    while (open && !(starts && NowNanos() >= end)) {
      epoll_event events[kEventsMax];
      ++ThreadCalls();
      const int count =
          epoll_wait(epoll_fd, events, kEventsMax, polling ? 0 : -1);
      for (int k = 0; open && k < count; ++k) {
        const auto i = events[k].data.u64;
        const ssize_t got =
            Receive(fds[i], read.data(), read.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) continue;
        open = got > 0;
        if (!open) break;
        held[i] += static_cast<size_t>(got);
        if (held[i] < bytes) continue;
        held[i] -= bytes;
        ++side->count;
        open = SendAll(fds[i], message.data(), bytes);
      }
    }
  });
  close(epoll_fd);
  return result;
}

}  // namespace

RunResult RawStream(const RawOptions& options) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  return RunOne(
      options,
      [&](int fd) {
        return Measure([&](SideResult* side) {
          const std::vector<std::byte> block(options.block_bytes,
                                             std::byte{0x5a});
          const int64_t end = NowNanos() + limit;
          while (NowNanos() < end && SendAll(fd, block.data(), block.size())) {
            side->count += block.size();
          }
          shutdown(fd, SHUT_WR);
          std::byte last;
          recv(fd, &last, 1, 0);  // all of it has been received
        });
      },
      [&](int fd) {
        return Measure([&](SideResult* side) {
          std::vector<std::byte> block(options.block_bytes);
          ssize_t got;
          while ((got = Receive(fd, block.data(), block.size(), 0)) > 0) {
            side->count += static_cast<uint64_t>(got);
          }
        });
      });
}

RunResult RawPingPong(const RawOptions& options, size_t bytes, bool polling) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  return RunOne(
      options,
      [=](int fd) {
        return Measure([&](SideResult* side) {
          std::vector<std::byte> message(bytes, std::byte{0x5a});
          side->samples.reserve(kSamplesMax);
          int64_t now = NowNanos();
          const int64_t end = now + limit;
          while (now < end && side->samples.size() < kSamplesMax) {
            if (!SendAll(fd, message.data(), bytes)) break;
            if (!ReceiveAll(fd, message.data(), bytes, polling)) break;
            const int64_t later = NowNanos();
            side->samples.push_back(later - now);
            now = later;
            ++side->count;
          }
        });
      },
      [=](int fd) {
        return Measure([&](SideResult* side) {
          std::vector<std::byte> message(bytes);
          while (ReceiveAll(fd, message.data(), bytes, polling) &&
                 SendAll(fd, message.data(), bytes)) {
            ++side->count;
          }
        });
      });
}

RunResult RawEcho(const RawOptions& options, size_t bytes, size_t connections,
                  bool polling) {
  const auto side = [&](bool starts) {
    return [&, starts](const std::vector<int>& fds) {
      return Echo(fds, bytes, polling, starts, options.seconds);
    };
  };
  return RunConnected(options.address, connections, side(true), side(false));
}

RunResult RawMessages(const RawOptions& options, size_t bytes) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  const size_t per_batch = kBatchBytes / bytes;
  return RunOne(
      options,
      [=](int fd) {
        return Measure([&](SideResult* side) {
          const std::vector<std::byte> message(bytes, std::byte{0x5a});
          std::vector<std::byte> batch(per_batch * bytes);
          const int64_t end = NowNanos() + limit;
          while (NowNanos() < end) {
            for (size_t i = 0; i < per_batch; ++i) {
              std::memcpy(batch.data() + i * bytes, message.data(), bytes);
            }
            if (!SendAll(fd, batch.data(), batch.size())) break;
            side->count += per_batch;
          }
          shutdown(fd, SHUT_WR);
          std::byte last;
          recv(fd, &last, 1, 0);
        });
      },
      [=](int fd) {
        return Measure([&](SideResult* side) {
          std::vector<std::byte> batch(kBatchBytes + bytes);
          std::vector<std::byte> slots(256 * bytes);  // where messages go
          size_t held = 0;
          ssize_t got;
          while ((got = Receive(fd, batch.data() + held, kBatchBytes, 0)) > 0) {
            held += static_cast<size_t>(got);
            size_t taken = 0;
            for (; held - taken >= bytes; taken += bytes) {
              std::memcpy(slots.data() + side->count++ % 256 * bytes,
                          batch.data() + taken, bytes);
            }
            std::memmove(batch.data(), batch.data() + taken, held - taken);
            held -= taken;
          }
        });
      });
}

RunResult RawRequests(const RawOptions& options, size_t request_bytes,
                      size_t response_bytes, size_t depth) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  return RunOne(
      options,
      [=](int fd) {
        return Measure([&](SideResult* side) {
          const std::vector<std::byte> requests(depth * request_bytes,
                                                std::byte{0x5a});
          std::vector<std::byte> responses(depth * response_bytes);
          std::vector<int64_t> sent(depth);  // answered in order
          side->samples.reserve(kSamplesMax);
          uint64_t sent_count = 0;
          size_t held = 0;
          size_t due = depth;
          const int64_t end = NowNanos() + limit;
          while (true) {
            const int64_t now = NowNanos();
            if (now >= end) break;
            for (size_t i = 0; i < due; ++i) sent[sent_count++ % depth] = now;
            if (!SendAll(fd, requests.data(), due * request_bytes)) break;
            due = 0;
            const ssize_t got = ReceiveSome(fd, responses.data() + held,
                                            responses.size() - held);
            if (got <= 0) break;
            held += static_cast<size_t>(got);
            const int64_t later = NowNanos();
            for (; held >= response_bytes; held -= response_bytes, ++due) {
              const int64_t nanos = later - sent[side->count++ % depth];
              if (side->samples.size() < kSamplesMax) {
                side->samples.push_back(nanos);
              }
            }
          }
        });
      },
      [=](int fd) {
        return Measure([&](SideResult* side) {
          std::vector<std::byte> requests(depth * request_bytes);
          const std::vector<std::byte> responses(depth * response_bytes,
                                                 std::byte{0xa5});
          size_t held = 0;
          while (true) {
            const ssize_t got =
                ReceiveSome(fd, requests.data(), requests.size() - held);
            if (got <= 0) break;
            held += static_cast<size_t>(got);
            const size_t count = held / request_bytes;
            held %= request_bytes;
            if (!SendAll(fd, responses.data(), count * response_bytes)) break;
            side->count += count;
          }
        });
      });
}

}  // namespace sluice::bench
