#include "transport/iwarp/poll_group.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/check.h"
#include "core/clock.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/helper.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/qp.h"
#include "transport/iwarp/wait.h"

namespace sluice::iwarp {
namespace {

// Edges: what was told once is remembered (MarkReady), so that a socket whose
// data waits for a receive does not keep everybody awake. EPOLLOUT only while a
// socket is full: where it has room, everybody would be told so for ever.
constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

bool ControlSocket(int epoll_fd, int operation, Qp* qp) {
  epoll_event event = {};
  event.events = kSocketEvents | (qp->tx.blocked ? EPOLLOUT : 0u);
  event.data.ptr = qp;
  return epoll_ctl(epoll_fd, operation, qp->fd, &event) == 0;
}

}  // namespace

PollGroup::PollGroup()
    : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      progress_fd_(epoll_fd_) {
  if (wake_fd_ >= 0) Watch(wake_fd_);
}

PollGroup::~PollGroup() {
  SLUICE_CHECK(qps_.empty());
  if (timer_fd_ >= 0) close(timer_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
  if (progress_fd_ != epoll_fd_) close(progress_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool PollGroup::Watch(int fd) { return WatchReadable(epoll_fd_, fd); }

int PollGroup::SplitProgress() {
  const GroupLock lock(this);
  if (progress_fd_ != epoll_fd_) return progress_fd_;
  const int made = epoll_create1(EPOLL_CLOEXEC);
  if (made < 0) return -1;
  for (const int fd : {wake_fd_, timer_fd_}) {
    if (fd < 0) continue;
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    WatchReadable(made, fd);
  }
  // What is in a socket is told again.
  for (Qp* qp : qps_) {
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, qp->fd, nullptr);
    ControlSocket(made, EPOLL_CTL_ADD, qp);
  }
  Watch(made);
  progress_fd_ = made;
  return made;
}

void PollGroup::Wake() {
  if (woken_.exchange(true, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof(one));
  SLUICE_CHECK(written == sizeof(one));
}

// The descriptor first: who wakes us in between writes nothing, and what it has
// to say is found by the round that now begins.
void PollGroup::TakeWake() {
  if (!woken_.load(std::memory_order_acquire)) return;
  uint64_t count;
  // Who wakes us may not have written yet: then a later round reads it.
  if (read(wake_fd_, &count, sizeof(count)) != sizeof(count)) return;
  woken_.exchange(false, std::memory_order_acq_rel);
  std::vector<uint32_t> numbers;
  {
    const std::lock_guard lock(woken_mutex_);
    numbers.swap(woken_qps_);
  }
  if (numbers.empty()) return;
  for (Qp* qp : qps_) {
    if (std::ranges::find(numbers, qp->qp_num) != numbers.end()) MarkReady(qp);
  }
}

void PollGroup::CloseCq() {
  if (open_cq == nullptr) return;
  open_cq->lock.unlock();
  open_cq = nullptr;
}

void PollGroup::EndWait() {
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  if (GetOptions().helper_thread) TellHelper();
}

void PollGroup::WakeQp(uint32_t number) {
  {
    const std::lock_guard lock(woken_mutex_);
    woken_qps_.push_back(number);
  }
  Wake();
}

bool PollGroup::Add(Qp* qp) {
  if (!ControlSocket(progress_fd_, EPOLL_CTL_ADD, qp)) return false;
  qps_.push_back(qp);
  posted_.reserve(qps_.capacity());  // nothing is allocated when I/O goes on
  MarkReady(qp);
  return true;
}

void PollGroup::Remove(Qp* qp) {
  epoll_ctl(progress_fd_, EPOLL_CTL_DEL, qp->fd, nullptr);
  qps_.erase(std::find(qps_.begin(), qps_.end(), qp));
  if (qp->linked()) ready_.Remove(qp);
  if (qp->tx.blocked) --blocked_count_;
  qp->tx.blocked = false;
  if (!qp->is_posted) return;
  qp->is_posted = false;
  posted_.erase(std::find(posted_.begin(), posted_.end(), qp));
}

void PollGroup::SetBlocked(Qp* qp, bool blocked) {
  if (qp->tx.blocked == blocked) return;
  qp->tx.blocked = blocked;
  blocked_count_ += blocked ? 1 : -1;
  ControlSocket(progress_fd_, EPOLL_CTL_MOD, qp);
}

void PollGroup::MarkReady(Qp* qp) {
  if (!qp->linked()) ready_.PushBack(qp);
}

void PollGroup::MarkPosted(Qp* qp) {
  if (qp->is_posted) return;
  qp->is_posted = true;
  posted_.push_back(qp);
  has_posted_.store(true, std::memory_order_relaxed);
  if (GetOptions().helper_thread) TellHelper();
}

void PollGroup::SendPosted() {
  const GroupLock lock(this);
  ++serial;
  SendPostedLocked();
}

void PollGroup::SendPostedLocked() {
  if (posted_.empty()) return;
  has_posted_.store(false, std::memory_order_relaxed);
  // One at a time: one that breaks takes itself out.
  while (!posted_.empty()) {
    Qp* qp = posted_.back();
    posted_.pop_back();
    qp->is_posted = false;
    Transmit(qp);
  }
}

bool PollGroup::Advance(const ibv_comp_channel* collecting_for) {
  user_serial_.fetch_add(1, std::memory_order_relaxed);
  return AdvanceLocked(collecting_for);
}

void PollGroup::TellNotes() {
  std::vector<Note> told;
  {
    const GroupLock lock(this);
    told.swap(notes);
  }
  if (!told.empty()) DeliverNotes(told);
}

void PollGroup::Follow(const std::shared_ptr<PollGroup>& other) {
  const std::lock_guard lock(followed_mutex_);
  for (Followed& one : followed_) {
    if (one.group != other) continue;
    ++one.count;
    return;
  }
  followed_.push_back({other, 1});
  follows_.store(true, std::memory_order_release);
  Watch(other->SplitProgress());
}

void PollGroup::Unfollow(const std::shared_ptr<PollGroup>& other) {
  const std::lock_guard lock(followed_mutex_);
  const auto found =
      std::find_if(followed_.begin(), followed_.end(),
                   [&](const Followed& one) { return one.group == other; });
  if (--found->count > 0) return;
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, other->SplitProgress(), nullptr);
  followed_.erase(found);
  follows_.store(!followed_.empty(), std::memory_order_release);
}

bool PollGroup::AdvanceFollowed() {
  if (!follows_.load(std::memory_order_acquire)) return false;
  std::vector<Followed> followed;
  {
    const std::lock_guard lock(followed_mutex_);
    followed = followed_;
  }
  bool more = false;
  for (const Followed& one : followed) {
    one.group->user_serial_.fetch_add(1, std::memory_order_relaxed);
    more |= one.group->AdvanceLocked(nullptr);
  }
  return more;
}

// A few connections are read without asking who has something to read. Whether
// a full socket has room again, only epoll knows; and an edge that it has not
// told of a socket that waits for a receive would wake a sleeper for ever.
bool PollGroup::ReadsDirectly() const {
  if (qps_.size() > kDirectSockets || blocked_count_ > 0) return false;
  return std::none_of(qps_.begin(), qps_.end(), [](const Qp* qp) {
    return qp->rx.phase == Receiver::Phase::kWaiting;
  });
}

bool PollGroup::AdvanceLocked(const ibv_comp_channel* collecting_for) {
  std::vector<Note> told;
  bool more;
  {
    const GroupLock lock(this);
    collecting = collecting_for;
    ++serial;
    TakeWake();
    SendPostedLocked();
    if (deadline_nanos_ != kNever) CheckDeadlines();
    if (ReadsDirectly()) {
      CollectDirectly();
    } else {
      CollectReady();
    }
    for (int i = 0; i < kServeBatch; ++i) {
      Qp* qp = ready_.PopFront();
      if (qp == nullptr) break;
      Serve(qp);
    }
    FailDeadCqs();
    more = !ready_.empty();
    collecting = nullptr;
    if (!notes.empty()) told.swap(notes);
  }
  if (!told.empty()) DeliverNotes(told);
  return more;
}

void PollGroup::CollectDirectly() {
  bool cold = false;
  for (Qp* qp : qps_) {
    if (qp->rx.empty_reads < kColdAfter) {
      MarkReady(qp);
    } else {
      cold = true;
    }
  }
  if (!cold) return;
  if (!ready_.empty() && ++rounds_without_cold_ < kColdRounds) return;
  rounds_without_cold_ = 0;
  CollectReady();
}

void PollGroup::CollectReady() {
  epoll_event events[kEpollBatch];
  const int count = epoll_wait(progress_fd_, events, kEpollBatch, 0);
  for (int i = 0; i < count; ++i) {
    Qp* qp = static_cast<Qp*>(events[i].data.ptr);
    if (qp == nullptr) continue;  // of those that are only waited for
    if ((events[i].events & EPOLLOUT) != 0) SetBlocked(qp, false);
    constexpr uint32_t kGone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((events[i].events & kGone) != 0) qp->rx.hung_up = true;
    MarkReady(qp);
  }
}

void PollGroup::Serve(Qp* qp) {
  const ReceiveResult result = Receive(qp);
  if (result == ReceiveResult::kGone) return;
  if (!Transmit(qp)) return;
  if (result == ReceiveResult::kMore) MarkReady(qp);
}

void PollGroup::SetDeadline(int64_t nanos) {
  if (nanos >= deadline_nanos_) return;
  deadline_nanos_ = nanos;
  if (timer_fd_ < 0) {
    timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    // Without it, deadlines are seen by who polls, and by no sleeper.
    if (timer_fd_ < 0) return;
    WatchReadable(progress_fd_, timer_fd_);
  }
  ArmTimer(timer_fd_, nanos);
}

void PollGroup::CheckDeadlines() {
  const int64_t now = Clock::Real()->NowNanos();
  if (now < deadline_nanos_) return;
  deadline_nanos_ = kNever;
  uint64_t count;
  if (timer_fd_ >= 0 && read(timer_fd_, &count, sizeof(count)) < 0) {
    count = 0;  // read by the last round, or never armed
  }
  late.Deliver(this, now);
  const std::vector<Qp*> qps = qps_;  // closing takes them out
  for (Qp* qp : qps) {
    for (const int64_t deadline :
         {qp->linger_deadline_nanos, qp->listen_deadline_nanos,
          qp->rx.wait_deadline_nanos}) {
      if (deadline > now) SetDeadline(deadline);
    }
    if (qp->linger_deadline_nanos != 0 && qp->linger_deadline_nanos <= now) {
      CloseStream(qp);
      continue;
    }
    if (qp->listen_deadline_nanos != 0 && qp->listen_deadline_nanos <= now) {
      qp->listen_deadline_nanos = 0;
      qp->must_listen_first = false;
      MarkReady(qp);
    }
    if (qp->rx.wait_deadline_nanos != 0 && qp->rx.wait_deadline_nanos <= now) {
      MarkReady(qp);  // Receive finds that the wait is over
    }
  }
}

void PollGroup::FailDeadCqs() {
  const uint32_t dead = DeadCqCount().load(std::memory_order_acquire);
  if (dead == dead_cqs_seen_) return;
  dead_cqs_seen_ = dead;
  const std::vector<Qp*> qps = qps_;
  for (Qp* qp : qps) FailIfCqIsDead(qp);
}

}  // namespace sluice::iwarp
