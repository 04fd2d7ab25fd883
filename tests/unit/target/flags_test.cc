#include "target/flags.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "target/flags_values.h"
#include "tests/support/status_matchers.h"

namespace sluice::target {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Arguments = std::vector<std::string>;

absl::StatusOr<Invocation> Parse(const Arguments& arguments) {
  std::vector<const char*> argv = {"sluiced"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  return ParseFlags(static_cast<int>(argv.size()), argv.data());
}

Arguments WithExport(Arguments arguments) {
  arguments.insert(arguments.begin(), {"--export", "null:1M"});
  return arguments;
}

// A processor that this process may use.
int SomeCore() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  return core;
}

// A file with this text, gone when the test ends.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string pattern = absl::StrCat(testing::TempDir(), "sluice_XXXXXX");
    const int fd = mkstemp(pattern.data());
    close(fd);
    path_ = pattern;
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ParseFlags, DefaultsAreThoseOfOptions) {
  const auto parsed = Parse(WithExport({}));

  ASSERT_THAT(parsed, IsOk());
  const TargetOptions defaults;
  const TargetOptions& options = parsed->options;
  EXPECT_THAT(parsed->answer, IsEmpty());
  EXPECT_FALSE(parsed->check_config);
  EXPECT_EQ(options.queue_depth, defaults.queue_depth);
  EXPECT_EQ(options.buffer_pool_bytes, defaults.buffer_pool_bytes);
  EXPECT_EQ(options.drain_timeout, defaults.drain_timeout);
  EXPECT_THAT(options.listen, IsEmpty());
  ASSERT_EQ(options.subsystems.size(), 1U);
  EXPECT_THAT(options.subsystems[0].nqn, IsEmpty());
  EXPECT_EQ(options.subsystems[0].namespaces[0].block_bytes, 512U);
}

TEST(ParseFlags, ReadsEveryFlag) {
  const auto parsed = Parse({"--export=/a",
                             "--export",
                             "ram:64M",
                             "--nqn",
                             "nqn.2024-01.org.example:a",
                             "--listen",
                             "[::1]",
                             "--listen=10.0.0.1:0",
                             "--provider",
                             "iwarp",
                             "--iwarp-crc",
                             "on",
                             "--cores",
                             absl::StrCat(SomeCore()),
                             "--poll-mode",
                             "event",
                             "--cq-depth-factor",
                             "2",
                             "--queue-depth",
                             "1024",
                             "--max-queues",
                             "600",
                             "--in-capsule",
                             "8K",
                             "--buffer-pool",
                             "1.5G",
                             "--block-size",
                             "4096",
                             "--read-only",
                             "--shared",
                             "--allow-host",
                             "nqn.2014-08.org.nvmexpress:uuid:h1",
                             "--allow-host",
                             "nqn.h2",
                             "--drain-timeout",
                             "0.5",
                             "--stats-interval",
                             "10",
                             "--log-level",
                             "debug",
                             "--check-config"});

  ASSERT_THAT(parsed, IsOk());
  const TargetOptions& options = parsed->options;
  EXPECT_TRUE(parsed->check_config);
  ASSERT_EQ(options.subsystems.size(), 1U);
  const SubsystemOptions& subsystem = options.subsystems[0];
  EXPECT_EQ(subsystem.nqn, "nqn.2024-01.org.example:a");
  EXPECT_THAT(subsystem.allowed_hosts,
              ElementsAre("nqn.2014-08.org.nvmexpress:uuid:h1", "nqn.h2"));
  ASSERT_EQ(subsystem.namespaces.size(), 2U);
  EXPECT_EQ(subsystem.namespaces[0].path, "/a");
  EXPECT_EQ(subsystem.namespaces[1].path, "ram:64M");
  for (const NamespaceOptions& space : subsystem.namespaces) {
    EXPECT_EQ(space.block_bytes, 4096U);
    EXPECT_TRUE(space.read_only);
    EXPECT_TRUE(space.shared);
  }
  EXPECT_THAT(options.listen, ElementsAre("[::1]", "10.0.0.1:0"));
  EXPECT_THAT(options.cores, ElementsAre(SomeCore()));
  EXPECT_EQ(options.provider, Provider::kIwarp);
  EXPECT_EQ(options.iwarp_crc, IwarpCrc::kOn);
  EXPECT_EQ(options.spin.mode, PollMode::kEvent);
  EXPECT_EQ(options.cq_depth_factor, 2U);
  EXPECT_EQ(options.queue_depth, 1024U);
  EXPECT_EQ(options.max_queues, 600U);
  EXPECT_EQ(options.in_capsule_bytes, 8192U);
  EXPECT_EQ(options.buffer_pool_bytes, kGiB + kGiB / 2);
  EXPECT_EQ(options.drain_timeout, absl::Milliseconds(500));
  EXPECT_EQ(options.stats_interval, absl::Seconds(10));
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_FALSE(options.wait_for_device);
}

