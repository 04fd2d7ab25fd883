#include "target/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/status_macros.h"
#include "target/config.h"
#include "target/flags_values.h"

namespace sluice::target {
namespace {

constexpr char kSeeHelp[] = "; see: sluiced --help";
constexpr size_t kNameColumns = 28;
constexpr size_t kHelpColumns = 50;

// Flags with one value that belongs to the process.
struct ValueFlag {
  const char* name;
  const char* value_name;
  const char* help;
  absl::Status (*apply)(const std::string& text, TargetOptions* options);
};

constexpr ValueFlag kValueFlags[] = {
    {"--provider", "auto|verbs|iwarp",
     "verbs uses this machine's RDMA devices, iwarp needs none and speaks "
     "iWARP over TCP; default auto: verbs where an RDMA device carries the "
     "addresses, else iwarp",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->provider, ParseProvider(text));
       return absl::OkStatus();
     }},
    {"--iwarp-crc", "auto|on|off",
     "whether the iwarp provider asks for checksums; default auto: not from "
     "this machine itself",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->iwarp_crc, ParseIwarpCrc(text));
       return absl::OkStatus();
     }},
    {"--cores", "LIST",
     "processors to run reactors on, one each, as in 0,2-3; default: one "
     "reactor, not pinned",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->cores, ParseCores(text));
       return absl::OkStatus();
     }},
    {"--poll-mode", "MODE",
     "how a reactor waits: hybrid spins under load and sleeps when idle, poll "
     "never sleeps, event never spins; default hybrid",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->spin.mode, ParsePollMode(text));
       return absl::OkStatus();
     }},
    {"--max-spin-us", "USEC",
     "how long hybrid spins in a row at most, 0 to 10000; default 100",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->spin.max_spin, ParseMicroseconds(text));
       return absl::OkStatus();
     }},
    {"--max-spin-share", "PERCENT",
     "of a processor that hybrid may spin away; default 100",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->spin.max_spin_share,
                               ParsePercent(text));
       return absl::OkStatus();
     }},
    {"--realtime-priority", "N",
     "SCHED_FIFO priority of the reactors, 1 to 99; default 0, none",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->realtime_priority, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--cq-batch", "N",
     "completions taken from a queue at a time, 16 to 64; default 32",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->cq_batch, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--ack-batch", "N",
     "completion events acknowledged at once, 1 to 4096; default 64",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->ack_batch, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--solicited-only", "on|off",
     "sleep until a host marks a command as solicited; Linux marks none; "
     "default off",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->solicited_only, ParseSwitch(text));
       return absl::OkStatus();
     }},
    {"--completion-vector", "N",
     "of the completion queues; default: the reactor's number",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->completion_vector, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--irq-affinity", "on|off",
     "move that vector's interrupt to the reactor's processor; default off",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->irq_affinity, ParseSwitch(text));
       return absl::OkStatus();
     }},
    {"--inline", "BYTES",
     "data that a device takes with a work request, 0 to 1024; default 16",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->inline_bytes, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--signal-every", "N",
     "responses for one completion of them, 1 to 64; default 16",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->signal_every, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--shared-receives", "N",
     "receives that the I/O queues of a reactor share, of at least one "
     "queue's depth; default 0, each has its own",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->shared_receives, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--cq-depth-factor", "2..4",
     "completion queue entries per queue depth; default 4",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->cq_depth_factor, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--queue-depth", "N",
     "commands in flight per I/O queue, 2 to 1024; default 128",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->queue_depth, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--max-queues", "N",
     "queue pairs of the process, admin queues included; default 4096",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->max_queues, ParseCount(text));
       return absl::OkStatus();
     }},
    {"--in-capsule", "BYTES",
     "write data that a command carries, a multiple of 16 up to 16K, 0 for "
     "none; default 4096",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->in_capsule_bytes,
                               ParseSmallBytes(text));
       return absl::OkStatus();
     }},
    {"--buffer-pool", "SIZE",
     "data buffers, split over the reactors, at least 8M each; default 64M",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->buffer_pool_bytes, ParseBytes(text));
       return absl::OkStatus();
     }},
    {"--drain-timeout", "SECONDS",
     "how long I/O in flight may take after SIGTERM; default 5",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->drain_timeout, ParseSeconds(text));
       return absl::OkStatus();
     }},
    {"--stats-interval", "SECONDS",
     "print a JSON line of counters this often; default 0, on SIGUSR1 only",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->stats_interval, ParseSeconds(text));
       return absl::OkStatus();
     }},
    {"--log-level", "LEVEL", "debug, info, warning, error or off; default info",
     [](const std::string& text, TargetOptions* options) {
       SLUICE_ASSIGN_OR_RETURN(options->log_level, ParseLogLevel(text));
       return absl::OkStatus();
     }},
};

