// Completion channels and completion queues [iwarp §4.5, §4.6]. A CQ holds just
// as many completions as it says: one more, and it is lost with all its queue
// pairs, as on a device.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/iwarp/event_queue.h"
#include "transport/iwarp/poll_group.h"

namespace sluice::iwarp {

struct Cq;
struct Qp;

struct CompChannel : ibv_comp_channel {
  static CompChannel* From(ibv_comp_channel* channel) {
    return static_cast<CompChannel*>(channel);
  }
  std::shared_ptr<PollGroup> group;
  EventQueue<Cq*> events;
  std::mutex mutex;  // guards refcnt
  int own_fd = -1;   // `fd`, where it is not the group's
};

enum class Arming : uint8_t { kNone, kSolicited, kAny };

struct Cq : ibv_cq {
  static Cq* From(ibv_cq* cq) { return static_cast<Cq*>(cq); }

  std::shared_ptr<PollGroup> group;  // the channel's; without one, its own

  std::mutex lock;  // of one group's thread at a time: PollGroup::open_cq
  // --- guarded by `lock` ---
  std::vector<ibv_wc> ring;  // of `cqe` entries
  uint32_t first = 0;
  Arming arming = Arming::kNone;
  std::vector<Qp*> qps;  // a queue pair that uses it twice is there twice
  // The groups of those queue pairs whose home is not `group`, likewise.
  std::vector<std::shared_ptr<PollGroup>> groups;
  // --- guarded by ibv_cq::mutex ---
  uint32_t delivered_events = 0;        // of the channel
  uint32_t delivered_async_events = 0;  // IBV_EVENT_CQ_ERR
  // --- read without it, too ---
  std::atomic<uint32_t> count{0};
  std::atomic<bool> dead{false};  // takes nothing more
  std::atomic<uint32_t> polls{0};
  std::atomic<bool> has_groups{false};
};

// CQs that died so far, in this process: a group that sees it change looks
// whether some of its queue pairs used them.
std::atomic<uint32_t>& DeadCqCount();

// One completion, by the progress of `group`, whose mutex is held. Notifies if
// the CQ is armed for it: `solicited` for errors as well. One that does not fit
// is lost, and the CQ with it. The CQ stays locked until the group lets it go.
void AddCompletion(PollGroup* group, Cq* cq, const ibv_wc& wc, bool solicited);
// The same for one that may have been late, and is not any more.
void PutCompletion(PollGroup* group, Cq* cq, const ibv_wc& wc, bool solicited);
// The event of a CQ with a channel.
void PushNotification(PollGroup* group, Cq* cq);
// ibv_req_notify_cq.
void ArmCq(Cq* cq, Arming arming);
// Takes out the completions of a queue pair that is being destroyed.
void PurgeCompletions(Cq* cq, uint32_t qp_number);

void AttachQp(Cq* cq, Qp* qp);
void DetachQp(Cq* cq, Qp* qp);

}  // namespace sluice::iwarp
