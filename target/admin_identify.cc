// Identify [spec §6.2-6.5].
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/async.h"
#include "core/check.h"
#include "nvme/admin_command.h"
#include "nvme/identify.h"
#include "nvme/identify_namespace.h"
#include "nvme/limits.h"
#include "target/admin_handlers.h"
#include "target/registry.h"
#include "target/target_shard.h"

namespace sluice::target {
namespace {

using nvme::Cns;

// NN: at least 1, of which then none is active.
uint32_t NsidMax(const Controller& controller) {
  return std::max(controller.subsystem().nsid_max(), 1u);
}

// NSIDs that name one namespace, active or not; the broadcast one does not.
bool NsidInRange(const Controller& controller, uint32_t nsid) {
  return nsid >= 1 && nsid <= NsidMax(controller);
}

nvme::NamespaceIdentity IdentityOf(const Controller& controller,
                                   const Namespace& ns) {
  const TargetShard::Devices* devices =
      controller.shard()->DevicesOf(&controller.subsystem());
  return ns.Identity((*devices)[ns.nsid - 1]->geometry().size_bytes);
}

template <typename T>
void CopyOut(const T& data, Request* request) {
  static_assert(sizeof(T) == nvme::kIdentifyBytes);
  std::memcpy(request->buffer().data(), &data, sizeof(data));
}

void ZeroOut(Request* request) {
  const absl::Span<std::byte> buffer = request->buffer();
  std::fill(buffer.begin(), buffer.end(), std::byte{0});
}

nvme::Status IdentifyController(const Controller& controller,
                                Request* request) {
  const ControllerInfo& info = controller.info();
  const Subsystem& subsystem = controller.subsystem();
  nvme::ControllerIdentity identity;
  if (subsystem.discovery()) identity.kind = nvme::ControllerKind::kDiscovery;
  identity.serial = subsystem.serial();
  identity.model = kModel;
  identity.firmware = kFirmware;
  identity.subnqn = subsystem.nqn().view();
  identity.cntlid = info.cntlid;
  identity.mdts = kMdts;
  identity.in_capsule_bytes = info.limits.in_capsule_bytes;
  identity.keyed_descriptors_max = nvme::kKeyedDescriptorsMax;
  identity.commands_max = static_cast<uint16_t>(
      std::min<uint32_t>(info.limits.queue_depth_max, UINT16_MAX));
  identity.nsid_max = NsidMax(controller);
  identity.keep_alive_granularity_100ms = kKeepAliveUnit100ms;
  identity.aer_count_max = kAerMax;
  identity.error_entry_count = kErrorEntries;
  identity.optional_commands.compare = true;
  identity.optional_commands.dataset_management = true;
  identity.optional_commands.write_zeroes = true;
  identity.optional_commands.timestamp = true;
  identity.volatile_write_cache = subsystem.volatile_cache();
  identity.disconnect_command = true;
  nvme_id_ctrl data;
  nvme::BuildIdentifyController(identity, &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

// CNS 00h. The properties that all namespaces share (NSID FFFFFFFFh) are for
// making new ones, which we do not.
nvme::Status IdentifyNamespace(const Controller& controller, Request* request) {
  const uint32_t nsid = request->sqe().nsid;
  if (!NsidInRange(controller, nsid)) return nvme::kInvalidNamespace.WithDnr();
  ZeroOut(request);
  const Namespace* ns = controller.subsystem().Find(nsid);
  if (ns == nullptr) return nvme::kSuccess;  // inactive
  nvme_id_ns data;
  nvme::BuildIdentifyNamespace(IdentityOf(controller, *ns), &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

nvme::Status ActiveNamespaces(const Controller& controller, Request* request) {
  const uint32_t after = request->sqe().nsid;
  if (after >= nvme::kNsidBroadcast - 1) {
    return nvme::kInvalidNamespace.WithDnr();
  }
  std::vector<uint32_t> nsids(controller.subsystem().nsid_max());
  std::iota(nsids.begin(), nsids.end(), 1u);
  nvme_ns_list data;
  nvme::BuildActiveNamespaces(nsids, after, &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

nvme::Status NamespaceDescriptors(const Controller& controller,
                                  Request* request) {
  const Namespace* ns = controller.subsystem().Find(request->sqe().nsid);
  if (ns == nullptr) return nvme::kInvalidNamespace.WithDnr();
  std::array<std::byte, nvme::kIdentifyBytes> data;
  nvme::BuildNamespaceDescriptors(IdentityOf(controller, *ns), &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

// CNS 05h.
nvme::Status NvmNamespace(const Controller& controller, uint8_t csi,
                          Request* request) {
  if (csi != nvme::kCsiNvm) return nvme::kInvalidField.WithDnr();
  if (!NsidInRange(controller, request->sqe().nsid)) {
    return nvme::kInvalidNamespace.WithDnr();
  }
  nvme_nvm_id_ns data;
  nvme::BuildNvmNamespace(&data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

// CNS 06h.
nvme::Status NvmController(uint8_t csi, Request* request) {
  if (csi != nvme::kCsiNvm) return nvme::kInvalidField.WithDnr();
  nvme_id_ctrl_nvm data;
  nvme::BuildNvmController(nvme::NvmControllerLimits(), &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

// CNS 08h.
nvme::Status IndependentNamespace(const Controller& controller,
                                  Request* request) {
  const uint32_t nsid = request->sqe().nsid;
  if (!NsidInRange(controller, nsid)) return nvme::kInvalidNamespace.WithDnr();
  ZeroOut(request);
  const Namespace* ns = controller.subsystem().Find(nsid);
  if (ns == nullptr) return nvme::kSuccess;  // inactive
  nvme_id_independent_id_ns data;
  nvme::BuildIndependentNamespace(IdentityOf(controller, *ns), &data);
  CopyOut(data, request);
  return nvme::kSuccess;
}

void CopyControllers(const std::vector<uint16_t>& cntlids, uint16_t from,
                     Request* request) {
  nvme_ctrl_list data;
  nvme::BuildControllerList(cntlids, from, &data);
  CopyOut(data, request);
}

// CNS 12h and 13h: every controller has every namespace of its subsystem.
Task<nvme::Status> ListControllers(Controller* controller, uint16_t from,
                                   Request* request) {
  TargetShared* shared = controller->shard()->shared();
  const Subsystem* subsystem = &controller->subsystem();
  const Registry* registry = shared->registry;
  const auto ids = [registry, subsystem] { return registry->Of(subsystem); };
  CallOn call(shared->control, ids);
  const std::vector<uint16_t> cntlids = co_await call;
  CopyControllers(cntlids, from, request);
  co_return nvme::kSuccess;
}

// All that needs no other reactor.
nvme::Status IdentifyNow(const Controller& controller,
                         const nvme::IdentifyCommand& command,
                         Request* request) {
  const auto cns = static_cast<Cns>(command.cns);
  if (controller.discovery() && cns != Cns::kController) {
    return nvme::kInvalidField.WithDnr();
  }
  switch (cns) {
    case Cns::kNamespace:
      return IdentifyNamespace(controller, request);
    case Cns::kController:
      return IdentifyController(controller, request);
    case Cns::kActiveNamespaces:
      return ActiveNamespaces(controller, request);
    case Cns::kNamespaceDescriptors:
      return NamespaceDescriptors(controller, request);
    case Cns::kCommandSetNamespace:
      return NvmNamespace(controller, command.csi, request);
    case Cns::kCommandSetController:
      return NvmController(command.csi, request);
    case Cns::kIndependentNamespace:
      return IndependentNamespace(controller, request);
    default:
      return nvme::kInvalidField.WithDnr();
  }
}

}  // namespace

Task<nvme::Status> Identify(Controller* controller, Request* request) {
  SLUICE_CHECK(request->bytes == nvme::kIdentifyBytes);
  const nvme::IdentifyCommand command = nvme::DecodeIdentify(request->sqe());
  const auto cns = static_cast<Cns>(command.cns);
  const bool lists =
      !controller->discovery() &&
      (cns == Cns::kNamespaceControllers || cns == Cns::kControllers);
  if (!lists) co_return IdentifyNow(*controller, command, request);
  if (cns == Cns::kNamespaceControllers &&
      controller->subsystem().Find(request->sqe().nsid) == nullptr) {
    co_return nvme::kInvalidNamespace.WithDnr();
  }
  const nvme::Status status =
      co_await ListControllers(controller, command.cntid, request);
  co_return status;
}

}  // namespace sluice::target
