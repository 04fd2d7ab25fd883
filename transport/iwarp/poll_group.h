// Queue pairs whose sockets one thread reads: those of the CQs of one
// completion channel, or of one CQ without a channel. Whoever polls such a CQ,
// or waits on the channel, makes their progress; nobody else does, unless the
// process has a helper thread.
//
// The group's mutex (GroupLock) guards its queue pairs with all they have.
// Under it come, innermost, those of CQs, SRQs and event queues; the connection
// manager's is outside of it: what a queue pair has to tell the manager is a
// Note, delivered when the mutex is free.
#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/intrusive_list.h"
#include "transport/iwarp/deadline.h"
#include "transport/iwarp/late_queue.h"
#include "transport/iwarp/limits.h"
#include "transport/iwarp/memory.h"

namespace sluice::iwarp {

struct Cq;
struct Qp;

// What happened to a connection, for its id.
struct Note {
  enum class Kind : uint8_t {
    kFirstFpdu,     // the initiator has spoken
    kDisconnected,  // the stream is over
  };
  uint64_t id_serial = 0;
  Kind kind = Kind::kDisconnected;
};
// The connection manager's. Called without any lock.
void DeliverNotes(const std::vector<Note>& notes);

// What one system call sends.
struct SendBatch {
  std::array<iovec, kBatchPieces> pieces;
  std::array<uint32_t, kBatchPieces> keys;  // of the region; 0: in `text`
  int piece_count = 0;
  uint64_t bytes = 0;
  uint32_t text_used = 0;
  std::array<std::byte, kBatchText> text;
};

class PollGroup : public std::enable_shared_from_this<PollGroup> {
 public:
  PollGroup();
  ~PollGroup();
  PollGroup(const PollGroup&) = delete;
  PollGroup& operator=(const PollGroup&) = delete;

  // Readable when there may be something to do. -1: no descriptor was left.
  int epoll_fd() const { return epoll_fd_; }
  // Makes that so by another descriptor, which is only waited for.
  bool Watch(int fd);
  // Makes it readable until somebody advances. Thread-safe.
  void Wake();
  // A receive has come for a queue pair of this group that waited for one.
  // Under any lock but its own.
  void WakeQp(uint32_t number);

  // Reads and writes what can be, within bounds. True when there was more to do
  // than that: then nothing may make epoll_fd() readable again. `collecting`:
  // the channel whose events the caller takes next.
  bool Advance(const ibv_comp_channel* collecting);
  // The same by the helper thread, who leaves it alone while others come.
  bool AdvanceAsHelper() { return AdvanceLocked(nullptr); }
  // Queue pairs of another group complete to a CQ of this one: who waits for
  // this group is woken for that one, too.
  void Follow(const std::shared_ptr<PollGroup>& other);
  void Unfollow(const std::shared_ptr<PollGroup>& other);
  // Advance() of those, by who is about to wait for this one.
  bool AdvanceFollowed();
  uint32_t user_serial() const {
    return user_serial_.load(std::memory_order_relaxed);
  }
  bool is_waited_for() const {
    return waiters_.load(std::memory_order_relaxed) > 0;
  }
  // Somebody sleeps in epoll_fd(), and will advance.
  void BeginWait() { waiters_.fetch_add(1, std::memory_order_relaxed); }
  void EndWait();
  // Delivers the notes that there are. Called without any lock.
  void TellNotes();
  // Sends what was posted and waits for company.
  void SendPosted();
  bool has_posted() const {
    return has_posted_.load(std::memory_order_relaxed);
  }

  // --- all below: guarded by the mutex (GroupLock) ---

  // A connected queue pair comes and goes.
  bool Add(Qp* qp);
  void Remove(Qp* qp);
  // Serves it in the next round.
  void MarkReady(Qp* qp);
  // Its socket takes no more, or does again.
  void SetBlocked(Qp* qp, bool blocked);
  // Sends for it at the next occasion.
  void MarkPosted(Qp* qp);
  // A queue pair's deadline may have come nearer.
  void SetDeadline(int64_t nanos);

  const ibv_comp_channel* collecting = nullptr;
  // Counts occasions at which posted work requests leave.
  uint32_t serial = 0;
  std::vector<Note> notes;
  // Memory that is being used, and the CQ that is being filled (its lock is
  // held): kept for the next message, which uses the same ones.
  PinCache pins;
  Cq* open_cq = nullptr;
  // Gives both back: after each system call, and before anything that waits.
  void LetGo() {
    pins.Release();
    CloseCq();
  }
  void CloseCq();
  LateQueue late;
  SendBatch batch;
  std::array<std::byte, kHeldMax + kReceiveBuffer> buffer;

 private:
  friend class GroupLock;

  bool AdvanceLocked(const ibv_comp_channel* collecting);
  bool ReadsDirectly() const;
  void CollectDirectly();
  void SendPostedLocked();
  void TakeWake();
  void CollectReady();
  void Serve(Qp* qp);
  void CheckDeadlines();
  void FailDeadCqs();

  // progress_fd_, apart from epoll_fd_. -1: no descriptor was left.
  int SplitProgress();

  std::mutex mutex_;

  struct Followed {
    std::shared_ptr<PollGroup> group;
    int count;
  };
  std::mutex followed_mutex_;
  std::vector<Followed> followed_;  // guarded by followed_mutex_
  std::atomic<bool> follows_{false};

  const int epoll_fd_;
  const int wake_fd_;
  // Where all is watched that this group's progress waits for: epoll_fd_, or,
  // as soon as it is followed, one that epoll_fd_ and the followers watch. It
  // holds no other epoll, so that two may follow each other.
  int progress_fd_;
  std::atomic<bool> woken_{false};
  std::mutex woken_mutex_;
  std::vector<uint32_t> woken_qps_;  // numbers; guarded by woken_mutex_
  std::atomic<uint32_t> user_serial_{0};
  std::atomic<int> waiters_{0};
  int timer_fd_ = -1;
  int64_t deadline_nanos_ = kNever;
  uint32_t dead_cqs_seen_ = 0;
  uint32_t rounds_without_cold_ = 0;
  int blocked_count_ = 0;
  std::vector<Qp*> qps_;  // connected
  IntrusiveList<Qp> ready_;
  std::vector<Qp*> posted_;
  std::atomic<bool> has_posted_{false};
};

// Holds the group's mutex. Nothing is kept beyond it.
class GroupLock {
 public:
  explicit GroupLock(PollGroup* group) : group_(group) {
    group_->mutex_.lock();
  }
  ~GroupLock() {
    group_->LetGo();
    group_->mutex_.unlock();
  }
  GroupLock(const GroupLock&) = delete;
  GroupLock& operator=(const GroupLock&) = delete;

 private:
  PollGroup* const group_;
};

}  // namespace sluice::iwarp
