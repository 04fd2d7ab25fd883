#include "target/config.h"

#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/status_macros.h"
#include "target/config_shape.h"
#include "target/config_values.h"
#include "target/flags_values.h"

namespace sluice::target {
namespace {

// --- keys ---

template <typename T>
struct Key {
  const char* name;
  absl::Status (*read)(const toml::node& node, T* out);
};

constexpr Key<NamespaceOptions> kNamespaceKeys[] = {
    {"path", [](const toml::node& n,
                NamespaceOptions* o) { return ReadString(n, &o->path); }},
    {"block-size",
     [](const toml::node& n, NamespaceOptions* o) {
       return ReadSmallBytes(n, &o->block_bytes);
     }},
    {"read-only",
     [](const toml::node& n, NamespaceOptions* o) {
       return ReadBool(n, &o->read_only);
     }},
    {"shared", [](const toml::node& n,
                  NamespaceOptions* o) { return ReadBool(n, &o->shared); }},
};

constexpr Key<SubsystemOptions> kSubsystemKeys[] = {
    {"nqn", [](const toml::node& n,
               SubsystemOptions* o) { return ReadString(n, &o->nqn); }},
    {"serial", [](const toml::node& n,
                  SubsystemOptions* o) { return ReadString(n, &o->serial); }},
    {"allow-host",
     [](const toml::node& n, SubsystemOptions* o) {
       return ReadStrings(n, &o->allowed_hosts);
     }},
};

constexpr Key<ReactorOverride> kReactorKeys[] = {
    {"index",
     [](const toml::node& n, ReactorOverride* o) {
       return ReadCount(n, &o->index.emplace());
     }},
    {"poll-mode",
     [](const toml::node& n, ReactorOverride* o) {
       std::string text;
       SLUICE_RETURN_IF_ERROR(ReadString(n, &text));
       SLUICE_ASSIGN_OR_RETURN(o->poll_mode, ParsePollMode(text));
       return absl::OkStatus();
     }},
    {"max-spin-us",
     [](const toml::node& n, ReactorOverride* o) {
       return ReadMicroseconds(n, &o->max_spin.emplace());
     }},
    {"max-spin-share",
     [](const toml::node& n, ReactorOverride* o) {
       return ReadPercent(n, &o->max_spin_share.emplace());
     }},
};

constexpr Key<TargetOptions> kTargetKeys[] = {
    {"listen", [](const toml::node& n,
                  TargetOptions* o) { return ReadStrings(n, &o->listen); }},
    {"provider",
     [](const toml::node& n, TargetOptions* o) {
       std::string text;
       SLUICE_RETURN_IF_ERROR(ReadString(n, &text));
       SLUICE_ASSIGN_OR_RETURN(o->provider, ParseProvider(text));
       return absl::OkStatus();
     }},
    {"iwarp-crc",
     [](const toml::node& n, TargetOptions* o) {
       std::string text;
       SLUICE_RETURN_IF_ERROR(ReadString(n, &text));
       SLUICE_ASSIGN_OR_RETURN(o->iwarp_crc, ParseIwarpCrc(text));
       return absl::OkStatus();
     }},
    {"cores", [](const toml::node& n,
                 TargetOptions* o) { return ReadCores(n, &o->cores); }},
    {"poll-mode",
     [](const toml::node& n, TargetOptions* o) {
       std::string text;
       SLUICE_RETURN_IF_ERROR(ReadString(n, &text));
       SLUICE_ASSIGN_OR_RETURN(o->spin.mode, ParsePollMode(text));
       return absl::OkStatus();
     }},
    {"max-spin-us",
     [](const toml::node& n, TargetOptions* o) {
       return ReadMicroseconds(n, &o->spin.max_spin);
     }},
    {"max-spin-share",
     [](const toml::node& n, TargetOptions* o) {
       return ReadPercent(n, &o->spin.max_spin_share);
     }},
    {"realtime-priority",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->realtime_priority);
     }},
    {"cq-batch", [](const toml::node& n,
                    TargetOptions* o) { return ReadCount(n, &o->cq_batch); }},
    {"ack-batch", [](const toml::node& n,
                     TargetOptions* o) { return ReadCount(n, &o->ack_batch); }},
    {"solicited-only",
     [](const toml::node& n, TargetOptions* o) {
       return ReadBool(n, &o->solicited_only);
     }},
    {"completion-vector",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->completion_vector.emplace());
     }},
    {"irq-affinity",
     [](const toml::node& n, TargetOptions* o) {
       return ReadBool(n, &o->irq_affinity);
     }},
    {"inline", [](const toml::node& n,
                  TargetOptions* o) { return ReadCount(n, &o->inline_bytes); }},
    {"signal-every",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->signal_every);
     }},
    {"shared-receives",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->shared_receives);
     }},
    {"cq-depth-factor",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->cq_depth_factor);
     }},
    {"queue-depth",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->queue_depth);
     }},
    {"max-queues",
     [](const toml::node& n, TargetOptions* o) {
       return ReadCount(n, &o->max_queues);
     }},
    {"in-capsule",
     [](const toml::node& n, TargetOptions* o) {
       return ReadSmallBytes(n, &o->in_capsule_bytes);
     }},
    {"buffer-pool",
     [](const toml::node& n, TargetOptions* o) {
       return ReadBytes(n, &o->buffer_pool_bytes);
     }},
    {"drain-timeout",
     [](const toml::node& n, TargetOptions* o) {
       return ReadSeconds(n, &o->drain_timeout);
     }},
    {"stats-interval",
     [](const toml::node& n, TargetOptions* o) {
       return ReadSeconds(n, &o->stats_interval);
     }},
    {"log-level",
     [](const toml::node& n, TargetOptions* o) {
       std::string text;
       SLUICE_RETURN_IF_ERROR(ReadString(n, &text));
       SLUICE_ASSIGN_OR_RETURN(o->log_level, ParseLogLevel(text));
       return absl::OkStatus();
     }},
};

