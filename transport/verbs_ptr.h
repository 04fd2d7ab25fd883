// Verbs objects that free themselves, through the table they came from. Move
// only; declare them in the order context, PD, memory then its MR, channel, CQ,
// so that they die in reverse.
#pragma once

#include <cerrno>
#include <memory>

#include "core/check.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::transport {

struct VerbsDeleter {
  const VerbsApi* api = nullptr;

  // EBUSY: something made from it outlived it, our bug. Other errors come from
  // a device that is gone; the object is freed all the same.
  void operator()(ibv_pd* pd) const {
    SLUICE_CHECK(api->dealloc_pd(pd) != EBUSY);
  }
  void operator()(ibv_mr* mr) const { api->dereg_mr(mr); }
  void operator()(ibv_srq* srq) const {
    SLUICE_CHECK(api->destroy_srq(srq) != EBUSY);
  }
  void operator()(ibv_comp_channel* channel) const {
    SLUICE_CHECK(api->destroy_comp_channel(channel) != EBUSY);
  }
  void operator()(ibv_cq* cq) const {
    SLUICE_CHECK(api->destroy_cq(cq) != EBUSY);
  }
};

template <typename T>
using VerbsPtr = std::unique_ptr<T, VerbsDeleter>;

}  // namespace sluice::transport
