#include "target/config.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace sluice::target {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ParseConfig, ReadsEveryKey) {
  const auto parsed = ParseConfig(R"(
listen = ["10.0.0.1:4420", "[fe80::1%eth0]:4421"]
provider = "verbs"
iwarp-crc = "off"
cores = "0,2-3"
poll-mode = "poll"
cq-depth-factor = 3
queue-depth = 64
max-queues = 600
in-capsule = "8K"
buffer-pool = "1.5G"
drain-timeout = 2.5
stats-interval = 60
log-level = "warning"

[[subsystem]]
nqn = "nqn.2024-01.org.example:one"
serial = "SERIAL1"
allow-host = ["nqn.2024-01.org.example:h1", "nqn.2024-01.org.example:h2"]
[[subsystem.namespace]]
path = "/dev/disk/by-id/x"
block-size = 4096
read-only = true
shared = true
[[subsystem.namespace]]
path = "ram:64M"

[[subsystem]]
nqn = "nqn.2024-01.org.example:two"
[[subsystem.namespace]]
path = "null:1T"
)",
                                  "a.toml");

  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->listen,
              ElementsAre("10.0.0.1:4420", "[fe80::1%eth0]:4421"));
  EXPECT_THAT(parsed->cores, ElementsAre(0, 2, 3));
  EXPECT_EQ(parsed->provider, Provider::kVerbs);
  EXPECT_EQ(parsed->iwarp_crc, IwarpCrc::kOff);
  EXPECT_EQ(parsed->spin.mode, PollMode::kPoll);
  EXPECT_EQ(parsed->cq_depth_factor, 3U);
  EXPECT_EQ(parsed->queue_depth, 64U);
  EXPECT_EQ(parsed->max_queues, 600U);
  EXPECT_EQ(parsed->in_capsule_bytes, 8192U);
  EXPECT_EQ(parsed->buffer_pool_bytes, kGiB + kGiB / 2);
  EXPECT_EQ(parsed->drain_timeout, absl::Milliseconds(2500));
  EXPECT_EQ(parsed->stats_interval, absl::Seconds(60));
  EXPECT_EQ(parsed->log_level, LogLevel::kWarning);
  ASSERT_EQ(parsed->subsystems.size(), 2U);
  const SubsystemOptions& one = parsed->subsystems[0];
  EXPECT_EQ(one.nqn, "nqn.2024-01.org.example:one");
  EXPECT_EQ(one.serial, "SERIAL1");
  EXPECT_THAT(one.allowed_hosts, ElementsAre("nqn.2024-01.org.example:h1",
                                             "nqn.2024-01.org.example:h2"));
  ASSERT_EQ(one.namespaces.size(), 2U);
  EXPECT_EQ(one.namespaces[0].path, "/dev/disk/by-id/x");
  EXPECT_EQ(one.namespaces[0].block_bytes, 4096U);
  EXPECT_TRUE(one.namespaces[0].read_only);
  EXPECT_TRUE(one.namespaces[0].shared);
  EXPECT_EQ(one.namespaces[1].path, "ram:64M");
  EXPECT_EQ(one.namespaces[1].block_bytes, 512U);
  EXPECT_FALSE(one.namespaces[1].shared);
  EXPECT_EQ(parsed->subsystems[1].namespaces[0].path, "null:1T");
}

TEST(ParseConfig, AnEmptyFileIsAllDefaults) {
  const auto parsed = ParseConfig("# nothing\n", "a.toml");

  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->subsystems, IsEmpty());
  EXPECT_EQ(parsed->queue_depth, TargetOptions().queue_depth);
}

TEST(ParseConfig, TakesNumbersWhereTextWouldDo) {
  const auto parsed = ParseConfig(
      "cores = [1, 0]\nbuffer-pool = 67108864\nin-capsule = 0\n"
      "listen = '10.0.0.1'\n",
      "a.toml");

  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->cores, ElementsAre(1, 0));
  EXPECT_EQ(parsed->buffer_pool_bytes, 64 * kMiB);
  EXPECT_EQ(parsed->in_capsule_bytes, 0U);
  EXPECT_THAT(parsed->listen, ElementsAre("10.0.0.1"));
}

struct BadCase {
  std::string text;
  std::string place;    // behind "a.toml:"
  std::string message;  // a part of it
};

constexpr char kNamespace[] = "[[subsystem]]\n[[subsystem.namespace]]\n";

