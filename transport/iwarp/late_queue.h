// Completions and notifications that a fault makes late (faults.h): of the
// queue pairs of one PollGroup, whose mutex guards them and whose deadlines
// bring them. Bound: what those queue pairs have posted.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

namespace sluice::iwarp {

class PollGroup;
struct Cq;
struct Qp;

class LateQueue {
 public:
  // Keeps the completion if a fault says so, or if another one of its work
  // queue is here: they come in order. False: it is not late.
  bool Keep(PollGroup* group, Cq* cq, const ibv_wc& wc, bool solicited);
  // The same for the notification of a CQ, whose lock is held.
  bool KeepNotification(PollGroup* group, Cq* cq);
  // Hands over what is due; the group's deadline is then that of the rest.
  void Deliver(PollGroup* group, int64_t now_nanos);
  // The queue pair is being destroyed: its completions never come. The group
  // may be gone soon, so that notifications of other groups' CQs come now.
  void Forget(const Qp* qp);
  void Forget(const Cq* cq);

 private:
  struct Entry {
    Cq* cq = nullptr;
    ibv_wc wc = {};
    bool solicited = false;
    bool is_notification = false;  // of `cq`, and no completion
    int64_t due_nanos = 0;
  };

  void Add(PollGroup* group, const Entry& entry, int64_t lateness_nanos);

  std::vector<Entry> entries_;  // oldest first
};

}  // namespace sluice::iwarp
