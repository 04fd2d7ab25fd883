// A subsystem and its namespaces: what is exported under one NQN. Opened before
// the reactors start, immutable while they run (the size of a namespace lives
// with each reactor's BlockDevice); read by all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "blockdev/block_device.h"
#include "nvme/connect.h"
#include "nvme/identify_namespace.h"
#include "nvme/nqn.h"
#include "target/options.h"

namespace sluice::target {

struct Namespace {
  uint32_t nsid = 0;
  std::unique_ptr<blockdev::Backing> backing;
  DeviceLayer layer;  // null: none
  std::array<std::byte, 16> nguid{};
  std::array<std::byte, 16> uuid{};

  // Identify Namespace as of now; `size_bytes` is the reactor's view.
  nvme::NamespaceIdentity Identity(uint64_t size_bytes) const;
};

class Subsystem {
 public:
  // Opens every backing; may block. Errors name the path.
  static absl::StatusOr<std::unique_ptr<Subsystem>> Open(
      const SubsystemOptions& options, absl::string_view machine_id);
  // The discovery subsystem: no namespaces, every host.
  static std::unique_ptr<Subsystem> Discovery(absl::string_view machine_id);

  const nvme::Nqn& nqn() const { return nqn_; }
  const std::string& serial() const { return serial_; }
  bool discovery() const { return discovery_; }
  const std::vector<Namespace>& namespaces() const { return namespaces_; }
  uint32_t nsid_max() const {
    return static_cast<uint32_t>(namespaces_.size());
  }
  // Null when there is no such namespace.
  const Namespace* Find(uint32_t nsid) const {
    return nsid >= 1 && nsid <= namespaces_.size() ? &namespaces_[nsid - 1]
                                                   : nullptr;
  }
  bool HostAllowed(const nvme::Nqn& hostnqn) const;
  // True when some namespace loses completed writes without a flush.
  bool volatile_cache() const;

 private:
  Subsystem() = default;

  nvme::Nqn nqn_;
  std::string serial_;
  bool discovery_ = false;
  std::vector<Namespace> namespaces_;
  std::vector<nvme::Nqn> allowed_hosts_;
};

// This machine's id, or a fixed text where it has none.
std::string ReadMachineId();
// The subsystem NQN used when none is given.
std::string DefaultNqn(absl::string_view machine_id);

}  // namespace sluice::target
