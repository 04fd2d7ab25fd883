// Completion channels and CQs as programs call them [iwarp §4.5, §4.6].
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/check.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/completion.h"
#include "transport/iwarp/device.h"
#include "transport/iwarp/faults.h"
#include "transport/iwarp/helper.h"
#include "transport/iwarp/options.h"
#include "transport/iwarp/wait.h"

namespace sluice::iwarp {
namespace {

// Rounds of a poll that finds nothing before it gives up.
constexpr int kPollRounds = 4;

// Advances every group that a completion for `cq` may come from. True when
// there is more to do for its own.
bool Advance(Cq* cq) {
  const bool more = cq->group->Advance(nullptr);
  if (!cq->has_groups.load(std::memory_order_acquire)) return more;
  std::vector<std::shared_ptr<PollGroup>> groups;
  {
    const std::lock_guard lock(cq->lock);
    groups = cq->groups;
  }
  for (const auto& group : groups) {
    if (group->Advance(nullptr)) group->Wake();
  }
  return more;
}

bool IsEmpty(const Cq& cq) {
  return cq.count.load(std::memory_order_acquire) == 0;
}

int Pop(Cq* cq, int wanted, ibv_wc* wc) {
  if (IsEmpty(*cq) && !cq->dead.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(cq->lock);
  const uint32_t count = cq->count.load(std::memory_order_relaxed);
  const uint32_t taken = std::min(count, static_cast<uint32_t>(wanted));
  const auto capacity = static_cast<uint32_t>(cq->ring.size());
  for (uint32_t i = 0; i < taken; ++i) {
    wc[i] = cq->ring[cq->first];
    if (++cq->first == capacity) cq->first = 0;
  }
  // An empty ring starts over: its first entries are in the cache.
  if (taken == count) cq->first = 0;
  cq->count.store(count - taken, std::memory_order_release);
  if (taken == 0 && cq->dead) return -1;
  return static_cast<int>(taken);
}

void CountDelivered(Cq* cq) {
  pthread_mutex_lock(&cq->mutex);
  ++cq->delivered_events;
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace

ibv_comp_channel* CreateCompChannel(ibv_context* context) {
  auto channel = std::make_unique<CompChannel>();
  channel->context = context;
  channel->refcnt = 0;
  channel->group = std::make_shared<PollGroup>();
  const bool watched = channel->events.fd() >= 0 &&
                       channel->group->epoll_fd() >= 0 &&
                       channel->group->Watch(channel->events.fd());
  if (!watched) {
    errno = EMFILE;
    return nullptr;
  }
  channel->fd = channel->group->epoll_fd();
  if (GetOptions().helper_thread) {
    // Programs that wait for this descriptor expect an event behind it.
    channel->own_fd = MakeWaitFd(channel->events.fd());
    if (channel->own_fd < 0) return nullptr;
    channel->fd = channel->own_fd;
    HelpGroup(channel->group);
  }
  return channel.release();
}

int DestroyCompChannel(ibv_comp_channel* raw) {
  CompChannel* channel = CompChannel::From(raw);
  {
    const std::lock_guard lock(channel->mutex);
    if (channel->refcnt != 0) return EBUSY;
  }
  if (channel->own_fd >= 0) close(channel->own_fd);
  delete channel;
  return 0;
}

ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector) {
  if (cqe < 1 || cqe > kCqeMax || comp_vector < 0 ||
      comp_vector >= context->num_comp_vectors) {
    errno = EINVAL;
    return nullptr;
  }
  auto cq = std::make_unique<Cq>();
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = Faults::Get().shortens_cqs() && cqe > 1 ? cqe - 1 : cqe;
  cq->ring.resize(static_cast<size_t>(cq->cqe));
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  if (channel == nullptr) {
    cq->group = std::make_shared<PollGroup>();
    if (cq->group->epoll_fd() < 0) {
      errno = EMFILE;
      return nullptr;
    }
    if (GetOptions().helper_thread) HelpGroup(cq->group);
  } else {
    CompChannel* owner = CompChannel::From(channel);
    const std::lock_guard lock(owner->mutex);
    ++owner->refcnt;
    cq->group = owner->group;
  }
  return cq.release();
}

int DestroyCq(ibv_cq* raw) {
  Cq* cq = Cq::From(raw);
  {
    const std::lock_guard lock(cq->lock);
    if (!cq->qps.empty()) return EBUSY;
    cq->arming = Arming::kNone;
  }
  {
    const GroupLock lock(cq->group.get());
    cq->group->late.Forget(cq);
  }
  if (cq->channel != nullptr) {
    CompChannel* channel = CompChannel::From(cq->channel);
    channel->events.Extract([cq](const Cq* event) { return event == cq; });
  }
  Context::From(cq->context)
      ->async_events.Extract([cq](const ibv_async_event& event) {
        return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
      });
  // Until all that was delivered is acknowledged, as the library says.
  pthread_mutex_lock(&cq->mutex);
  while (cq->comp_events_completed != cq->delivered_events ||
         cq->async_events_completed != cq->delivered_async_events) {
    pthread_cond_wait(&cq->cond, &cq->mutex);
  }
  pthread_mutex_unlock(&cq->mutex);
  if (cq->channel != nullptr) {
    CompChannel* channel = CompChannel::From(cq->channel);
    const std::lock_guard lock(channel->mutex);
    --channel->refcnt;
  }
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete cq;
  return 0;
}

int GetCqEvent(ibv_comp_channel* raw, ibv_cq** cq, void** cq_context) {
  CompChannel* channel = CompChannel::From(raw);
  while (true) {
    bool more = channel->group->AdvanceFollowed();
    more |= channel->group->Advance(channel);
    Cq* event = nullptr;
    if (channel->events.Take(&event, &CountDelivered)) {
      // Others may wait for what is left.
      channel->events.Announce(false);
      if (more) channel->group->Wake();
      *cq = event;
      *cq_context = event->cq_context;
      return 0;
    }
    // Readable then: who waits comes back at once, and who does not has others
    // to serve, however much a peer sends.
    if (more) channel->group->Wake();
    channel->group->BeginWait();
    // What was posted before that may have counted on this thread.
    channel->group->SendPosted();
    const bool readable = WaitReadable(channel->fd, channel->group->epoll_fd());
    channel->group->EndWait();
    if (!readable) return -1;
  }
}

void AckCqEvents(ibv_cq* raw, unsigned int count) {
  Cq* cq = Cq::From(raw);
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

int PollCq(ibv_cq* raw, int num_entries, ibv_wc* wc) {
  Cq* cq = Cq::From(raw);
  const uint32_t polls = cq->polls.fetch_add(1, std::memory_order_relaxed) + 1;
  if (IsEmpty(*cq) || polls % kPollsPerLook == 0) {
    bool more = Advance(cq);
    for (int i = 1; more && i < kPollRounds && IsEmpty(*cq); ++i) {
      more = Advance(cq);
    }
    // Who goes to sleep over an empty CQ must be woken for the rest.
    if (more && IsEmpty(*cq)) cq->group->Wake();
  } else if (cq->group->has_posted()) {
    cq->group->SendPosted();
  }
  return Pop(cq, num_entries, wc);
}

int ReqNotifyCq(ibv_cq* raw, int solicited_only) {
  Cq* cq = Cq::From(raw);
  if (cq->group->has_posted()) cq->group->SendPosted();
  if (Faults::any()) Faults::Get().OnArming(raw);
  ArmCq(cq, solicited_only == 0 ? Arming::kAny : Arming::kSolicited);
  return 0;
}

}  // namespace sluice::iwarp