TEST(ParseConfig, RefusesWithThePlaceAndWhatToDo) {
  const BadCase cases[] = {
      // Syntax.
      {"queue-depth = \n", "1:", "rror"},
      {"a = 1\nlisten = [\"x\n", "2:", ""},
      {"queue-depth = 8\nqueue-depth = 9\n", "2:", "queue-depth"},
      // Keys.
      {"queue_depth = 8\n", "1:1: ", "did you mean queue-depth?"},
      {"\n  frobnicate = 8\n", "2:3: ", "unknown key 'frobnicate'; known here"},
      {"[[subsystm]]\n", "1:", "did you mean subsystem?"},
      {"[subsystem]\nnqn = 'x'\n", "1:", "write [[…subsystem]]"},
      {"subsystem = [3]\n", "1:14: ", "use a table, not an integer"},
      {"[[subsystem]]\nnqm = 'x'\n", "2:1: ", "did you mean nqn?"},
      {"[[subsystem]]\nserial = 1\n", "2:10: ", "use a string"},
      {absl::StrCat(kNamespace, "pat = 'x'\n"), "3:1: ", "did you mean path?"},
      {absl::StrCat(kNamespace, "shared = true\n"), "2:", "give it a path"},
      // Types.
      {"queue-depth = '8'\n",
       "1:15: ", "queue-depth: use an integer, not a string"},
      {"queue-depth = 8.5\n", "1:15: ", "use an integer, not a float"},
      {"listen = 4420\n", "1:10: ", "use an array of strings"},
      {"listen = ['a', 1]\n", "1:10: ", "use strings in the array"},
      {"cores = true\n", "1:9: ", "not a boolean"},
      {"cores = [0, 'x']\n", "1:9: ", "use numbers in the array"},
      {"cores = '0,x'\n", "1:9: ", "as in 0,2-3"},
      {"drain-timeout = '5s'\n", "1:17: ", "use a number of seconds"},
      {"drain-timeout = nan\n", "1:17: ", "use a number of seconds"},
      {"poll-mode = 'fast'\n", "1:13: ", "use hybrid, poll or event"},
      {"log-level = 'x'\n", "1:13: ", "use debug, info"},
      {absl::StrCat(kNamespace, "path = 'x'\nread-only = 1\n"),
       "4:13: ", "use true or false"},
      // Ranges.
      {"queue-depth = 1\n", "1:15: ", "use 2 to 1024"},
      {"queue-depth = -1\n", "1:15: ", "use a number of 0 or more"},
      {"queue-depth = 4294967296\n", "1:15: ", "is too large"},
      {"buffer-pool = '1M'\n", "1:15: ", "use at least 8 MiB"},
      {"buffer-pool = -1\n", "1:15: ", "use a size of 0 or more"},
      {"listen = 'here'\n", "1:10: ", "not an IPv4 or IPv6 address"},
      {"[[subsystem]]\nnqn = 'x'\n", "1:", "use the form nqn."},
      {"\n[[subsystem]]\nserial = '123456789012345678901'\n",
       "2:", "at most 20 printable"},
      {absl::StrCat(kNamespace, "path = 'x'\nblock-size = 513\n"),
       "2:", "use 512 or 4096"},
      {absl::StrCat(kNamespace, "path = 'ram:x'\n"), "2:", "use a number"},
  };
  for (const BadCase& bad : cases) {
    SCOPED_TRACE(bad.text);
    const auto parsed = ParseConfig(bad.text, "a.toml");

    ASSERT_THAT(parsed, Not(IsOk()));
    EXPECT_THAT(std::string(parsed.status().message()),
                AllOf(StartsWith(absl::StrCat("a.toml:", bad.place)),
                      HasSubstr(bad.message), Not(HasSubstr("\n"))));
  }
}

TEST(ParseConfig, BoundsSizeAndNesting) {
  const auto large =
      ParseConfig(std::string(kConfigBytesMax + 1, '#'), "a.toml");
  const auto brackets =
      ParseConfig(absl::StrCat("\na = ", std::string(100000, '[')), "a.toml");
  std::string dotted = "a";
  for (int i = 0; i < 100000; ++i) dotted += ".a";
  const auto dots = ParseConfig(dotted + " = 1", "a.toml");

  EXPECT_THAT(large, StatusIs(absl::StatusCode::kInvalidArgument,
                              StartsWith("a.toml:1:1: larger than 1 MiB")));
  EXPECT_THAT(brackets, StatusIs(absl::StatusCode::kInvalidArgument,
                                 StartsWith("a.toml:2:21: nested too deep")));
  EXPECT_THAT(dots, StatusIs(absl::StatusCode::kInvalidArgument,
                             StartsWith("a.toml:1:130: too many dots")));
}

TEST(ParseConfig, BracketsAndDotsInStringsAndCommentsAreNoNesting) {
  const std::string many(1000, '[');
  const std::string dots(1000, '.');

  EXPECT_THAT(ParseConfig(absl::StrCat("# ", many, dots, "\n"), "a.toml"),
              IsOk());
  // Refused for their content, behind the parser.
  for (const std::string& text :
       {absl::StrCat("listen = \"\\\"", many, dots, "\"\n"),
        absl::StrCat("listen = '", many, dots, "'\n"),
        absl::StrCat("listen = \"\"\"\n\"\"", many, dots, "\"\"\"\"\"\n"),
        absl::StrCat("listen = '''\n''", many, dots, "'''\n")}) {
    EXPECT_THAT(ParseConfig(text, "a.toml"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--listen: address")));
  }
}

TEST(LoadConfig, TheExampleOfTheDocumentsIsValid) {
  const auto parsed = LoadConfig(SLUICE_SOURCE_DIR "/docs/config.example.toml");

  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->subsystems, Not(IsEmpty()));
}

TEST(LoadConfig, NamesTheFileThatItCannotRead) {
  EXPECT_THAT(LoadConfig("/nowhere/a.toml"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("--config /nowhere/a.toml: cannot open")));
}

}  // namespace
}  // namespace sluice::target
