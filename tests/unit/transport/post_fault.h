// A device that refuses to take work requests.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transport/transport_fixture.h"

namespace sluice::transport {

// The device refuses a queue pair's sends from the n-th on, as one whose send
// queue is full, or siw's once its connection is gone.
struct PostFault {
  explicit PostFault(Transport* t) : context(t->context()) {
    real_send = context->ops.post_send;
    real_receive = context->ops.post_recv;
    context->ops.post_send = &Send;
    context->ops.post_recv = &Receive;
    current = this;
  }
  ~PostFault() {
    context->ops.post_send = real_send;
    context->ops.post_recv = real_receive;
    current = nullptr;
  }

  template <typename Wr>
  static int Post(ibv_qp* qp, Wr* wr, Wr** bad, int (*real)(ibv_qp*, Wr*, Wr**),
                  int* left) {
    if (qp->qp_context != nullptr && *left >= 0 &&
        (current->victim == nullptr || qp == current->victim)) {
      Wr* last = nullptr;
      Wr* next = wr;
      for (; next != nullptr && *left > 0; --*left) {
        last = next;
        next = next->next;
      }
      if (next != nullptr) {
        if (last != nullptr) {
          last->next = nullptr;
          EXPECT_EQ(real(qp, wr, bad), 0);
          last->next = next;
        }
        *bad = next;
        return ENOMEM;
      }
    }
    return real(qp, wr, bad);
  }
  static int Send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
    return Post(qp, wr, bad, current->real_send, &current->sends_left);
  }
  static int Receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    return Post(qp, wr, bad, current->real_receive, &current->receives_left);
  }

  static inline PostFault* current = nullptr;
  ibv_context* context;
  int (*real_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
  int (*real_receive)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
  ibv_qp* victim = nullptr;  // null: all of the target's
  int sends_left = -1;       // -1: all succeed
  int receives_left = -1;
};

}  // namespace sluice::transport
