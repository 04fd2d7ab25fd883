#include "target/options.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace sluice::target {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kNqn[] = "nqn.2024-01.org.example:disk1";

SubsystemOptions Subsystem(const std::string& nqn, const std::string& path) {
  SubsystemOptions subsystem;
  subsystem.nqn = nqn;
  subsystem.namespaces.emplace_back().path = path;
  return subsystem;
}

TargetOptions Valid() {
  TargetOptions options;
  options.subsystems.push_back(Subsystem(kNqn, "/a"));
  return options;
}

struct Case {
  std::function<void(TargetOptions*)> change;
  std::string message;  // a part of it; empty: valid
};

void CheckAll(const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("case ", i, " ", cases[i].message));
    TargetOptions options = Valid();
    cases[i].change(&options);

    const absl::Status status = options.Validate();

    if (cases[i].message.empty()) {
      EXPECT_THAT(status, IsOk());
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr(cases[i].message)));
    }
  }
}

TEST(TargetOptions, TheDefaultsNeedOnlyANamespace) {
  EXPECT_THAT(TargetOptions().Validate(), Not(IsOk()));
  EXPECT_THAT(Valid().Validate(), IsOk());
}

TEST(TargetOptions, ChecksEachRangeAtItsEnds) {
  using O = TargetOptions;
  CheckAll({
      {[](O* o) { o->queue_depth = 1; }, "--queue-depth 1: use 2 to 1024"},
      {[](O* o) { o->queue_depth = 2; }, ""},
      {[](O* o) { o->queue_depth = 1024; }, ""},
      {[](O* o) { o->queue_depth = 1025; }, "--queue-depth 1025"},
      {[](O* o) { o->cq_depth_factor = 1; }, "--cq-depth-factor 1: use 2 to 4"},
      {[](O* o) { o->cq_depth_factor = 5; }, "--cq-depth-factor 5"},
      {[](O* o) { o->max_queues = 1; }, "--max-queues 1"},
      {[](O* o) { o->max_queues = 2; }, ""},
      {[](O* o) { o->max_queues = 32769; }, "--max-queues 32769"},
      {[](O* o) { o->in_capsule_bytes = 0; }, ""},
      {[](O* o) { o->in_capsule_bytes = 16384; }, ""},
      {[](O* o) { o->in_capsule_bytes = 16400; }, "use 0 to 16384"},
      {[](O* o) { o->in_capsule_bytes = 8; }, "use a multiple of 16, as in 16"},
      {[](O* o) { o->buffer_pool_bytes = 8 * kMiB; }, ""},
      {[](O* o) { o->buffer_pool_bytes = 8 * kMiB - 1; }, "at least 8 MiB"},
      {[](O* o) { o->buffer_pool_bytes = UINT64_MAX; }, "at most 1 TiB"},
      {[](O* o) { o->drain_timeout = absl::ZeroDuration(); }, ""},
      {[](O* o) { o->drain_timeout = absl::Seconds(-1); }, "--drain-timeout"},
      {[](O* o) { o->drain_timeout = absl::Hours(2); }, "use 0 to 3600"},
      {[](O* o) { o->stats_interval = absl::Milliseconds(100); }, ""},
      {[](O* o) { o->stats_interval = absl::Milliseconds(99); },
       "--stats-interval"},
      {[](O* o) { o->stats_interval = absl::InfiniteDuration(); },
       "--stats-interval"},
  });
}

TEST(TargetOptions, ChecksCoresOfThisMachine) {
  using O = TargetOptions;
  CheckAll({
      {[](O* o) { o->cores = {-1}; }, "--cores -1: no such processor"},
      {[](O* o) { o->cores = {100000}; }, "this process; it may use "},
  });
}

