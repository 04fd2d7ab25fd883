#include "tools/bench/uring_tcp.h"

#include <liburing.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tools/bench/tcp_pair.h"

namespace sluice::bench {
namespace {

constexpr unsigned kEntries = 256;
constexpr unsigned kCompletions = 1024;
constexpr unsigned kBuffers = 128;  // a power of two
constexpr size_t kPageBytes = 4096;
constexpr uint64_t kSent = ~uint64_t{0};  // user_data; else a connection

// What a receive brought.
struct Arrived {
  size_t connection;
  const std::byte* data;
  size_t bytes;
};

// A ring of one thread with the receives of its connections, each armed at all
// times.
class Port {
 public:
  Port(const std::vector<int>& fds, const UringOptions& options,
       size_t read_bytes)
      : fds_(fds),
        options_(options),
        read_bytes_(read_bytes),
        memory_(read_bytes * (options.multishot ? kBuffers : fds.size())) {}
  ~Port() {
    if (!is_open_) return;
    // What is in flight ends before its memory does.
    for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
    io_uring_queue_exit(&ring_);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // False with errno set.
  bool Open();
  void Send(size_t connection, const std::byte* data, size_t bytes,
            bool tell_success);
  // Submits, and waits for a completion; polling, without sleeping.
  void Wait(bool polling);
  // Hands what there is to `take(Arrived)`. False at the end of a connection.
  template <typename Take>
  bool Reap(Take take);
  bool all_sent() const { return untold_ == 0; }
  // Of an operation that went wrong, not of a connection that ended; 0: none.
  int error() const { return error_; }

 private:
  struct Free {
    void operator()(io_uring_buf_ring* ring) const { std::free(ring); }
  };

  std::byte* Place(size_t index) {
    return memory_.data() + index * read_bytes_;
  }
  void Arm(size_t connection);
  void Provide(size_t index);
  bool Ended(int result);

  const std::vector<int>& fds_;
  const UringOptions options_;
  const size_t read_bytes_;
  std::vector<std::byte> memory_;  // provided buffers, or one a connection
  io_uring ring_{};
  bool is_open_ = false;
  std::unique_ptr<io_uring_buf_ring, Free> buffers_;
  size_t untold_ = 0;  // sends whose end is to be told
  int error_ = 0;
};

bool Port::Open() {
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
                 IORING_SETUP_TASKRUN_FLAG;
  params.flags |=
      options_.defer ? IORING_SETUP_DEFER_TASKRUN : IORING_SETUP_COOP_TASKRUN;
  params.cq_entries = kCompletions;
  int rc = io_uring_queue_init_params(kEntries, &ring_, &params);
  is_open_ = rc == 0;
  if (rc == 0 && options_.multishot) {
    constexpr size_t kBytes = kBuffers * sizeof(io_uring_buf);
    static_assert(kBytes <= kPageBytes);
    buffers_.reset(static_cast<io_uring_buf_ring*>(
        std::aligned_alloc(kPageBytes, kPageBytes)));
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<uint64_t>(buffers_.get());
    registration.ring_entries = kBuffers;
    rc = io_uring_register_buf_ring(&ring_, &registration, 0);
    io_uring_buf_ring_init(buffers_.get());
    for (size_t i = 0; i < kBuffers; ++i) Provide(i);
  }
  if (rc == 0) {
    rc = io_uring_register_files(&ring_, fds_.data(),
                                 static_cast<unsigned>(fds_.size()));
  }
  errno = -rc;
  if (rc != 0) return false;
  io_uring_register_ring_fd(&ring_);  // it saves a look-up, no more
  for (size_t i = 0; i < fds_.size(); ++i) Arm(i);
  return true;
}

void Port::Provide(size_t index) {
  io_uring_buf_ring_add(
      buffers_.get(), Place(index), static_cast<unsigned>(read_bytes_),
      static_cast<uint16_t>(index), io_uring_buf_ring_mask(kBuffers), 0);
  io_uring_buf_ring_advance(buffers_.get(), 1);
}

// Of a batch at most a send and a receive a connection are waiting: they fit.
void Port::Arm(size_t connection) {
  const int file = static_cast<int>(connection);
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (options_.multishot) {
    io_uring_prep_recv_multishot(sqe, file, nullptr, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
  } else {
    io_uring_prep_recv(sqe, file, Place(connection), read_bytes_, 0);
    sqe->flags |= IOSQE_FIXED_FILE;
  }
  sqe->user_data = connection;
}

void Port::Send(size_t connection, const std::byte* data, size_t bytes,
                bool tell_success) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  io_uring_prep_send(sqe, static_cast<int>(connection), data, bytes,
                     MSG_NOSIGNAL | MSG_WAITALL);
  sqe->flags |= IOSQE_FIXED_FILE;
  if (tell_success) {
    ++untold_;
  } else {
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  }
  sqe->user_data = kSent;
}

// Polling asks the kernel only when its flag says that there is something.
void Port::Wait(bool polling) {
  if (!polling) {
    ++ThreadCalls();
    io_uring_submit_and_wait(&ring_, 1);
    return;
  }
  do {
    const bool deferred =
        (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) != 0;
    if (!deferred && io_uring_sq_ready(&ring_) == 0) continue;
    ++ThreadCalls();
    if (deferred) {
      io_uring_submit_and_get_events(&ring_);
    } else {
      io_uring_submit(&ring_);
    }
  } while (io_uring_cq_ready(&ring_) == 0);
}

bool Port::Ended(int result) {
  if (result > 0) return false;
  const bool gone = result == 0 || result == -ECONNRESET || result == -EPIPE;
  if (!gone) error_ = -result;
  return true;
}

template <typename Take>
bool Port::Reap(Take take) {
  io_uring_cqe* cqes[kEntries / 2];
  const unsigned count = io_uring_peek_batch_cqe(&ring_, cqes, kEntries / 2);
  bool open = true;
  for (unsigned i = 0; open && i < count; ++i) {
    const io_uring_cqe& cqe = *cqes[i];
    if (cqe.user_data == kSent) {
      if (cqe.res > 0) --untold_;
      open = !Ended(cqe.res);
      continue;
    }
    const bool armed = (cqe.flags & IORING_CQE_F_MORE) != 0;
    if (cqe.res != -ENOBUFS) {
      open = !Ended(cqe.res);
      if (!open) break;
      const size_t index = (cqe.flags & IORING_CQE_F_BUFFER) != 0
                               ? cqe.flags >> IORING_CQE_BUFFER_SHIFT
                               : cqe.user_data;
      take(Arrived{cqe.user_data, Place(index), static_cast<size_t>(cqe.res)});
      if (options_.multishot) Provide(index);
    }
    if (!armed) Arm(cqe.user_data);
  }
  io_uring_cq_advance(&ring_, count);
  return open;
}

SideResult WithError(SideResult side, const Port& port) {
  if (port.error() == 0) return side;
  errno = port.error();
  return Failed("io_uring");
}

}  // namespace

RunResult UringStream(const RawOptions& options, const UringOptions& uring) {
  const size_t bytes = options.block_bytes;
  return RunConnected(
      options.address, 1,
      [&](const std::vector<int>& fds) {
        Port port(fds, {.defer = uring.defer, .multishot = false}, 1);
        if (!port.Open()) return Failed("io_uring_setup");
        SideResult result = Measure([&](SideResult* side) {
          const std::vector<std::byte> block(bytes, std::byte{0x5a});
          const int64_t end =
              NowNanos() + static_cast<int64_t>(options.seconds * 1e9);
          bool open = true;
          // One at a time: the second may not overtake what is left of it.
          while (open && NowNanos() < end) {
            port.Send(0, block.data(), bytes, /*tell_success=*/true);
            while (open && !port.all_sent()) {
              port.Wait(/*polling=*/false);
              open = port.Reap([](const Arrived&) {});
            }
            side->count += bytes;
          }
          shutdown(fds[0], SHUT_WR);
          port.Wait(/*polling=*/false);  // all of it has been received
        });
        return WithError(std::move(result), port);
      },
      [&](const std::vector<int>& fds) {
        Port port(fds, uring, bytes);
        if (!port.Open()) return Failed("io_uring_setup");
        SideResult result = Measure([&](SideResult* side) {
          std::vector<std::byte> block(bytes);
          bool open = true;
          while (open) {
            port.Wait(/*polling=*/false);
            open = port.Reap([&](const Arrived& arrived) {
              side->count += arrived.bytes;
              if (!uring.multishot) return;
              std::memcpy(block.data(), arrived.data, arrived.bytes);
            });
          }
        });
        return WithError(std::move(result), port);
      });
}

RunResult UringEcho(const RawOptions& options, const UringOptions& uring,
                    size_t bytes, size_t connections, bool polling) {
  const auto run = [&](const std::vector<int>& fds, bool starts) {
    Port port(fds, uring, 4 * bytes);
    if (!port.Open()) return Failed("io_uring_setup");
    SideResult result = Measure([&](SideResult* side) {
      const std::vector<std::byte> message(bytes, std::byte{0x5a});
      std::vector<size_t> held(fds.size());
      const auto send = [&](size_t connection) {
        port.Send(connection, message.data(), bytes, /*tell_success=*/false);
      };
      const int64_t end =
          NowNanos() + static_cast<int64_t>(options.seconds * 1e9);
      for (size_t i = 0; starts && i < fds.size(); ++i) send(i);
      bool open = true;
      while (open && !(starts && NowNanos() >= end)) {
        port.Wait(polling);
        open = port.Reap([&](const Arrived& arrived) {
          size_t& here = held[arrived.connection];
          here += arrived.bytes;
          if (here < bytes) return;
          here -= bytes;
          ++side->count;
          send(arrived.connection);
        });
      }
    });
    return WithError(std::move(result), port);
  };
  return RunConnected(
      options.address, connections,
      [&](const std::vector<int>& fds) { return run(fds, true); },
      [&](const std::vector<int>& fds) { return run(fds, false); });
}

}  // namespace sluice::bench
