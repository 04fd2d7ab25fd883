#include "tests/verbs/events.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::verbs {
namespace {

const void* ElementOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    default:
      return nullptr;
  }
}

}  // namespace

CmEvents::CmEvents() : channel_(Api().create_event_channel()) {
  EXPECT_NE(channel_, nullptr);
  if (channel_ != nullptr) SetNonblocking(channel_->fd);
}

CmEvents::~CmEvents() {
  if (channel_ != nullptr) Api().destroy_event_channel(channel_);
}

void CmEvents::Pump() {
  if (held) return;
  rdma_cm_event* event = nullptr;
  while (Api().get_cm_event(channel_, &event) == 0) {
    CmSeen copy;
    copy.type = event->event;
    copy.status = event->status;
    copy.id = event->id;
    copy.listen_id = event->listen_id;
    const rdma_conn_param& param = event->param.conn;
    const auto* data = static_cast<const std::byte*>(param.private_data);
    if (data != nullptr) {
      copy.private_data.assign(data, data + param.private_data_len);
    }
    copy.initiator_depth = param.initiator_depth;
    copy.responder_resources = param.responder_resources;
    EXPECT_EQ(Api().ack_cm_event(event), 0);
    seen.push_back(std::move(copy));
  }
}

CmSeen CmEvents::Expect(rdma_cm_event_type type, absl::Duration wait) {
  if (!Until([this] { return !seen.empty(); }, wait)) {
    ADD_FAILURE() << "no event, not " << rdma_event_str(type);
    return {};
  }
  const CmSeen first = seen.front();
  seen.pop_front();
  EXPECT_EQ(first.type, type)
      << rdma_event_str(first.type) << " (" << first.status << "), not "
      << rdma_event_str(type);
  return first.type == type ? first : CmSeen();
}

int CmEvents::Count(rdma_cm_event_type type) const {
  return static_cast<int>(
      std::count_if(seen.begin(), seen.end(),
                    [type](const CmSeen& one) { return one.type == type; }));
}

bool CmEvents::Has(rdma_cm_event_type type) const { return Count(type) > 0; }

AsyncEvents::AsyncEvents() {
  SetNonblocking(Device().context->async_fd);
  // What earlier tests have left.
  Pump();
  seen_.clear();
}

void AsyncEvents::Pump() {
  ibv_async_event event;
  while (Api().get_async_event(Device().context, &event) == 0) {
    seen_.push_back({event.event_type, ElementOf(event)});
    Api().ack_async_event(&event);
  }
}

int AsyncEvents::Count(ibv_event_type type, const void* element) const {
  return static_cast<int>(
      std::count_if(seen_.begin(), seen_.end(), [=](const Seen& one) {
        return one.type == type && one.element == element;
      }));
}

}  // namespace sluice::verbs
