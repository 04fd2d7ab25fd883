#include "tests/conformance/target_under_test.h"

#include <cstring>
#include <utility>

#include "core/status_macros.h"
#include "nvme/nqn.h"
#include "tests/conformance/raw_controller.h"

namespace sluice::conformance {
namespace {

void TakeIdentity(const nvme_id_ctrl& identity, TargetLimits* limits) {
  limits->transfer_bytes_max =
      identity.mdts == 0 ? 16u << 20 : nvme::kPageBytesMin << identity.mdts;
  const auto capsule_bytes =
      static_cast<uint32_t>(identity.ioccsz * nvme::kCapsuleUnitBytes);
  const bool offsets_served = (identity.sgls & (1u << 20)) != 0;
  limits->in_capsule_bytes =
      offsets_served && capsule_bytes > nvme::kSqeBytes
          ? capsule_bytes - static_cast<uint32_t>(nvme::kSqeBytes)
          : 0;
  limits->keyed_descriptors_max =
      identity.msdbd == 0 ? nvme::kKeyedDescriptorsMax : identity.msdbd;
  limits->aer_count_max = identity.aerl + 1u;
  limits->kato_granularity_ms = identity.kas * 100u;
  limits->nsid_max = identity.nn;
  limits->oncs = identity.oncs;
  limits->oacs = identity.oacs;
  limits->vwc = identity.vwc;
  limits->cmic = identity.cmic;
  limits->lpa = identity.lpa;
  limits->oaes = identity.oaes;
  limits->ofcs = identity.ofcs;
}

// The first active namespace, and an NSID that is valid and not active.
absl::Status TakeNamespace(RawController* controller, TargetLimits* limits) {
  SLUICE_ASSIGN_OR_RETURN(
      const RawResponse response,
      controller->Identify(
          {.cns = static_cast<uint8_t>(nvme::Cns::kActiveNamespaces)}));
  if (!response.ok()) return absl::InternalError("no list of namespaces");
  nvme_ns_list list;
  std::memcpy(&list, controller->data().bytes().data(), sizeof(list));
  if (list.ns[0] == 0) return absl::NotFoundError("no active namespace");
  limits->nsid = list.ns[0];
  uint32_t absent = 1;
  for (const uint32_t nsid : list.ns) {
    if (nsid == absent) ++absent;
  }
  limits->absent_nsid = absent <= limits->nsid_max ? absent : 0;

  SLUICE_ASSIGN_OR_RETURN(const nvme_id_ns space,
                          controller->IdentifyNamespace(limits->nsid));
  limits->block_count = space.nsze;
  limits->block_bytes = 1u << space.lbaf[space.flbas & 0xF].ds;
  limits->dlfeat = space.dlfeat;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TargetLimits> LearnLimits(const RawHost& host) {
  TargetLimits limits;
  SLUICE_ASSIGN_OR_RETURN(auto controller, RawController::ConnectEnabled(host));
  SLUICE_ASSIGN_OR_RETURN(const uint64_t cap,
                          controller->Property(nvme::Property::kCap));
  limits.io_depth_max = nvme::DecodeCap(cap).queue_depth_max;
  SLUICE_ASSIGN_OR_RETURN(const nvme_id_ctrl identity,
                          controller->IdentifyController());
  TakeIdentity(identity, &limits);
  SLUICE_ASSIGN_OR_RETURN(limits.io_queue_count_max,
                          controller->RequestQueues(65535));
  SLUICE_RETURN_IF_ERROR(TakeNamespace(controller.get(), &limits));
  return limits;
}

RawHost TargetUnderTest::discovery_host() const {
  RawHost host = host_;
  host.subnqn = std::string(nvme::kDiscoveryNqn);
  return host;
}

absl::StatusOr<std::unique_ptr<ExternalTarget>> ExternalTarget::Find(
    const VerbsApi& api, Peer peer, const std::string& address, uint16_t port,
    const std::string& nqn) {
  std::unique_ptr<ExternalTarget> target(
      new ExternalTarget(peer, MakeHost(api, address, port, nqn)));
  SLUICE_ASSIGN_OR_RETURN(target->limits_, LearnLimits(target->host_));
  return target;
}

}  // namespace sluice::conformance
