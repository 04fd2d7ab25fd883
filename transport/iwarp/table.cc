// VerbsApi::Iwarp(): the provider's functions, each behind a guard that makes
// it fail when a fault says so.
#include "transport/iwarp/calls.h"
#include "transport/iwarp/faults.h"
#include "transport/verbs/call_guard.h"
#include "transport/verbs/verbs_api.h"

namespace sluice {
namespace iwarp {
namespace {

struct FaultSource {
  template <typename... Args>
  static int ErrorOf(const char* name, Args... /*args*/) {
    return Faults::Get().CallError(name);
  }
};

template <CallName kName, auto kCall>
constexpr auto kReturns =
    &CallGuard<kName, FaultSource, kReturnsErrno, kCall>::Call;
template <CallName kName, auto kCall>
constexpr auto kSets = &CallGuard<kName, FaultSource, kSetsErrno, kCall>::Call;

constexpr VerbsApi kTable = {
    .name = "iwarp",
    .get_device_list = &GetDeviceList,
    .free_device_list = &FreeDeviceList,
    .get_device_name = &GetDeviceName,
    .query_device = kReturns<"query_device", &QueryDevice>,
    .query_port = kReturns<"query_port", &QueryPort>,
    .get_async_event = &GetAsyncEvent,
    .ack_async_event = &AckAsyncEvent,
    .alloc_pd = kSets<"alloc_pd", &AllocPd>,
    .dealloc_pd = &DeallocPd,
    .reg_mr = kSets<"reg_mr", &RegMr>,
    .dereg_mr = &DeregMr,
    .create_comp_channel = kSets<"create_comp_channel", &CreateCompChannel>,
    .destroy_comp_channel = &DestroyCompChannel,
    .create_cq = kSets<"create_cq", &CreateCq>,
    .destroy_cq = &DestroyCq,
    .get_cq_event = &GetCqEvent,
    .ack_cq_events = &AckCqEvents,
    .create_srq = kSets<"create_srq", &CreateSrq>,
    .destroy_srq = &DestroySrq,
    .modify_srq = kReturns<"modify_srq", &ModifySrq>,
    .query_srq = kReturns<"query_srq", &QuerySrq>,
    .modify_qp = kReturns<"modify_qp", &ModifyQp>,
    .query_qp = kReturns<"query_qp", &QueryQp>,
    .create_event_channel = kSets<"create_event_channel", &CreateEventChannel>,
    .destroy_event_channel = &DestroyEventChannel,
    .get_cm_event = &GetCmEvent,
    .ack_cm_event = &AckCmEvent,
    .create_id = kSets<"create_id", &CreateId>,
    .destroy_id = &DestroyId,
    .set_option = kSets<"set_option", &SetOption>,
    .bind_addr = kSets<"bind_addr", &BindAddr>,
    .resolve_addr = kSets<"resolve_addr", &ResolveAddr>,
    .resolve_route = kSets<"resolve_route", &ResolveRoute>,
    .create_qp = kSets<"create_qp", &CmCreateQp>,
    .destroy_qp = &CmDestroyQp,
    .connect = kSets<"connect", &Connect>,
    .listen = kSets<"listen", &Listen>,
    .accept = kSets<"accept", &Accept>,
    .reject = kSets<"reject", &Reject>,
    .disconnect = kSets<"disconnect", &CmDisconnect>,
    .migrate_id = kSets<"migrate_id", &MigrateId>,
    .get_src_port = &GetSrcPort,
    .get_devices = kSets<"get_devices", &GetDevices>,
    .free_devices = &FreeDevices,
};

}  // namespace
}  // namespace iwarp

const VerbsApi& VerbsApi::Iwarp() { return iwarp::kTable; }

}  // namespace sluice