struct BadCase {
  Arguments arguments;
  std::string message;  // a part of it
};

TEST(ParseFlags, RefusesInOneLineThatSaysWhatToDo) {
  const BadCase cases[] = {
      {{}, "nothing to export: say --export PATH"},
      {{"--exprt", "x"}, "unknown flag --exprt, did you mean --export?"},
      {WithExport({"--queue-dept=3"}), "did you mean --queue-depth?"},
      {WithExport({"--frobnicate"}), "unknown flag --frobnicate; see: sluiced"},
      {WithExport({"-x"}), "unknown flag -x"},
      {{"disk.img"}, "say --export disk.img"},
      {{"--export"}, "--export needs a value"},
      {{"--export", "--read-only"},
       "--export needs a value, not the flag --read-only"},
      {{"--export", "x", "--nqn", "--export=y"}, "--nqn needs a value, not"},
      {WithExport({"--nqn"}), "--nqn needs a value"},
      {{"--export", ""}, "--export: use PATH, null:SIZE or ram:SIZE"},
      {{"--export", "ram:lots"}, "size 'lots': use a number"},
      {{"--export", "ram:0"}, "positive multiple of the block size 512"},
      {{"--export", "null:513"}, "positive multiple of the block size 512"},
      {WithExport({"--nqn", ""}), "--nqn is empty"},
      {WithExport({"--nqn", "disk1"}), "use the form nqn.yyyy-mm."},
      {WithExport({"--nqn", "nqn.2024-01.a:b", "--nqn", "nqn.2024-01.a:c"}),
       "--nqn is given 2 times"},
      {WithExport({"--queue-depth", "1"}), "--queue-depth 1: use 2 to 1024"},
      {WithExport({"--queue-depth", "ten"}),
       "--queue-depth 'ten': use a whole number"},
      {WithExport({"--queue-depth", "-5"}), "--queue-depth '-5'"},
      {WithExport({"--queue-depth", "8", "--queue-depth", "9"}),
       "--queue-depth is given 2 times"},
      {WithExport({"--cq-depth-factor", "5"}), "use 2 to 4"},
      {WithExport({"--max-queues", "1"}), "--max-queues 1: use 2 to"},
      {WithExport({"--max-queues", "4294967296"}), "use a whole number"},
      {WithExport({"--in-capsule", "17"}), "use a multiple of 16, as in 32"},
      {WithExport({"--in-capsule", "32K"}), "use 0 to 16384"},
      {WithExport({"--in-capsule", "8G"}), "--in-capsule '8G': is too large"},
      {WithExport({"--buffer-pool", "4M"}), "use at least 8 MiB"},
      {WithExport({"--buffer-pool", "x"}), "--buffer-pool size 'x'"},
      {WithExport({"--block-size", "1024"}), "'1024': use 512 or 4096"},
      {WithExport({"--provider", "siw"}), "use auto, verbs or iwarp"},
      {WithExport({"--iwarp-crc", "yes"}), "use auto, on or off"},
      {WithExport({"--poll-mode", "fast"}), "use hybrid, poll or event"},
      {WithExport({"--cores", "1-0"}), "write ranges from low to high"},
      {WithExport({"--cores", "0,,1"}), "as in 0,2-3"},
      {WithExport({"--cores", "4000"}), "no such processor"},
      {WithExport({"--listen", "localhost"}), "not an IPv4 or IPv6 address"},
      {WithExport({"--listen", "1.2.3.4:99999"}), "up to 65535"},
      {WithExport({"--allow-host", "me"}), "use a host's NQN"},
      {WithExport({"--drain-timeout", "soon"}), "as in 5 or 0.5"},
      {WithExport({"--drain-timeout", "nan"}), "as in 5 or 0.5"},
      {WithExport({"--drain-timeout", "4000"}), "use 0 to 3600 seconds"},
      {WithExport({"--stats-interval", "0.01"}), "or 0 for SIGUSR1 only"},
      {WithExport({"--log-level", "loud"}), "use debug, info, warning"},
      {WithExport({"--read-only=perhaps"}), "read-only"},
      {WithExport({"--config", "/nowhere/x.toml"}),
       "--config /nowhere/x.toml: cannot open it: No such file"},
      {WithExport({"--config", "/"}), "--config /: cannot read it: Is a dir"},
  };
  for (const BadCase& bad : cases) {
    const auto parsed = Parse(bad.arguments);

    SCOPED_TRACE(absl::StrCat(bad.message, " from ", bad.arguments.size()));
    ASSERT_THAT(parsed, Not(IsOk()));
    EXPECT_THAT(std::string(parsed.status().message()),
                AllOf(HasSubstr(bad.message), Not(HasSubstr("\n"))));
  }
}