TEST(TargetOptions, ChecksNames) {
  using O = TargetOptions;
  const auto named = [](const std::string& nqn) {
    return [nqn](O* o) { o->subsystems[0].nqn = nqn; };
  };
  const std::string form = "use the form nqn.yyyy-mm.reverse.domain:name";
  const std::string longest =
      absl::StrCat("nqn.2024-01.a:", std::string(223 - 14, 'x'));
  CheckAll({
      {named(""), ""},
      {named(longest), ""},
      {named(longest + "x"), "of 224 bytes: use 1 to 223 bytes"},
      {named("disk"), form},
      {named("nqn.2024-13.a:b"), form},
      {named("nqn.2024-00.a:b"), form},
      {named("nqn.24-01.a:b"), form},
      {named("nqn.2024-01.:b"), form},
      {named("nqn.2024-01.a:"), form},
      {named("nqn.2024-01.a"), form},
      {named("nqn.2024-01.a_b:c"), form},
      {named("nqn.2024-01.a:b c"), "leave out spaces"},
      {named("nqn.2024-01.a:b\n"), "leave out spaces"},
      {named("nqn.2024-01.a:gr\xC3\xB6\xC3\x9F"), ""},
      {named("nqn.2014-08.org.nvmexpress.discovery"), "the discovery"},
      {named("nqn.2014-08.org.nvmexpress:uuid:"
             "01234567-89ab-cdef-0123-456789abcdef"),
       ""},
      {named("nqn.2014-08.org.nvmexpress:uuid:0123"), "a UUID must follow"},
      {[](O* o) { o->subsystems[0].serial = "12345678901234567890"; }, ""},
      {[](O* o) { o->subsystems[0].serial = "123456789012345678901"; },
       "serial"},
      {[](O* o) { o->subsystems[0].serial = " x"; }, "serial ' x'"},
      {[](O* o) { o->subsystems[0].allowed_hosts = {"nqn.x"}; }, ""},
      {[](O* o) { o->subsystems[0].allowed_hosts = {"x"}; }, "--allow-host x"},
      {[](O* o) { o->subsystems[0].allowed_hosts = {""}; }, "--allow-host of"},
  });
}

TEST(TargetOptions, ChecksNamespaces) {
  using O = TargetOptions;
  const auto path = [](const std::string& text, uint32_t block_bytes) {
    return [=](O* o) {
      o->subsystems[0].namespaces[0].path = text;
      o->subsystems[0].namespaces[0].block_bytes = block_bytes;
    };
  };
  CheckAll({
      {path("ram:1M", 4096), ""},
      {path("ram:1.5K", 512), ""},
      {path("ram:1.5K", 4096), "multiple of the block size 4096"},
      {path("null:0", 512), "positive multiple"},
      {path("null:", 512), "--export null:"},
      {path("", 512), "--export: use PATH, null:SIZE or ram:SIZE"},
      {path(std::string("a\0b", 3), 512), "NUL"},
      {path("/a", 1024), "--block-size 1024: use 512 or 4096"},
      {[](O* o) { o->subsystems[0].namespaces.clear(); }, "has no namespace"},
      {[](O* o) { o->subsystems[0].namespaces.resize(1025); },
       "use at most 1024"},
      {[](O* o) { o->subsystems.clear(); }, "nothing to export"},
  });
}

TEST(TargetOptions, RefusesTheSameThingTwice) {
  using O = TargetOptions;
  const auto second = [](const std::string& nqn, const std::string& a,
                         bool shared_a, const std::string& b, bool shared_b) {
    return [=](O* o) {
      o->subsystems[0].namespaces[0].path = a;
      o->subsystems[0].namespaces[0].shared = shared_a;
      o->subsystems.push_back(Subsystem(nqn, b));
      o->subsystems[1].namespaces[0].shared = shared_b;
    };
  };
  const std::string other = "nqn.2024-01.org.example:disk2";
  CheckAll({
      {second(other, "/a", false, "/b", false), ""},
      {second(other, "/a", false, "/a", false), "/a: exported twice"},
      {second(other, "/a", true, "/a", false), "/a: exported twice"},
      {second(other, "/a", false, "/a", true), "/a: exported twice"},
      {second(other, "/a", true, "/a", true), ""},
      {second(other, "ram:1M", false, "ram:1M", false), ""},
      {second(kNqn, "/a", false, "/b", false), "names two subsystems"},
      {second("", "/a", false, "/b", false), "give each subsystem an nqn"},
  });
}

TEST(TargetOptions, ChecksListeners) {
  using O = TargetOptions;
  const auto listen = [](std::vector<std::string> addresses) {
    return [=](O* o) { o->listen = addresses; };
  };
  CheckAll({
      {listen({"10.0.0.1", "10.0.0.1:4421", "[::]", ":0", ":0"}), ""},
      {listen({"[fe80::1%nowhere0]:4420"}), ""},  // asked when it listens
      {listen({"fe80::1%nowhere0"}), ""},
      {listen({"[fe80::1%]:4420"}), "--listen: address"},
      {listen({"x%eth0"}), "--listen: address"},
      {listen({"10.0.0.1", "10.0.0.1:4420"}), "10.0.0.1:4420: given twice"},
      {listen(std::vector<std::string>(65, ":0")), "use at most 64"},
  });
}

}  // namespace
}  // namespace sluice::target
