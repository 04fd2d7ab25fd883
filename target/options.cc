#include "target/options.h"

#include <sched.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status_macros.h"
#include "nvme/identity.h"
#include "nvme/limits.h"
#include "nvme/nqn.h"
#include "transport/limits.h"
#include "transport/listen_address.h"

namespace sluice::target {
namespace {

constexpr uint64_t kPoolMinBytesPerReactor = 8 * kMiB;
constexpr uint64_t kPoolMaxBytes = uint64_t{1} << 40;
constexpr uint32_t kInCapsuleMaxBytes = 16 * 1024;
constexpr size_t kSubsystemsMax = 256;
constexpr size_t kNamespacesMax = nvme::kNamespaceListMax;
constexpr size_t kListenersMax = 64;
constexpr size_t kAllowedHostsMax = 1024;
constexpr size_t kSerialLengthMax = 20;
constexpr absl::Duration kMaxSpinMax = absl::Milliseconds(10);
constexpr uint64_t kRealtimePriorityMax = 99;
constexpr uint64_t kCompletionVectorMax = 4095;
constexpr absl::Duration kDrainTimeoutMax = absl::Hours(1);
constexpr absl::Duration kStatsIntervalMin = absl::Milliseconds(100);
constexpr absl::Duration kStatsIntervalMax = absl::Hours(24);

// --flag VALUE: advice
template <typename T>
absl::Status Bad(absl::string_view flag, const T& value,
                 absl::string_view advice) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", value, ": ", advice));
}

absl::Status CheckRange(absl::string_view flag, uint64_t value, uint64_t min,
                        uint64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Bad(flag, value, absl::StrCat("use ", min, " to ", max));
}

absl::Status CheckQueues(const TargetOptions& options) {
  SLUICE_RETURN_IF_ERROR(
      CheckRange("--cq-depth-factor", options.cq_depth_factor,
                 transport::kCqDepthFactorMin, transport::kCqDepthFactorMax));
  SLUICE_RETURN_IF_ERROR(CheckRange("--queue-depth", options.queue_depth, 2,
                                    transport::kQueueDepthMax));
  // An admin queue and an I/O queue: less serves nobody.
  SLUICE_RETURN_IF_ERROR(
      CheckRange("--max-queues", options.max_queues, 2,
                 transport::kQueuePairsMax * options.reactor_count()));
  SLUICE_RETURN_IF_ERROR(CheckRange("--in-capsule", options.in_capsule_bytes, 0,
                                    kInCapsuleMaxBytes));
  if (options.in_capsule_bytes % nvme::kCapsuleUnitBytes != 0) {
    return Bad("--in-capsule", options.in_capsule_bytes,
               absl::StrCat(
                   "use a multiple of ", nvme::kCapsuleUnitBytes, ", as in ",
                   RoundUp(options.in_capsule_bytes, nvme::kCapsuleUnitBytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckPool(const TargetOptions& options) {
  const uint64_t bytes = options.buffer_pool_bytes;
  const size_t reactors = options.reactor_count();
  const uint64_t need = kPoolMinBytesPerReactor * reactors;
  if (bytes < need) {
    return Bad("--buffer-pool", FormatBytes(bytes),
               absl::StrCat("use at least ", FormatBytes(need), ", ",
                            FormatBytes(kPoolMinBytesPerReactor),
                            " for each of ", reactors, " reactors"));
  }
  if (bytes > kPoolMaxBytes) {
    return Bad("--buffer-pool", FormatBytes(bytes),
               absl::StrCat("use at most ", FormatBytes(kPoolMaxBytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckSpin(absl::string_view where, const SpinOptions& spin) {
  if (spin.max_spin < absl::ZeroDuration() || spin.max_spin > kMaxSpinMax) {
    return Bad(absl::StrCat(where, "--max-spin-us"),
               absl::ToDoubleMicroseconds(spin.max_spin),
               "use 0 to 10000 microseconds");
  }
  if (!(spin.max_spin_share >= 0 && spin.max_spin_share <= 1)) {
    return Bad(absl::StrCat(where, "--max-spin-share"),
               100 * spin.max_spin_share, "use 0 to 100 percent");
  }
  return spin.Validate();
}

absl::Status CheckWaiting(const TargetOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckSpin("", options.spin));
  const size_t reactors = options.reactor_count();
  std::set<uint32_t> seen;
  for (const ReactorOverride& one : options.reactors) {
    if (!one.index) {
      return absl::InvalidArgumentError(
          "[[reactor]] without an index: 0 is the first of --cores");
    }
    if (*one.index >= reactors || !seen.insert(*one.index).second) {
      return Bad("[[reactor]] index", *one.index,
                 absl::StrCat("use each of 0 to ", reactors - 1,
                              " once at most: --cores gives a reactor each"));
    }
    SLUICE_RETURN_IF_ERROR(CheckSpin(absl::StrCat("reactor ", *one.index, ": "),
                                     options.SpinOf(*one.index)));
  }
  SLUICE_RETURN_IF_ERROR(CheckRange("--realtime-priority",
                                    options.realtime_priority, 0,
                                    kRealtimePriorityMax));
  SLUICE_RETURN_IF_ERROR(CheckRange("--cq-batch", options.cq_batch,
                                    transport::kPollBatchMin,
                                    transport::kPollBatchMax));
  SLUICE_RETURN_IF_ERROR(
      CheckRange("--ack-batch", options.ack_batch, 1, transport::kAckBatchMax));
  SLUICE_RETURN_IF_ERROR(CheckRange("--completion-vector",
                                    options.completion_vector.value_or(0), 0,
                                    kCompletionVectorMax));
  SLUICE_RETURN_IF_ERROR(CheckRange("--inline", options.inline_bytes, 0,
                                    transport::kInlineBytesMax));
  if (options.shared_receives != 0) {
    SLUICE_RETURN_IF_ERROR(
        CheckRange("--shared-receives", options.shared_receives,
                   options.queue_depth, transport::kSharedReceivesMax));
  }
  return CheckRange("--signal-every", options.signal_every, 1,
                    transport::kSilentMax);
}

absl::Status CheckTimes(const TargetOptions& options) {
  if (options.drain_timeout < absl::ZeroDuration() ||
      options.drain_timeout > kDrainTimeoutMax) {
    return Bad("--drain-timeout", absl::ToDoubleSeconds(options.drain_timeout),
               "use 0 to 3600 seconds");
  }
  const absl::Duration interval = options.stats_interval;
  if (interval != absl::ZeroDuration() &&
      (interval < kStatsIntervalMin || interval > kStatsIntervalMax)) {
    return Bad("--stats-interval", absl::ToDoubleSeconds(interval),
               "use 0.1 to 86400 seconds, or 0 for SIGUSR1 only");
  }
  return absl::OkStatus();
}

// Processors that this process may run on, as "0-3,6".
std::string AllowedCores(const cpu_set_t& allowed) {
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &allowed)) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", core);
    if (last > core) absl::StrAppend(&text, "-", last);
    core = last;
  }
  return text;
}

absl::Status CheckCores(const TargetOptions& options) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return absl::ErrnoToStatus(errno, "--cores: sched_getaffinity");
  }
  std::set<int> seen;
  for (const int core : options.cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed)) {
      return Bad("--cores", core,
                 absl::StrCat("no such processor for this process; it may use ",
                              AllowedCores(allowed)));
    }
    if (!seen.insert(core).second) {
      return Bad("--cores", core, "named twice; name each processor once");
    }
  }
  return absl::OkStatus();
}

// Only the form: whether the interface of a zone is here is asked when it is
// listened on.
absl::Status CheckListenAddress(absl::string_view text) {
  const auto parsed = transport::ParseListenAddress(text, nvme::kDefaultPort);
  if (parsed.ok()) return absl::OkStatus();
  const size_t zone = text.find('%');
  if (zone != absl::string_view::npos) {
    const size_t zone_end = std::min(text.find(']', zone), text.size());
    const std::string unscoped =
        absl::StrCat(text.substr(0, zone), text.substr(zone_end));
    if (zone_end > zone + 1 &&
        transport::ParseListenAddress(unscoped, nvme::kDefaultPort).ok()) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--listen: ", parsed.status().message()));
}

absl::Status CheckListen(const TargetOptions& options) {
  if (options.listen.size() > kListenersMax) {
    return Bad("--listen", options.listen.size(),
               absl::StrCat("use at most ", kListenersMax, " addresses"));
  }
  std::set<std::string> seen;
  for (const std::string& text : options.listen) {
    SLUICE_RETURN_IF_ERROR(CheckListenAddress(text));
    const auto parsed = transport::ParseListenAddress(text, nvme::kDefaultPort);
    if (!parsed.ok() || parsed->port() == 0) continue;
    if (!seen.insert(parsed->ToString()).second) {
      return Bad("--listen", parsed->ToString(), "given twice; give it once");
    }
  }
  return absl::OkStatus();
}

bool IsPrintableWord(absl::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_iscntrl(byte) || absl::ascii_isspace(byte);
  });
}

// nqn.yyyy-mm.reverse.domain:anything [Base 2.1 §4.7].
bool HasNqnForm(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "nqn.")) return false;
  constexpr absl::string_view kDate = "0000-00.";
  if (text.size() <= kDate.size()) return false;
  for (size_t i = 0; i < kDate.size(); ++i) {
    const bool digit = absl::ascii_isdigit(static_cast<uint8_t>(text[i]));
    if (kDate[i] == '0' ? !digit : text[i] != kDate[i]) return false;
  }
  const absl::string_view month = text.substr(5, 2);
  if (month < "01" || month > "12") return false;
  text.remove_prefix(kDate.size());
  const size_t colon = text.find(':');
  if (colon == 0 || colon == absl::string_view::npos) return false;
  if (colon + 1 == text.size()) return false;
  return std::all_of(text.begin(), text.begin() + colon, [](char c) {
    return absl::ascii_isalnum(static_cast<uint8_t>(c)) || c == '.' || c == '-';
  });
}

