#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "core/check.h"
#include "core/clock.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/cm.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/wait.h"

namespace sluice::iwarp {
namespace {

constexpr int kRounds = 4;
constexpr size_t kDyingChannelsMax = 8;
// Of a group with a queue pair whose peer hangs up: more than what its socket
// can hold, but no reason to stay for what others send.
constexpr int kHangUpRounds = 16;

void CloseChannel(EventChannel* channel) {
  for (const int fd : {channel->epoll_fd, channel->timer_fd}) {
    if (fd >= 0) close(fd);
  }
  delete channel;
}

using Groups = std::vector<std::shared_ptr<PollGroup>>;

void Dispatch(CmSocket* socket, Groups* groups) {
  switch (socket->kind) {
    case CmSocket::Kind::kNone:
      return;
    case CmSocket::Kind::kListener:
      OnListenerReadable(socket->id);
      return;
    case CmSocket::Kind::kHalfOpen:
      OnHalfOpenReadable(socket);
      return;
    case CmSocket::Kind::kActive:
      OnActiveReady(socket->id);
      return;
    case CmSocket::Kind::kEstablished:
      // The peer hangs up; what is before it in the stream comes first. Who
      // only waits for this event makes the progress.
      if (const Qp* qp = QpOf(*socket->id); qp != nullptr) {
        groups->push_back(qp->group);
      }
      return;
  }
}

void RunDeadlines(EventChannel* channel, int64_t now) {
  channel->deadline_nanos = kNever;
  std::vector<CmSocket*> due;
  CmTable::Get().Each([&](CmSocket* socket) {
    if (socket->channel != channel) return;
    if (socket->deadline_nanos <= now) {
      due.push_back(socket);
    } else {
      channel->deadline_nanos =
          std::min(channel->deadline_nanos, socket->deadline_nanos);
    }
  });
  for (CmSocket* socket : due) {
    socket->deadline_nanos = kNever;
    if (socket->kind == CmSocket::Kind::kHalfOpen) {
      DropHalfOpen(socket);
    } else if (socket->kind == CmSocket::Kind::kActive) {
      OnActiveDeadline(socket->id);
    } else if (socket->kind == CmSocket::Kind::kListener) {
      ResumeListener(socket->id);
    } else if (socket->kind == CmSocket::Kind::kEstablished) {
      OnFirstFpduDeadline(socket->id);
    }
  }
}

}  // namespace

std::mutex& CmMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

CmTable& CmTable::Get() {
  static auto* table = new CmTable;
  return *table;
}

uint64_t CmTable::Add(CmSocket* socket) {
  socket->serial = next_++;
  sockets_[socket->serial] = socket;
  return socket->serial;
}

void CmTable::Remove(uint64_t serial) { sockets_.erase(serial); }

CmSocket* CmTable::Find(uint64_t serial) const {
  const auto found = sockets_.find(serial);
  return found == sockets_.end() ? nullptr : found->second;
}

bool WatchSocket(CmSocket* socket, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = socket->serial;
  return epoll_ctl(socket->channel->epoll_fd, EPOLL_CTL_ADD, socket->fd,
                   &event) == 0;
}

void RewatchSocket(CmSocket* socket, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = socket->serial;
  epoll_ctl(socket->channel->epoll_fd, EPOLL_CTL_MOD, socket->fd, &event);
}

void UnwatchSocket(CmSocket* socket) {
  epoll_ctl(socket->channel->epoll_fd, EPOLL_CTL_DEL, socket->fd, nullptr);
  socket->deadline_nanos = kNever;
}

void SetSocketDeadline(CmSocket* socket, int64_t nanos) {
  socket->deadline_nanos = nanos;
  EventChannel* channel = socket->channel;
  if (socket->deadline_nanos >= channel->deadline_nanos) return;
  channel->deadline_nanos = socket->deadline_nanos;
  ArmTimer(channel->timer_fd, channel->deadline_nanos);
}

void CloseSocket(CmSocket* socket) {
  if (socket->fd < 0) return;
  UnwatchSocket(socket);
  close(socket->fd);
  socket->fd = -1;
}

bool AdvanceChannel(EventChannel* channel) {
  Groups groups;
  bool more = true;
  {
    const std::lock_guard lock(CmMutex());
    for (int round = 0; round < kRounds && more; ++round) {
      epoll_event events[kEpollBatch];
      const int count = epoll_wait(channel->epoll_fd, events, kEpollBatch, 0);
      more = false;
      for (int i = 0; i < count; ++i) {
        const uint64_t serial = events[i].data.u64;
        if (serial == 0) continue;  // events, the timer
        CmSocket* socket = CmTable::Get().Find(serial);
        if (socket == nullptr) continue;
        Dispatch(socket, &groups);
        more = true;
      }
    }
    const int64_t now = Clock::Real()->NowNanos();
    if (now >= channel->deadline_nanos) {
      uint64_t expirations;
      if (read(channel->timer_fd, &expirations, sizeof(expirations)) < 0) {
        expirations = 0;  // the clock was read later than the timer
      }
      RunDeadlines(channel, now);
      ArmTimer(channel->timer_fd, channel->deadline_nanos);
    }
  }
  for (const auto& group : groups) {
    bool group_has_more = true;
    for (int round = 0; round < kHangUpRounds && group_has_more; ++round) {
      group_has_more = group->Advance(nullptr);
    }
    if (group_has_more) group->Wake();
  }
  return more;
}

rdma_event_channel* CreateEventChannel() {
  auto* channel = new EventChannel;
  channel->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  channel->timer_fd =
      timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const bool made = channel->epoll_fd >= 0 && channel->timer_fd >= 0 &&
                    channel->events.fd() >= 0 &&
                    WatchReadable(channel->epoll_fd, channel->events.fd()) &&
                    WatchReadable(channel->epoll_fd, channel->timer_fd);
  channel->fd = channel->epoll_fd;
  if (made) return channel;
  const int error = errno;
  CloseChannel(channel);
  errno = error;
  return nullptr;
}

// Programs with threads destroy a channel that another thread is about to wait
// for, end, and rely on a wait that does not end before: with a helper thread,
// which means such programs, the last few channels outlive their destruction.
void DestroyEventChannel(rdma_event_channel* raw) {
  EventChannel* channel = EventChannel::From(raw);
  if (GetOptions().helper_thread) {
    static auto* dying = new std::deque<EventChannel*>;
    const std::lock_guard lock(CmMutex());
    dying->push_back(channel);
    if (dying->size() <= kDyingChannelsMax) return;
    channel = dying->front();
    dying->pop_front();
  }
  CloseChannel(channel);
}

}  // namespace sluice::iwarp
