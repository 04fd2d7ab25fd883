// The table: every call of fake_verbs_calls.h behind a guard that counts it
// and makes it fail when a fault says so.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <type_traits>

#include "tests/support/fake_verbs.h"
#include "tests/support/fake_verbs_calls.h"
#include "tests/support/fake_verbs_fabric.h"

namespace sluice {
namespace fake {
namespace {

// A string literal as a template argument.
template <size_t kSize>
struct Name {
  consteval Name(const char (&literal)[kSize]) {  // NOLINT: implicit by design
    std::copy_n(literal, kSize, text);
  }
  char text[kSize];
};

// How a call reports an errno, and whether FailAnyCall counts it.
enum class Style {
  kReturnsErrno,
  kSetsErrno,  // null or -1
  kUncountedReturnsErrno,
  kUncountedSetsErrno,
};

constexpr bool Counts(Style style) {
  return style == Style::kReturnsErrno || style == Style::kSetsErrno;
}

constexpr bool ReturnsErrno(Style style) {
  return style == Style::kReturnsErrno ||
         style == Style::kUncountedReturnsErrno;
}

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

template <Name kName, Style kStyle, auto kCall>
struct Guard;

template <Name kName, Style kStyle, typename Result, typename... Args,
          Result (*kCall)(Args...)>
struct Guard<kName, kStyle, kCall> {
  static Result Call(Args... args) {
    const int error =
        CountCall(HandleFabric(args...), kName.text, Counts(kStyle));
    if (error == 0) return kCall(args...);
    if constexpr (ReturnsErrno(kStyle)) return error;
    errno = error;
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else {
      return -1;
    }
  }
};

constexpr auto kReturns = Style::kReturnsErrno;
constexpr auto kSets = Style::kSetsErrno;
constexpr auto kReleaseReturns = Style::kUncountedReturnsErrno;
constexpr auto kReleaseSets = Style::kUncountedSetsErrno;

// The fabric has no shared receive queues.
ibv_srq* NoSrq(ibv_pd* /*pd*/, ibv_srq_init_attr* /*attr*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

constexpr VerbsApi kTable = {
    .name = "fake",
    .get_device_list =
        &Guard<"get_device_list", kReleaseSets, &GetDeviceList>::Call,
    .free_device_list = &FreeDeviceList,
    .get_device_name = &GetDeviceName,
    .query_device = &Guard<"query_device", kReturns, &QueryDevice>::Call,
    .query_port = &Guard<"query_port", kReturns, &QueryPort>::Call,
    .get_async_event =
        &Guard<"get_async_event", kReleaseSets, &GetAsyncEvent>::Call,
    .ack_async_event = &AckAsyncEvent,
    .alloc_pd = &Guard<"alloc_pd", kSets, &AllocPd>::Call,
    .dealloc_pd = &Guard<"dealloc_pd", kReleaseReturns, &DeallocPd>::Call,
    .reg_mr = &Guard<"reg_mr", kSets, &RegMr>::Call,
    .dereg_mr = &Guard<"dereg_mr", kReleaseReturns, &DeregMr>::Call,
    .create_comp_channel =
        &Guard<"create_comp_channel", kSets, &CreateCompChannel>::Call,
    .destroy_comp_channel = &Guard<"destroy_comp_channel", kReleaseReturns,
                                   &DestroyCompChannel>::Call,
    .create_cq = &Guard<"create_cq", kSets, &CreateCq>::Call,
    .destroy_cq = &Guard<"destroy_cq", kReleaseReturns, &DestroyCq>::Call,
    .get_cq_event = &Guard<"get_cq_event", kReleaseSets, &GetCqEvent>::Call,
    .ack_cq_events = &AckCqEvents,
    .create_srq = &NoSrq,
    .destroy_srq = [](ibv_srq*) { return EOPNOTSUPP; },
    .modify_srq = [](ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; },
    .query_srq = [](ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; },
    .modify_qp = &Guard<"modify_qp", kReturns, &ModifyQp>::Call,
    .query_qp = &Guard<"query_qp", kReturns, &QueryQp>::Call,
    .create_event_channel =
        &Guard<"create_event_channel", kSets, &CreateEventChannel>::Call,
    .destroy_event_channel = &DestroyEventChannel,
    .get_cm_event = &Guard<"get_cm_event", kReleaseSets, &GetCmEvent>::Call,
    .ack_cm_event = &Guard<"ack_cm_event", kReleaseSets, &AckCmEvent>::Call,
    .create_id = &Guard<"create_id", kSets, &CreateId>::Call,
    .destroy_id = &Guard<"destroy_id", kReleaseSets, &DestroyId>::Call,
    .set_option = &Guard<"set_option", kSets, &SetOption>::Call,
    .bind_addr = &Guard<"bind_addr", kSets, &BindAddr>::Call,
    .resolve_addr = &Guard<"resolve_addr", kSets, &ResolveAddr>::Call,
    .resolve_route = &Guard<"resolve_route", kSets, &ResolveRoute>::Call,
    .create_qp = &Guard<"create_qp", kSets, &CreateQp>::Call,
    .destroy_qp = &DestroyQp,
    .connect = &Guard<"connect", kSets, &Connect>::Call,
    .listen = &Guard<"listen", kSets, &Listen>::Call,
    .accept = &Guard<"accept", kSets, &Accept>::Call,
    .reject = &Guard<"reject", kSets, &Reject>::Call,
    .disconnect = &Guard<"disconnect", kSets, &Disconnect>::Call,
    .migrate_id = &Guard<"migrate_id", kSets, &MigrateId>::Call,
    .get_src_port = &GetSrcPort,
    .get_devices = &Guard<"get_devices", kSets, &GetDevices>::Call,
    .free_devices = &FreeDevices,
};

}  // namespace
}  // namespace fake

const VerbsApi& FakeFabric::api() const { return fake::kTable; }

}  // namespace sluice