// Both names must be ones that a host can write into Connect.
absl::Status CheckName(absl::string_view flag, absl::string_view name) {
  nvme::Nqn nqn;
  if (!nvme::Nqn::FromText(name, &nqn)) {
    return Bad(flag, absl::StrCat("of ", name.size(), " bytes"),
               absl::StrCat("use 1 to ", nvme::kNqnLengthMax, " bytes"));
  }
  if (!IsPrintableWord(name)) {
    return Bad(flag, name, "leave out spaces and control characters");
  }
  return absl::OkStatus();
}

absl::Status CheckSubsystemNqn(absl::string_view name) {
  SLUICE_RETURN_IF_ERROR(CheckName("--nqn", name));
  if (name == nvme::kDiscoveryNqn) {
    return Bad("--nqn", name, "is the discovery subsystem's; use another name");
  }
  if (!HasNqnForm(name)) {
    return Bad("--nqn", name,
               "use the form nqn.yyyy-mm.reverse.domain:name, as in "
               "nqn.2024-01.org.example:disk1");
  }
  absl::string_view uuid_text = name;
  std::array<std::byte, 16> uuid;
  if (absl::ConsumePrefix(&uuid_text, "nqn.2014-08.org.nvmexpress:uuid:") &&
      !nvme::ParseUuid(uuid_text, &uuid)) {
    return Bad("--nqn", name, "a UUID must follow uuid: (see: uuidgen)");
  }
  return absl::OkStatus();
}