// Everything as typed.
struct Typed {
  std::vector<std::string> exports;
  std::vector<std::string> nqn;
  std::vector<std::string> listen;
  std::vector<std::string> allow_hosts;
  std::vector<std::string> block_size;
  std::vector<std::string> config;
  std::vector<std::string> values[std::size(kValueFlags)];
  bool read_only = false;
  bool shared = false;
  bool check_config = false;
  bool version = false;
};

// Lines short enough to stand beside the names.
std::string Wrap(absl::string_view help) {
  std::string wrapped;
  size_t length = 0;
  for (absl::string_view word : absl::StrSplit(help, ' ')) {
    const bool breaks = length + word.size() + 1 > kHelpColumns;
    length = breaks ? word.size() : length + word.size() + 1;
    const char* separator = breaks ? "\n" : " ";
    absl::StrAppend(&wrapped, wrapped.empty() ? "" : separator, word);
  }
  return wrapped;
}

// A flag that takes a value each time it is given.
void AddList(CLI::App* app, const char* name, const char* value_name,
             const char* help, std::vector<std::string>* out) {
  CLI::Option* option = app->add_option(name, *out, Wrap(help));
  // Not the arguments behind the value too; "[::1]" is no list.
  option->type_name(value_name)->allow_extra_args(false);
}

// A flag that is given once: CheckOnce says so better than CLI11 does.
void AddValue(CLI::App* app, const char* name, const char* value_name,
              const char* help, std::vector<std::string>* out) {
  AddList(app, name, value_name, help, out);
  app->get_option(name)->expected(1)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

void AddFlags(CLI::App* app, Typed* typed) {
  app->get_formatter()->column_width(kNameColumns);
  app->set_help_flag("-h,--help", "print this and exit");
  AddList(app, "--export", "PATH|null:SIZE|ram:SIZE",
          "a file, a block device, nothing or memory to export; NSIDs follow "
          "the order of these",
          &typed->exports);
  AddValue(app, "--nqn", "NQN",
           "the subsystem's name; default: derived from this machine's id",
           &typed->nqn);
  AddList(app, "--listen", "ADDR[:PORT]",
          "where hosts connect; default: 0.0.0.0:4420, every IPv4 address",
          &typed->listen);
  for (size_t i = 0; i < std::size(kValueFlags); ++i) {
    const ValueFlag& flag = kValueFlags[i];
    AddValue(app, flag.name, flag.value_name, flag.help, &typed->values[i]);
  }
  AddValue(app, "--block-size", "512|4096",
           "logical block size of the namespaces; default 512",
           &typed->block_size);
  app->add_flag("--read-only", typed->read_only,
                "hosts see write-protected disks");
  app->add_flag("--shared", typed->shared,
                Wrap("do not claim files and devices for this process alone"));
  AddList(app, "--allow-host", "NQN",
          "a host that may connect, by its NQN; default: every host",
          &typed->allow_hosts);
  AddValue(app, "--config", "FILE.toml",
           "read a configuration; flags override what it says", &typed->config);
  app->add_flag("--check-config", typed->check_config,
                Wrap("say what would be exported, open nothing, exit"));
  app->add_flag("--version", typed->version, "print the version and exit");
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.push_back(absl::StrCat("--", option->get_lnames().at(0)));
  }
  return names;
}

// CLI11 takes the flag behind a flag without a value for its value.
absl::Status CheckValues(const CLI::App& app) {
  const std::vector<std::string> names = FlagNames(app);
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      const std::string name = value.substr(0, value.find('='));
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--", option->get_lnames().at(0),
                       " needs a value, not the flag ", name));
    }
  }
  return absl::OkStatus();
}

// What is no flag of ours.
absl::Status Unknown(const std::string& word, const CLI::App& app) {
  if (!absl::StartsWith(word, "-")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected argument '", word, "'; to export it say --export ", word));
  }
  const std::string name = word.substr(0, word.find('='));
  const std::string guess = DidYouMean(name, FlagNames(app));
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag ", name, guess.empty() ? std::string(kSeeHelp) : guess));
}

// One line for an exception of CLI11's.
absl::Status FromCli(const CLI::ParseError& error) {
  const std::string what = error.what();
  if (error.get_name() == "ArgumentMismatch" &&
      absl::EndsWith(what, " missing")) {
    const std::string flag = what.substr(0, what.find(": "));
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " needs a value", kSeeHelp));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrReplaceAll(what, {{"\n", " "}}), kSeeHelp));
}

