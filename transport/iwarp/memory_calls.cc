#include <cerrno>

#include "transport/iwarp/calls.h"
#include "transport/iwarp/device.h"
#include "transport/iwarp/limits.h"
#include "transport/iwarp/memory.h"

namespace sluice::iwarp {
namespace {

// Of IBV_ACCESS_*: what a region may ask for. Optional bits say nothing here.
constexpr int kAccessServed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED |
                              IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                              IBV_ACCESS_OPTIONAL_RANGE;

}  // namespace

ibv_pd* AllocPd(ibv_context* context) {
  Device& device = Device::Get();
  if (device.pd_count.fetch_add(1) >= kPdMax) {
    device.pd_count.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  auto* pd = new Pd;
  pd->context = context;
  pd->handle = 0;
  return pd;
}

int DeallocPd(ibv_pd* raw) {
  Pd* pd = Pd::From(raw);
  if (pd->users.load() != 0) return EBUSY;
  delete pd;
  Device::Get().pd_count.fetch_sub(1);
  return 0;
}

ibv_mr* RegMrIova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                  int access) {
  const bool remote_write =
      (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  const bool local_write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if ((access & ~kAccessServed) != 0 || (remote_write && !local_write) ||
      iova + length < iova) {
    errno = EINVAL;
    return nullptr;
  }
  auto* mr = new Mr;
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->access = access;
  mr->iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  if (!Device::Get().memory.Add(mr)) {
    delete mr;
    errno = ENOMEM;
    return nullptr;
  }
  Pd::From(pd)->users.fetch_add(1);
  return mr;
}

ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length, int access) {
  return RegMrIova(pd, address, length, reinterpret_cast<uint64_t>(address),
                   access);
}

int DeregMr(ibv_mr* raw) {
  Mr* mr = Mr::From(raw);
  Device::Get().memory.Remove(mr);
  Pd::From(mr->pd)->users.fetch_sub(1);
  delete mr;
  return 0;
}

}  // namespace sluice::iwarp