absl::Status CheckAllowedHosts(const SubsystemOptions& subsystem) {
  if (subsystem.allowed_hosts.size() > kAllowedHostsMax) {
    return Bad("--allow-host", subsystem.allowed_hosts.size(),
               absl::StrCat("use at most ", kAllowedHostsMax, " hosts"));
  }
  for (const std::string& host : subsystem.allowed_hosts) {
    SLUICE_RETURN_IF_ERROR(CheckName("--allow-host", host));
    if (!absl::StartsWith(host, "nqn.")) {
      return Bad("--allow-host", host,
                 "use a host's NQN, as in its /etc/nvme/hostnqn");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSerial(const std::string& serial) {
  const bool printable = std::all_of(serial.begin(), serial.end(), [](char c) {
    return absl::ascii_isprint(static_cast<uint8_t>(c));
  });
  if (serial.size() <= kSerialLengthMax && printable &&
      absl::StripAsciiWhitespace(serial) == serial) {
    return absl::OkStatus();
  }
  return Bad("serial", absl::StrCat("'", serial, "'"),
             "use at most 20 printable ASCII characters");
}

// SIZE of "null:SIZE" and "ram:SIZE".
absl::Status CheckSyntheticSize(const NamespaceOptions& space,
                                absl::string_view text) {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return Bad("--export", space.path,
               absl::StrCat(bytes.status().message(), ", as in 64M"));
  }
  if (*bytes != 0 && *bytes % space.block_bytes == 0) return absl::OkStatus();
  return Bad("--export", space.path,
             absl::StrCat("the size must be a positive multiple of the block "
                          "size ",
                          space.block_bytes));
}

absl::Status CheckNamespace(const NamespaceOptions& space) {
  if (space.block_bytes != 512 && space.block_bytes != 4096) {
    return Bad("--block-size", space.block_bytes, "use 512 or 4096");
  }
  absl::string_view rest = space.path;
  if (rest.empty()) {
    return absl::InvalidArgumentError(
        "--export: use PATH, null:SIZE or ram:SIZE");
  }
  if (rest.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("--export: the path holds a NUL byte");
  }
  if (absl::ConsumePrefix(&rest, "null:") ||
      absl::ConsumePrefix(&rest, "ram:")) {
    return CheckSyntheticSize(space, rest);
  }
  return absl::OkStatus();
}

bool IsSynthetic(absl::string_view path) {
  return absl::StartsWith(path, "null:") || absl::StartsWith(path, "ram:");
}

// What several namespaces and subsystems must not have in common.
absl::Status CheckUnique(const std::vector<SubsystemOptions>& subsystems) {
  std::set<std::string> nqns;
  std::set<std::string> claimed;
  std::set<std::string> paths;
  for (const SubsystemOptions& subsystem : subsystems) {
    if (subsystems.size() > 1 && subsystem.nqn.empty()) {
      return absl::InvalidArgumentError(
          "--nqn: give each subsystem an nqn; only a sole one may go without");
    }
    if (!nqns.insert(subsystem.nqn).second) {
      return Bad("--nqn", subsystem.nqn, "names two subsystems; rename one");
    }
    for (const NamespaceOptions& space : subsystem.namespaces) {
      if (IsSynthetic(space.path)) continue;
      const bool known = !paths.insert(space.path).second;
      const bool was_claimed = claimed.count(space.path) != 0;
      if (!space.shared) claimed.insert(space.path);
      if (known && (was_claimed || !space.shared)) {
        return Bad("--export", space.path,
                   "exported twice; export it once, or pass --shared");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSubsystem(const SubsystemOptions& subsystem) {
  if (!subsystem.nqn.empty()) {
    SLUICE_RETURN_IF_ERROR(CheckSubsystemNqn(subsystem.nqn));
  }
  SLUICE_RETURN_IF_ERROR(CheckAllowedHosts(subsystem));
  SLUICE_RETURN_IF_ERROR(CheckSerial(subsystem.serial));
  if (subsystem.namespaces.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--export: subsystem ",
                     subsystem.nqn.empty() ? "without an nqn" : subsystem.nqn,
                     " has no namespace; give it PATH, null:SIZE or ram:SIZE"));
  }
  if (subsystem.namespaces.size() > kNamespacesMax) {
    return Bad("--export", subsystem.namespaces.size(),
               absl::StrCat("use at most ", kNamespacesMax, " in a subsystem"));
  }
  for (const NamespaceOptions& space : subsystem.namespaces) {
    SLUICE_RETURN_IF_ERROR(CheckNamespace(space));
  }
  return absl::OkStatus();
}

absl::Status CheckSubsystems(const std::vector<SubsystemOptions>& subsystems) {
  if (subsystems.empty()) {
    return absl::InvalidArgumentError(
        "nothing to export: say --export PATH, --export null:SIZE or --export "
        "ram:SIZE, or name a --config FILE.toml that does");
  }
  if (subsystems.size() > kSubsystemsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(subsystems.size(), " subsystems: use at most ",
                     kSubsystemsMax, " in one process"));
  }
  for (const SubsystemOptions& subsystem : subsystems) {
    SLUICE_RETURN_IF_ERROR(CheckSubsystem(subsystem));
  }
  return CheckUnique(subsystems);
}

}  // namespace

SpinOptions TargetOptions::SpinOf(size_t index) const {
  SpinOptions chosen = spin;
  for (const ReactorOverride& one : reactors) {
    if (one.index != index) continue;
    if (one.poll_mode) chosen.mode = *one.poll_mode;
    if (one.max_spin) chosen.max_spin = *one.max_spin;
    if (one.max_spin_share) chosen.max_spin_share = *one.max_spin_share;
  }
  return chosen;
}

absl::Status TargetOptions::Validate() const {
  SLUICE_RETURN_IF_ERROR(CheckSubsystems(subsystems));
  SLUICE_RETURN_IF_ERROR(CheckListen(*this));
  SLUICE_RETURN_IF_ERROR(CheckCores(*this));
  SLUICE_RETURN_IF_ERROR(CheckQueues(*this));
  SLUICE_RETURN_IF_ERROR(CheckWaiting(*this));
  SLUICE_RETURN_IF_ERROR(CheckPool(*this));
  return CheckTimes(*this);
}

}  // namespace sluice::target
