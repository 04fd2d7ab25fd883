#include "target/subsystem.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/units.h"
#include "nvme/identity.h"

namespace sluice::target {

nvme::NamespaceIdentity Namespace::Identity(uint64_t size_bytes) const {
  const blockdev::Geometry& geometry = backing->geometry();
  nvme::NamespaceIdentity identity;
  identity.block_bytes = geometry.block_bytes;
  identity.block_count = size_bytes / geometry.block_bytes;
  identity.used_blocks = identity.block_count;
  identity.thin = geometry.can_discard;
  identity.write_protected = geometry.read_only;
  identity.volatile_write_cache = geometry.volatile_cache;
  if (geometry.discard_reads_zero) {
    identity.deallocated_read = nvme::DeallocatedRead::kZeroes;
    identity.write_zeroes_deallocates = geometry.can_write_zeroes;
  }
  identity.nguid = nguid;
  identity.uuid = uuid;
  const uint32_t physical =
      geometry.physical_block_bytes / geometry.block_bytes;
  const uint32_t optimal = geometry.optimal_io_bytes / geometry.block_bytes;
  if (physical > 1 || optimal > 1) {
    identity.write_granularity_blocks = std::max(physical, 1u);
    identity.write_alignment_blocks = std::max(physical, 1u);
    identity.optimal_write_blocks = std::min(optimal, 65536u);
  }
  return identity;
}

absl::StatusOr<std::unique_ptr<Subsystem>> Subsystem::Open(
    const SubsystemOptions& options, absl::string_view machine_id) {
  std::unique_ptr<Subsystem> subsystem(new Subsystem);
  const std::string nqn =
      options.nqn.empty() ? DefaultNqn(machine_id) : options.nqn;
  if (!nvme::Nqn::FromText(nqn, &subsystem->nqn_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("NQN '", nqn, "': 1 to 223 bytes are allowed"));
  }
  subsystem->serial_ = options.serial.empty()
                           ? nvme::DeriveSerial(machine_id, nqn)
                           : options.serial;
  for (const std::string& host : options.allowed_hosts) {
    nvme::Nqn allowed;
    if (!nvme::Nqn::FromText(host, &allowed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("host NQN '", host, "': 1 to 223 bytes are allowed"));
    }
    subsystem->allowed_hosts_.push_back(allowed);
  }
  for (const NamespaceOptions& wanted : options.namespaces) {
    Namespace made;
    made.nsid = static_cast<uint32_t>(subsystem->namespaces_.size()) + 1;
    blockdev::BackingOptions backing;
    backing.path = wanted.path;
    backing.block_bytes = wanted.block_bytes;
    backing.read_only = wanted.read_only;
    backing.shared = wanted.shared;
    SLUICE_ASSIGN_OR_RETURN(made.backing, blockdev::Backing::Open(backing));
    made.layer = wanted.layer;
    made.nguid = nvme::DeriveNguid(machine_id, nqn, made.nsid);
    made.uuid = nvme::DeriveUuid(machine_id, nqn, made.nsid);
    const blockdev::Geometry& geometry = made.backing->geometry();
    SLUICE_LOG(kInfo) << "namespace" << KV("nqn", nqn) << KV("nsid", made.nsid)
                      << KV("backing", wanted.path)
                      << KV("size", FormatBytes(geometry.size_bytes))
                      << KV("block", geometry.block_bytes)
                      << KV("direct", geometry.direct)
                      << KV("volatile_cache", geometry.volatile_cache);
    subsystem->namespaces_.push_back(std::move(made));
  }
  return subsystem;
}

std::unique_ptr<Subsystem> Subsystem::Discovery(absl::string_view machine_id) {
  std::unique_ptr<Subsystem> subsystem(new Subsystem);
  nvme::Nqn::FromText(nvme::kDiscoveryNqn, &subsystem->nqn_);
  subsystem->serial_ = nvme::DeriveSerial(machine_id, nvme::kDiscoveryNqn);
  subsystem->discovery_ = true;
  return subsystem;
}

bool Subsystem::HostAllowed(const nvme::Nqn& hostnqn) const {
  return allowed_hosts_.empty() ||
         std::find(allowed_hosts_.begin(), allowed_hosts_.end(), hostnqn) !=
             allowed_hosts_.end();
}

bool Subsystem::volatile_cache() const {
  return std::any_of(namespaces_.begin(), namespaces_.end(),
                     [](const Namespace& entry) {
                       return entry.backing->geometry().volatile_cache;
                     });
}

std::string ReadMachineId() {
  for (const char* path : {"/etc/machine-id", "/var/lib/dbus/machine-id"}) {
    std::ifstream file(path);
    std::string id;
    if (file >> id && !id.empty()) return id;
  }
  return "sluice";
}

std::string DefaultNqn(absl::string_view machine_id) {
  const auto uuid = nvme::DeriveUuid(machine_id, "sluice default NQN", 0);
  return absl::StrCat("nqn.2014-08.org.nvmexpress:uuid:",
                      nvme::FormatUuid(uuid));
}

}  // namespace sluice::target
