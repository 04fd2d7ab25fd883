// Completion channels, completion queues, arming and notification.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

// Uses up the arming if the completion is of the kind waited for.
void Notify(Fabric* fabric, Cq* cq, bool solicited) {
  const bool wanted = cq->arming == Arming::kAny ||
                      (cq->arming == Arming::kSolicited && solicited);
  if (!wanted) return;
  cq->arming = Arming::kNone;
  if (cq->channel == nullptr) return;
  ++fabric->notification_count;
  const int every = fabric->faults.swallow_every;
  if (every != 0 && fabric->notification_count % every == 0) {
    ++fabric->swallowed_count;
    return;
  }
  CompChannel::From(cq->channel)->events.Push(cq);
}

// Its queue entries are free again only now, after the poll.
void FreeQueueEntries(Fabric* fabric, const CqEntry& entry) {
  const auto found = fabric->qps_by_number.find(entry.wc.qp_num);
  if (found == fabric->qps_by_number.end()) return;  // destroyed meanwhile
  Qp* qp = found->second;
  qp->outstanding_sends -= static_cast<uint32_t>(entry.freed_sends);
  qp->outstanding_receives -= static_cast<uint32_t>(entry.freed_receives);
  if (entry.wire_generation == qp->wire_generation) --qp->wire_unpolled;
}

int GivenCqe(const FakeDeviceOptions& options, int asked) {
  if (options.exact_cqe) return asked;
  const unsigned int rounded =
      std::bit_ceil(static_cast<unsigned int>(asked) + 1) - 1;
  return std::min(static_cast<int>(rounded), options.max_cqe);
}

}  // namespace

void AddCompletion(Cq* cq, const CqEntry& entry, bool solicited) {
  Fabric* fabric = Context::From(cq->context)->fabric;
  if (cq->dead) return;
  if (static_cast<int>(cq->entries.size()) == cq->cqe) {
    ++fabric->overflow_count;
    KillCq(cq);
    return;
  }
  cq->entries.push_back(entry);
  ++fabric->completion_count;
  cq->high_water =
      std::max(cq->high_water, static_cast<int>(cq->entries.size()));
  Notify(fabric, cq, solicited);
}

void KillCq(Cq* cq) {
  if (cq->dead) return;
  Context* context = Context::From(cq->context);
  cq->dead = true;
  ibv_async_event event = {};
  event.element.cq = cq;
  event.event_type = IBV_EVENT_CQ_ERR;
  PushAsyncEvent(context, event);
  for (const auto& qp : context->fabric->qps.all()) {
    if (qp->send_cq == cq || qp->recv_cq == cq) Fail(qp.get());
  }
}

ibv_comp_channel* CreateCompChannel(ibv_context* raw) {
  Context* context = Context::From(raw);
  const std::lock_guard lock(context->fabric->mutex);
  if (context->removed) return NullResult(EIO);
  CompChannel* channel =
      context->fabric->comp_channels.Add(std::make_unique<CompChannel>());
  channel->context = raw;
  channel->fd = channel->events.fd();
  return channel;
}

int DestroyCompChannel(ibv_comp_channel* raw) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  const std::lock_guard lock(fabric->mutex);
  CompChannel* channel = CompChannel::From(raw);
  if (channel->cq_count != 0) return EBUSY;
  fabric->comp_channels.Remove(channel);
  return 0;
}

ibv_cq* CreateCq(ibv_context* raw, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector) {
  Context* context = Context::From(raw);
  const std::lock_guard lock(context->fabric->mutex);
  const FakeDeviceOptions& options = context->options();
  if (context->removed) return NullResult(EIO);
  if (cqe < 1 || cqe > options.max_cqe) return NullResult(EINVAL);
  if (comp_vector < 0 || comp_vector >= options.comp_vectors) {
    return NullResult(EINVAL);
  }
  Cq* cq = context->fabric->cqs.Add(std::make_unique<Cq>());
  cq->context = raw;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = GivenCqe(options, cqe);
  if (channel != nullptr) {
    ++CompChannel::From(channel)->cq_count;
    ++channel->refcnt;
  }
  return cq;
}

int DestroyCq(ibv_cq* raw) {
  Context* context = Context::From(raw->context);
  const std::lock_guard lock(context->fabric->mutex);
  Cq* cq = Cq::From(raw);
  if (cq->qp_count != 0) return EBUSY;
  SLUICE_CHECK(cq->unacked_events == 0);        // would hang for ever
  SLUICE_CHECK(cq->unacked_async_events == 0);  // so would this
  if (cq->channel != nullptr) {
    CompChannel* channel = CompChannel::From(cq->channel);
    channel->events.Extract([cq](const Cq* event) { return event == cq; });
    --channel->cq_count;
    --channel->refcnt;
  }
  context->async_events.Extract([cq](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
  });
  context->fabric->cqs.Remove(cq);
  return 0;
}

int GetCqEvent(ibv_comp_channel* raw, ibv_cq** cq, void** cq_context) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  std::unique_lock lock(fabric->mutex);
  Cq* event = nullptr;
  const int error = CompChannel::From(raw)->events.Take(&lock, &event);
  if (error != 0) return CmResult(error);
  ++event->unacked_events;
  ++fabric->unacked_events;
  *cq = event;
  *cq_context = event->cq_context;
  return 0;
}

void AckCqEvents(ibv_cq* raw, unsigned int events_count) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  const std::lock_guard lock(fabric->mutex);
  Cq* cq = Cq::From(raw);
  SLUICE_CHECK(events_count <= cq->unacked_events);
  cq->unacked_events -= events_count;
  fabric->unacked_events -= static_cast<int>(events_count);
}

int PollCq(ibv_cq* raw, int num_entries, ibv_wc* wc) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  const std::lock_guard lock(fabric->mutex);
  Cq* cq = Cq::From(raw);
  AgeWires(fabric, nullptr, cq, /*arming=*/false);
  int count = 0;
  while (count < num_entries && !cq->entries.empty()) {
    wc[count++] = cq->entries.front().wc;
    FreeQueueEntries(fabric, cq->entries.front());
    cq->entries.pop_front();
  }
  Settle(fabric);
  return count;
}

int ReqNotifyCq(ibv_cq* raw, int solicited_only) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  std::unique_lock lock(fabric->mutex);
  if (fabric->faults.on_arm != nullptr) {
    const auto on_arm = fabric->faults.on_arm;
    lock.unlock();
    on_arm(raw);
    lock.lock();
  }
  Cq* cq = Cq::From(raw);
  AgeWires(fabric, nullptr, cq, /*arming=*/true);
  if (solicited_only == 0) {
    cq->arming = Arming::kAny;
  } else if (cq->arming == Arming::kNone) {
    cq->arming = Arming::kSolicited;
  }
  Settle(fabric);
  return 0;
}

}  // namespace sluice::fake
