// What an operator can set, with its default, unit and effect. Flags and TOML
// fill it (flags.h, config.h); only the program reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "blockdev/block_device.h"
#include "core/log.h"
#include "core/reactor.h"
#include "core/units.h"

namespace sluice::target {

// Takes the device that a reactor has just attached and gives the one to use:
// a FaultDevice over it. On that reactor's thread.
using DeviceLayer = std::function<std::unique_ptr<blockdev::BlockDevice>(
    std::unique_ptr<blockdev::BlockDevice>, Reactor*)>;

// Whose verbs: the RDMA devices' of this machine, or our own over TCP. kAuto:
// RDMA devices where they carry the addresses, else our own.
enum class Provider : uint8_t { kAuto, kVerbs, kIwarp };

// Checksums of the provider over TCP; a host that asks for them gets them.
enum class IwarpCrc : uint8_t { kAuto, kOn, kOff };

// One namespace. NSIDs follow the order in which they are given, from 1.
struct NamespaceOptions {
  std::string path;            // PATH, "null:SIZE" or "ram:SIZE"
  uint32_t block_bytes = 512;  // 512 or 4096
  bool read_only = false;      // hosts see a write-protected disk
  bool shared = false;         // do not claim the backing exclusively
  // Only tests have one.
  DeviceLayer layer = nullptr;
};

struct SubsystemOptions {
  std::string nqn;  // empty: derived from the machine's id
  std::vector<NamespaceOptions> namespaces;
  std::vector<std::string> allowed_hosts;  // host NQNs; empty: every host
  std::string serial;                      // empty: derived, stable
};

// Of one reactor; what is not given is as for all.
struct ReactorOverride {
  std::optional<uint32_t> index;  // in the order of `cores`
  std::optional<PollMode> poll_mode;
  std::optional<absl::Duration> max_spin;
  std::optional<double> max_spin_share;
};

struct TargetOptions {
  std::vector<SubsystemOptions> subsystems;
  // "ADDR[:PORT]", "[V6%IFACE]:PORT"; empty: every IPv4 address, port 4420.
  std::vector<std::string> listen;
  Provider provider = Provider::kAuto;
  IwarpCrc iwarp_crc = IwarpCrc::kAuto;
  // Processors to run reactors on, one each; empty: one reactor, not pinned.
  std::vector<int> cores;
  // How they wait: spin.mode, and the limits of hybrid's spins. Those of one
  // reactor can differ. All of it changes at run time (Target::SetSpin).
  SpinOptions spin;
  std::vector<ReactorOverride> reactors;
  // SCHED_FIFO priority of the reactors, 1 to 99; 0: none. With `poll` nothing
  // else runs on their processors.
  uint32_t realtime_priority = 0;
  // Completions taken from a CQ at a time, 16 to 64, and CQ events acknowledged
  // at once, 1 to 4096.
  uint32_t cq_batch = 32;
  uint32_t ack_batch = 64;
  // Sleep until a host says that it waits: for hosts that mark their last
  // command as solicited. Linux marks none.
  bool solicited_only = false;
  // Completion vector of the CQs; nothing: the reactor's number. And whether
  // its interrupt is moved to the reactor's processor.
  std::optional<uint32_t> completion_vector;
  bool irq_affinity = false;
  // Data that a device takes inline with a work request, 0 to 1024.
  uint32_t inline_bytes = 16;
  // One in so many responses has a completion, 1 to 64.
  uint32_t signal_every = 16;
  // CQ entries per queue depth, 2 to 4: less memory against fewer stalls.
  uint32_t cq_depth_factor = 4;
  // Commands in flight per I/O queue: MQES + 1, 2 to 1024.
  uint32_t queue_depth = 128;
  // Receives of each reactor and device that I/O queues share, up to 30000;
  // each takes its depth of them and is rejected when not so many are left. 0:
  // each queue has its own.
  uint32_t shared_receives = 0;
  // Queue pairs of the process, admin ones included; more are rejected.
  uint32_t max_queues = 4096;
  // Write data that a command capsule carries, a multiple of 16 up to 16 KiB;
  // 0: none. Saves a round trip for small writes, costs depth x this per queue.
  uint32_t in_capsule_bytes = 4096;
  // Data buffers, split over the reactors; at least 8 MiB each.
  uint64_t buffer_pool_bytes = 64 * kMiB;
  // Namespaces in memory are sent from without a copy. Devices then pin all of
  // it, which a limit on locked memory would count.
  bool lend_memory = false;
  // SIGTERM: how long in-flight I/O may take.
  absl::Duration drain_timeout = absl::Seconds(5);
  // One JSON line of counters this often; zero: only on SIGUSR1.
  absl::Duration stats_interval = absl::ZeroDuration();
  LogLevel log_level = LogLevel::kInfo;
  // After a restart of ourselves: wait for the RDMA device to come back.
  bool wait_for_device = false;
  // Identifies this machine in serials, NGUIDs and UUIDs; empty: read from
  // /etc/machine-id.
  std::string machine_id;

  size_t reactor_count() const { return cores.empty() ? 1 : cores.size(); }
  // Of the reactor with this number.
  SpinOptions SpinOf(size_t index) const;

  // One line that says what to do, naming the flag.
  absl::Status Validate() const;
};

}  // namespace sluice::target