// Answers --help and --version in `answer`. CLI11's exceptions end here.
absl::Status Parse(int argc, const char* const* argv, Typed* typed,
                   std::string* answer) {
  CLI::App app(
      "Exports files and disks over RDMA in the NVMe over Fabrics protocol.",
      "sluiced");
  try {
    AddFlags(&app, typed);
    app.allow_extras();
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    *answer = app.help();
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return FromCli(error);
  }
  const std::vector<std::string> rest = app.remaining();
  if (!rest.empty()) return Unknown(rest[0], app);
  SLUICE_RETURN_IF_ERROR(CheckValues(app));
  if (typed->version) *answer = "sluiced " SLUICE_VERSION "\n";
  return absl::OkStatus();
}

absl::Status CheckOnce(const char* flag,
                       const std::vector<std::string>& values) {
  if (values.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is given ", values.size(), " times; give it once"));
}

absl::Status ApplyValues(const Typed& typed, TargetOptions* options) {
  for (size_t i = 0; i < std::size(kValueFlags); ++i) {
    const std::vector<std::string>& values = typed.values[i];
    SLUICE_RETURN_IF_ERROR(CheckOnce(kValueFlags[i].name, values));
    if (values.empty()) continue;
    const absl::Status status = kValueFlags[i].apply(values[0], options);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(kValueFlags[i].name, " ", status.message()));
  }
  if (!typed.listen.empty()) options->listen = typed.listen;
  return absl::OkStatus();
}

absl::Status ApplyNamespaceFlags(const Typed& typed, TargetOptions* options) {
  uint32_t block_bytes = 0;
  SLUICE_RETURN_IF_ERROR(CheckOnce("--block-size", typed.block_size));
  if (!typed.block_size.empty()) {
    const auto parsed = ParseSmallBytes(typed.block_size[0]);
    if (!parsed.ok() || (*parsed != 512 && *parsed != 4096)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--block-size '", typed.block_size[0], "': use 512 or 4096"));
    }
    block_bytes = *parsed;
  }
  for (SubsystemOptions& subsystem : options->subsystems) {
    for (NamespaceOptions& space : subsystem.namespaces) {
      if (block_bytes != 0) space.block_bytes = block_bytes;
      if (typed.read_only) space.read_only = true;
      if (typed.shared) space.shared = true;
    }
  }
  return absl::OkStatus();
}

// The flags speak of one subsystem: the file's sole one, or one of their own.
absl::Status ApplySubsystemFlags(const Typed& typed, TargetOptions* options) {
  SLUICE_RETURN_IF_ERROR(CheckOnce("--nqn", typed.nqn));
  std::vector<SubsystemOptions>& subsystems = options->subsystems;
  const char* flag = nullptr;
  if (!typed.allow_hosts.empty()) flag = "--allow-host";
  if (!typed.nqn.empty()) flag = "--nqn";
  if (!typed.exports.empty()) flag = "--export";
  if (flag != nullptr && subsystems.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " does not say which of the ", subsystems.size(),
        " subsystems of ", typed.config[0], " it means; write it there"));
  }
  if (subsystems.empty() && !typed.exports.empty()) subsystems.emplace_back();
  if (subsystems.empty()) return absl::OkStatus();
  SubsystemOptions& subsystem = subsystems[0];
  if (!typed.nqn.empty()) {
    if (typed.nqn[0].empty()) {
      return absl::InvalidArgumentError(
          "--nqn is empty; leave it out for the default name");
    }
    subsystem.nqn = typed.nqn[0];
  }
  if (!typed.allow_hosts.empty()) subsystem.allowed_hosts = typed.allow_hosts;
  if (!typed.exports.empty()) subsystem.namespaces.clear();
  for (const std::string& path : typed.exports) {
    subsystem.namespaces.emplace_back().path = path;
  }
  return ApplyNamespaceFlags(typed, options);
}

}  // namespace

absl::StatusOr<Invocation> ParseFlags(int argc, const char* const* argv) {
  Typed typed;
  Invocation invocation;
  SLUICE_RETURN_IF_ERROR(Parse(argc, argv, &typed, &invocation.answer));
  if (!invocation.answer.empty()) return invocation;
  SLUICE_RETURN_IF_ERROR(CheckOnce("--config", typed.config));
  if (!typed.config.empty()) {
    SLUICE_ASSIGN_OR_RETURN(invocation.options, LoadConfig(typed.config[0]));
  }
  invocation.check_config = typed.check_config;
  SLUICE_RETURN_IF_ERROR(ApplyValues(typed, &invocation.options));
  SLUICE_RETURN_IF_ERROR(ApplySubsystemFlags(typed, &invocation.options));
  SLUICE_RETURN_IF_ERROR(invocation.options.Validate());
  return invocation;
}

}  // namespace sluice::target
