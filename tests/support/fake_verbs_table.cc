// The table: every call of fake_verbs_calls.h behind a guard that counts it
// and makes it fail when a fault says so.
#include <cerrno>
#include <type_traits>

#include "tests/support/fake_verbs.h"
#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"
#include "transport/verbs/call_guard.h"

namespace sluice {
namespace fake {
namespace {

Fabric* FabricOf(ibv_context* context) {
  return Context::From(context)->fabric;
}
Fabric* FabricOf(rdma_cm_id* id) { return Id::From(id)->fabric; }
Fabric* FabricOf(rdma_event_channel* channel) {
  return channel == nullptr ? CurrentFabric()
                            : EventChannel::From(channel)->fabric;
}
Fabric* FabricOf(rdma_cm_event* event) {
  return static_cast<CmEvent*>(event)->owner->fabric;
}
Fabric* FabricOf(int* /*count*/) { return CurrentFabric(); }
Fabric* FabricOf() { return CurrentFabric(); }
template <typename Object>
requires std::is_same_v<decltype(Object::context), ibv_context*> Fabric*
FabricOf(Object* object) {
  return FabricOf(object->context);
}
// The first argument is the handle.
template <typename First, typename... Rest>
Fabric* HandleFabric(First first, Rest...) {
  return FabricOf(first);
}
Fabric* HandleFabric() { return FabricOf(); }

// Of the fabric that the handle belongs to; FailAnyCall counts the call or not.
template <bool kCounts>
struct FaultSource {
  template <typename... Args>
  static int ErrorOf(const char* name, Args... args) {
    return CountCall(HandleFabric(args...), name, kCounts);
  }
};

template <CallName kName, auto kCall>
constexpr auto kReturns =
    &CallGuard<kName, FaultSource<true>, kReturnsErrno, kCall>::Call;
template <CallName kName, auto kCall>
constexpr auto kSets =
    &CallGuard<kName, FaultSource<true>, kSetsErrno, kCall>::Call;
template <CallName kName, auto kCall>
constexpr auto kReleaseReturns =
    &CallGuard<kName, FaultSource<false>, kReturnsErrno, kCall>::Call;
template <CallName kName, auto kCall>
constexpr auto kReleaseSets =
    &CallGuard<kName, FaultSource<false>, kSetsErrno, kCall>::Call;

// The fabric has no shared receive queues.
ibv_srq* NoSrq(ibv_pd* /*pd*/, ibv_srq_init_attr* /*attr*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

constexpr VerbsApi kTable = {
    .name = "fake",
    .get_device_list = kReleaseSets<"get_device_list", &GetDeviceList>,
    .free_device_list = &FreeDeviceList,
    .get_device_name = &GetDeviceName,
    .query_device = kReturns<"query_device", &QueryDevice>,
    .query_port = kReturns<"query_port", &QueryPort>,
    .get_async_event = kReleaseSets<"get_async_event", &GetAsyncEvent>,
    .ack_async_event = &AckAsyncEvent,
    .alloc_pd = kSets<"alloc_pd", &AllocPd>,
    .dealloc_pd = kReleaseReturns<"dealloc_pd", &DeallocPd>,
    .reg_mr = kSets<"reg_mr", &RegMr>,
    .dereg_mr = kReleaseReturns<"dereg_mr", &DeregMr>,
    .create_comp_channel = kSets<"create_comp_channel", &CreateCompChannel>,
    .destroy_comp_channel =
        kReleaseReturns<"destroy_comp_channel", &DestroyCompChannel>,
    .create_cq = kSets<"create_cq", &CreateCq>,
    .destroy_cq = kReleaseReturns<"destroy_cq", &DestroyCq>,
    .get_cq_event = kReleaseSets<"get_cq_event", &GetCqEvent>,
    .ack_cq_events = &AckCqEvents,
    .create_srq = &NoSrq,
    .destroy_srq = [](ibv_srq*) { return EOPNOTSUPP; },
    .modify_srq = [](ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; },
    .query_srq = [](ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; },
    .modify_qp = kReturns<"modify_qp", &ModifyQp>,
    .query_qp = kReturns<"query_qp", &QueryQp>,
    .create_event_channel = kSets<"create_event_channel", &CreateEventChannel>,
    .destroy_event_channel = &DestroyEventChannel,
    .get_cm_event = kReleaseSets<"get_cm_event", &GetCmEvent>,
    .ack_cm_event = kReleaseSets<"ack_cm_event", &AckCmEvent>,
    .create_id = kSets<"create_id", &CreateId>,
    .destroy_id = kReleaseSets<"destroy_id", &DestroyId>,
    .set_option = kSets<"set_option", &SetOption>,
    .bind_addr = kSets<"bind_addr", &BindAddr>,
    .resolve_addr = kSets<"resolve_addr", &ResolveAddr>,
    .resolve_route = kSets<"resolve_route", &ResolveRoute>,
    .create_qp = kSets<"create_qp", &CreateQp>,
    .destroy_qp = &DestroyQp,
    .connect = kSets<"connect", &Connect>,
    .listen = kSets<"listen", &Listen>,
    .accept = kSets<"accept", &Accept>,
    .reject = kSets<"reject", &Reject>,
    .disconnect = kSets<"disconnect", &Disconnect>,
    .migrate_id = kSets<"migrate_id", &MigrateId>,
    .get_src_port = &GetSrcPort,
    .get_devices = kSets<"get_devices", &GetDevices>,
    .free_devices = &FreeDevices,
};

}  // namespace
}  // namespace fake

const VerbsApi& FakeFabric::api() const { return fake::kTable; }

}  // namespace sluice