TEST(ParseFlags, HelpAndVersionAnswerWhateverElseIsThere) {
  const auto help = Parse({"--help"});
  const auto version = Parse({"--version"});

  ASSERT_THAT(help, IsOk());
  EXPECT_THAT(help->answer, AllOf(HasSubstr("--export"), HasSubstr("--config"),
                                  HasSubstr("default 128")));
  ASSERT_THAT(version, IsOk());
  EXPECT_THAT(version->answer, StartsWith("sluiced "));
}

TEST(ParseFlags, FlagsOverrideTheFile) {
  const ConfigFile file(
      "queue-depth = 32\nmax-queues = 100\nlisten = '10.0.0.1'\n"
      "[[subsystem]]\nnqn = 'nqn.2024-01.org.example:a'\n"
      "allow-host = ['nqn.h1']\n"
      "[[subsystem.namespace]]\npath = '/a'\n");

  const auto parsed =
      Parse({"--config", file.path(), "--queue-depth", "64", "--export",
             "null:1M", "--read-only", "--listen", "10.0.0.2"});

  ASSERT_THAT(parsed, IsOk());
  const TargetOptions& options = parsed->options;
  EXPECT_EQ(options.queue_depth, 64U);
  EXPECT_EQ(options.max_queues, 100U);
  EXPECT_THAT(options.listen, ElementsAre("10.0.0.2"));
  ASSERT_EQ(options.subsystems.size(), 1U);
  EXPECT_EQ(options.subsystems[0].nqn, "nqn.2024-01.org.example:a");
  EXPECT_THAT(options.subsystems[0].allowed_hosts, ElementsAre("nqn.h1"));
  ASSERT_EQ(options.subsystems[0].namespaces.size(), 1U);
  EXPECT_EQ(options.subsystems[0].namespaces[0].path, "null:1M");
  EXPECT_TRUE(options.subsystems[0].namespaces[0].read_only);
}

TEST(ParseFlags, RefusesFlagsThatCouldMeanSeveralSubsystems) {
  const ConfigFile file(
      "[[subsystem]]\nnqn = 'nqn.2024-01.org.example:a'\n"
      "[[subsystem.namespace]]\npath = '/a'\n"
      "[[subsystem]]\nnqn = 'nqn.2024-01.org.example:b'\n"
      "[[subsystem.namespace]]\npath = '/b'\n");

  EXPECT_THAT(Parse({"--config", file.path()}), IsOk());
  EXPECT_THAT(Parse({"--config", file.path(), "--export", "/c"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("which of the 2 subsystems")));
}

TEST(ParseFlags, MachineMattersOfTheFileAreCheckedToo) {
  const ConfigFile file("cores = '4000'\n");

  EXPECT_THAT(Parse(WithExport({"--config", file.path()})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--cores 4000: no such processor")));
}

TEST(FlagsValues, ParsesCores) {
  EXPECT_THAT(*ParseCores("0,2-3"), ElementsAre(0, 2, 3));
  EXPECT_THAT(*ParseCores("7"), ElementsAre(7));
  EXPECT_THAT(ParseCores("0-999999"), Not(IsOk()));
  EXPECT_THAT(ParseCores(""), Not(IsOk()));
  EXPECT_THAT(ParseCores("1-"), Not(IsOk()));
  EXPECT_THAT(ParseCores("-1"), Not(IsOk()));
  EXPECT_THAT(ParseCores("1 ,2"), IsOk());
}

TEST(FlagsValues, GuessesTheNearestWordOnly) {
  const std::vector<std::string> words = {"--export", "--nqn", "--max-queues"};

  EXPECT_EQ(DidYouMean("--exprot", words), ", did you mean --export?");
  EXPECT_EQ(DidYouMean("--max", words), ", did you mean --max-queues?");
  EXPECT_EQ(DidYouMean("--frobnicate", words), "");
  EXPECT_EQ(DidYouMean(std::string(100000, 'x'), words), "");
}

}  // namespace
}  // namespace sluice::target