// --- tables ---

// Walks the tables; every error gets its place.
class Reader {
 public:
  explicit Reader(absl::string_view source) : source_(source) {}

  absl::Status Read(const toml::table& table, TargetOptions* out) const {
    for (auto&& [key, node] : table) {
      if (key.str() == "subsystem") {
        SLUICE_RETURN_IF_ERROR(
            ReadTables(key, node, &out->subsystems, &Reader::ReadSubsystem));
        continue;
      }
      if (key.str() == "reactor") {
        SLUICE_RETURN_IF_ERROR(
            ReadTables(key, node, &out->reactors, &Reader::ReadReactor));
        continue;
      }
      SLUICE_RETURN_IF_ERROR(ReadKey(key, node, kTargetKeys, "subsystem", out));
      SLUICE_RETURN_IF_ERROR(CheckAlone(key, node));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status At(const toml::source_region& region,
                  absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(
        source_, ":", region.begin.line, ":", region.begin.column, ": ", what));
  }

  // Reads a key of the table that has these; `child` names its tables.
  template <typename T>
  absl::Status ReadKey(const toml::key& key, const toml::node& node,
                       absl::Span<const Key<T>> keys, const char* child,
                       T* out) const {
    std::vector<std::string> names;
    if (child != nullptr) names.emplace_back(child);
    for (const Key<T>& known : keys) {
      if (key.str() == known.name) {
        absl::Status status = known.read(node, out);
        if (status.ok()) return status;
        return At(node.source(),
                  absl::StrCat(known.name, ": ", status.message()));
      }
      names.emplace_back(known.name);
    }
    const absl::string_view name(key.str().data(), key.str().size());
    const std::string guess = DidYouMean(name, names);
    return At(
        key.source(),
        absl::StrCat("unknown key '", name, "'",
                     guess.empty() ? absl::StrCat("; known here: ",
                                                  absl::StrJoin(names, ", "))
                                   : guess));
  }
  template <typename T, size_t N>
  absl::Status ReadKey(const toml::key& key, const toml::node& node,
                       const Key<T> (&keys)[N], const char* child,
                       T* out) const {
    return ReadKey(key, node, absl::Span<const Key<T>>(keys), child, out);
  }

  // An array of tables, [[subsystem]] or [[subsystem.namespace]].
  template <typename T>
  absl::Status ReadTables(const toml::key& key, const toml::node& node,
                          std::vector<T>* out,
                          absl::Status (Reader::*read)(const toml::table&, T*)
                              const) const {
    const std::string name(key.str());
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return At(key.source(),
                absl::StrCat("write [[…", name, "]] with double brackets"));
    }
    for (const toml::node& element : *array) {
      const toml::table* table = element.as_table();
      if (table == nullptr) {
        return At(
            element.source(),
            absl::StrCat(name, ": ", WrongType(element, "a table").message()));
      }
      out->emplace_back();
      SLUICE_RETURN_IF_ERROR((this->*read)(*table, &out->back()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadReactor(const toml::table& table,
                           ReactorOverride* out) const {
    for (auto&& [key, node] : table) {
      SLUICE_RETURN_IF_ERROR(
          ReadKey<ReactorOverride>(key, node, kReactorKeys, nullptr, out));
    }
    if (out->index) return absl::OkStatus();
    return At(table.source(),
              "reactor: give it an index: 0 is the first of cores");
  }

  absl::Status ReadSubsystem(const toml::table& table,
                             SubsystemOptions* out) const {
    for (auto&& [key, node] : table) {
      if (key.str() == "namespace") {
        SLUICE_RETURN_IF_ERROR(
            ReadTables(key, node, &out->namespaces, &Reader::ReadNamespace));
      } else {
        SLUICE_RETURN_IF_ERROR(
            ReadKey(key, node, kSubsystemKeys, "namespace", out));
      }
    }
    TargetOptions alone;
    alone.subsystems.push_back(*out);
    if (out->namespaces.empty()) {
      alone.subsystems[0].namespaces = {SomeNamespace()};
    }
    const absl::Status status = alone.Validate();
    return status.ok() ? status : At(table.source(), status.message());
  }

  absl::Status ReadNamespace(const toml::table& table,
                             NamespaceOptions* out) const {
    for (auto&& [key, node] : table) {
      SLUICE_RETURN_IF_ERROR(
          ReadKey<NamespaceOptions>(key, node, kNamespaceKeys, nullptr, out));
    }
    if (out->path.empty()) {
      return At(table.source(),
                "namespace: give it a path: PATH, null:SIZE or ram:SIZE");
    }
    TargetOptions alone;
    alone.subsystems.resize(1);
    alone.subsystems[0].namespaces = {*out};
    const absl::Status status = alone.Validate();
    return status.ok() ? status : At(table.source(), status.message());
  }

  // Whether a value is in its own range, so that the message has its line.
  absl::Status CheckAlone(const toml::key& key, const toml::node& node) const {
    if (key.str() == "cores") return absl::OkStatus();  // this machine's matter
    TargetOptions alone;
    alone.subsystems.resize(1);
    alone.subsystems[0].namespaces = {SomeNamespace()};
    SLUICE_RETURN_IF_ERROR(
        ReadKey(key, node, kTargetKeys, "subsystem", &alone));
    const absl::Status status = alone.Validate();
    return status.ok() ? status : At(node.source(), status.message());
  }

  // So that a part can be validated without its namespaces.
  static NamespaceOptions SomeNamespace() {
    NamespaceOptions some;
    some.path = "null:1M";
    return some;
  }

  const absl::string_view source_;
};

struct FileCloser {
  void operator()(FILE* file) const { std::fclose(file); }
};

}  // namespace

absl::StatusOr<TargetOptions> ParseConfig(absl::string_view text,
                                          absl::string_view source) {
  if (text.size() > kConfigBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(source, ":1:1: larger than ",
                                                   FormatBytes(kConfigBytesMax),
                                                   "; no configuration is"));
  }
  const absl::Status shape = CheckConfigShape(text);
  if (!shape.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", shape.message()));
  }
  toml::table table;
  try {
    table = toml::parse(std::string_view(text.data(), text.size()));
  } catch (const toml::parse_error& error) {
    const std::string_view what = error.description();
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", error.source().begin.line, ":",
                     error.source().begin.column, ": ",
                     absl::string_view(what.data(), what.size())));
  }
  TargetOptions options;
  SLUICE_RETURN_IF_ERROR(Reader(source).Read(table, &options));
  return options;
}

absl::StatusOr<TargetOptions> LoadConfig(const std::string& path) {
  const auto failed = [&path](const char* call) {
    const int error = errno;
    return absl::ErrnoToStatus(
        error, absl::StrCat("--config ", path, ": cannot ", call, " it"));
  };
  const std::unique_ptr<FILE, FileCloser> file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return failed("open");
  std::string text(kConfigBytesMax + 1, '\0');
  const size_t bytes = std::fread(text.data(), 1, text.size(), file.get());
  if (std::ferror(file.get()) != 0) return failed("read");
  text.resize(bytes);
  return ParseConfig(text, path);
}

}  // namespace sluice::target
