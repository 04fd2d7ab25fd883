// Protection domains and memory regions, and the check of every access.
#include <cerrno>
#include <cstdint>

#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice::fake {
namespace {

constexpr int kRemoteWrites =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// A key that no region uses, neither as its lkey nor as its rkey.
uint32_t NewKey(Fabric* fabric) {
  for (;;) {
    const auto key = static_cast<uint32_t>(fabric->random());
    if (key != 0 && !fabric->mrs_by_lkey.contains(key) &&
        !fabric->mrs_by_rkey.contains(key)) {
      return key;
    }
  }
}

}  // namespace

ibv_pd* AllocPd(ibv_context* raw) {
  Context* context = Context::From(raw);
  const std::lock_guard lock(context->fabric->mutex);
  if (context->removed) return NullResult(EIO);
  Pd* pd = context->fabric->pds.Add(std::make_unique<Pd>());
  pd->context = raw;
  return pd;
}

int DeallocPd(ibv_pd* raw) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  const std::lock_guard lock(fabric->mutex);
  Pd* pd = Pd::From(raw);
  if (pd->user_count != 0) return EBUSY;
  fabric->pds.Remove(pd);
  return 0;
}

ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length_bytes, int access) {
  Context* context = Context::From(pd->context);
  Fabric* fabric = context->fabric;
  const std::lock_guard lock(fabric->mutex);
  if (context->removed) return NullResult(EIO);
  const bool remote_write = (access & kRemoteWrites) != 0;
  const bool local_write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if (length_bytes == 0) return NullResult(EINVAL);
  if (remote_write && !local_write) return NullResult(EINVAL);

  Mr* mr = fabric->mrs.Add(std::make_unique<Mr>());
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length_bytes;
  mr->access = access;
  mr->lkey = NewKey(fabric);
  fabric->mrs_by_lkey[mr->lkey] = mr;
  mr->rkey = NewKey(fabric);
  fabric->mrs_by_rkey[mr->rkey] = mr;
  ++Pd::From(pd)->user_count;
  return mr;
}

int DeregMr(ibv_mr* raw) {
  Fabric* fabric = Context::From(raw->context)->fabric;
  const std::lock_guard lock(fabric->mutex);
  fabric->mrs_by_lkey.erase(raw->lkey);
  fabric->mrs_by_rkey.erase(raw->rkey);
  --Pd::From(raw->pd)->user_count;
  fabric->mrs.Remove(static_cast<Mr*>(raw));
  return 0;
}

Mr* FindLocal(const Qp& qp, const ibv_sge& sge, bool write, bool read_sink) {
  const auto found = qp.fabric->mrs_by_lkey.find(sge.lkey);
  if (found == qp.fabric->mrs_by_lkey.end()) return nullptr;
  Mr* mr = found->second;
  if (mr->pd != qp.pd || !mr->Covers(sge.addr, sge.length)) return nullptr;
  if (write && (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0) return nullptr;
  if (read_sink && qp.options().read_sink_needs_remote_write &&
      (mr->access & IBV_ACCESS_REMOTE_WRITE) == 0) {
    return nullptr;
  }
  return mr;
}

Mr* FindRemote(const Qp& qp, uint32_t rkey, uint64_t address,
               uint64_t length_bytes, int access) {
  const auto found = qp.fabric->mrs_by_rkey.find(rkey);
  if (found == qp.fabric->mrs_by_rkey.end()) return nullptr;
  Mr* mr = found->second;
  if (mr->pd != qp.pd || !mr->Covers(address, length_bytes)) return nullptr;
  return (mr->access & access) == access ? mr : nullptr;
}

}  // namespace sluice::fake
