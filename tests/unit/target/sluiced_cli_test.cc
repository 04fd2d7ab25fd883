// The program itself: exit codes and the one line on stderr, on a machine with
// or without an RDMA device.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

bool HasRdmaDevice() {
  std::error_code error;
  const std::filesystem::directory_iterator it("/sys/class/infiniband", error);
  return !error && it != std::filesystem::directory_iterator();
}

class SluicedCli : public testing::Test {
 protected:
  SluicedCli() {
    std::string pattern = absl::StrCat(testing::TempDir(), "sluiced_XXXXXX");
    folder_ = mkdtemp(pattern.data());
  }
  ~SluicedCli() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  std::string MakeFile(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string MakeDisk(const std::string& name, off_t bytes) {
    const std::string path = MakeFile(name, "");
    EXPECT_EQ(truncate(path.c_str(), bytes), 0);
    return path;
  }

  Outcome Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sluiced");
    return RunProgram(SLUICED_PATH, std::move(arguments));
  }

  Outcome RunProgram(const char* program, std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, Path("out").c_str(),
                                     O_CREAT | O_TRUNC | O_WRONLY, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, Path("err").c_str(),
                                     O_CREAT | O_TRUNC | O_WRONLY, 0600);
    pid_t pid = 0;
    EXPECT_EQ(
        posix_spawn(&pid, program, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    waitpid(pid, &status, 0);
    Outcome outcome;
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    outcome.out = Read("out");
    outcome.err = Read("err");
    return outcome;
  }

  // The line for the operator, which is the only one that is no log line.
  void ExpectFailure(const std::vector<std::string>& arguments, int exit_code,
                     const std::string& message) {
    SCOPED_TRACE(message);
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    int lines = 0;
    for (absl::string_view line : absl::StrSplit(outcome.err, '\n')) {
      if (!absl::StartsWith(line, "sluiced: ")) continue;
      ++lines;
      EXPECT_THAT(std::string(line), HasSubstr(message));
    }
    EXPECT_EQ(lines, 1) << outcome.err;
  }

 private:
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(SluicedCli, AnswersHelpAndVersion) {
  const Outcome help = Run({"--help"});
  const Outcome version = Run({"--version"});

  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--export"));
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out, "sluiced " SLUICE_VERSION "\n");
}

TEST_F(SluicedCli, TheManualPageNamesEveryFlag) {
  std::stringstream page;
  page << std::ifstream(SLUICE_SOURCE_DIR "/docs/sluiced.8").rdbuf();
  const std::string text = page.str();
  int flags = 0;
  for (absl::string_view word :
       absl::StrSplit(Run({"--help"}).out, absl::ByAnyChar(" ,\n"))) {
    if (!absl::StartsWith(word, "--")) continue;
    ++flags;
    std::string escaped;
    for (const char c : word) escaped += c == '-' ? "\\-" : std::string(1, c);
    EXPECT_THAT(text, HasSubstr(escaped));
  }
  EXPECT_GE(flags, 21);
}

TEST_F(SluicedCli, FlagsAndTomlExitWith2) {
  const std::string syntax = MakeFile("syntax.toml", "\nqueue-depth =\n");
  const std::string key = MakeFile("key.toml", "queue_depth = 3\n");

  ExpectFailure({}, 2, "nothing to export");
  ExpectFailure({"--exprt", "x"}, 2, "did you mean --export?");
  ExpectFailure({"--export"}, 2, "--export needs a value");
  ExpectFailure({"--export", "null:1M", "--queue-depth", "1"}, 2,
                "--queue-depth 1: use 2 to 1024");
  ExpectFailure({"--config", Path("none.toml")}, 2, "cannot open it");
  ExpectFailure({"--config", syntax}, 2, absl::StrCat(syntax, ":2:"));
  ExpectFailure({"--config", key}, 2,
                absl::StrCat(key, ":1:1: unknown key 'queue_depth', did you"));
  ExpectFailure({"--export", "a\nb", "--nqn", "x\ny"}, 2, "--nqn x?y");
}

TEST_F(SluicedCli, ChecksAConfigurationAndOpensNothing) {
  const Outcome outcome =
      Run({"--export", Path("missing"), "--read-only", "--nqn",
           "nqn.2024-01.org.example:a", "--check-config"});

  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("nothing was opened"),
            HasSubstr("subsystem nqn.2024-01.org.example:a, for every host"),
            HasSubstr(absl::StrCat("namespace 1 ", Path("missing"))),
            HasSubstr("listen on 0.0.0.0:4420")));
}

TEST_F(SluicedCli, WritesToNoFileThatTookTheOutputsPlace) {
  const std::string config =
      MakeFile("a.toml", "[[subsystem]]\n[[subsystem.namespace]]\npath='x'\n");

  const Outcome outcome =
      RunProgram("/bin/sh", {"sh", "-c",
                             absl::StrCat("exec ", SLUICED_PATH,
                                          " --check-config "
                                          "--config ",
                                          config, " >&- 2>&-")});

  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(SluicedCli, TheDefaultNameIsShown) {
  const Outcome outcome = Run({"--export", "null:1M", "--check-config"});

  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("subsystem nqn."));
}

TEST_F(SluicedCli, WhatItCannotExportExitsWith1) {
  const std::string odd = MakeDisk("odd", 4096 + 513);
  const std::string empty = MakeDisk("empty", 0);
  const std::string half = MakeDisk("half", 4096 + 512);
  MakeDisk("plain", 4096);

  const auto fails = [this](std::vector<std::string> arguments,
                            const std::string& message) {
    ExpectFailure(arguments, 1, message);
  };
  if (geteuid() != 0) GTEST_SKIP() << "locked memory may stop it first";
  fails({"--export", Path("none")}, "none: no such file or device");
  fails({"--export", Path("plain/x")}, "no such file or device");
  fails({"--export", Path("")}, "is a directory");
  fails({"--export", "/dev/null"}, "neither a regular file nor a block device");
  fails({"--export", empty}, "is empty");
  fails({"--export", odd}, "not a multiple of the block size 512; make it");
  fails({"--export", half, "--block-size", "4096"}, "use --block-size 512 or");
}

TEST_F(SluicedCli, VerbsWithoutAnRdmaDeviceExitsWith1) {
  if (HasRdmaDevice()) GTEST_SKIP() << "this machine has one";
  if (geteuid() != 0) GTEST_SKIP() << "locked memory may stop it first";

  ExpectFailure({"--export", MakeDisk("disk", 1 << 20), "--provider=verbs"}, 1,
                "RDMA");
  ExpectFailure(
      {"--export", "null:1M", "--listen", "127.0.0.1:0", "--provider=verbs"}, 1,
      "RDMA");
}

TEST_F(SluicedCli, LockedMemoryIsCheckedBeforeAnythingIsOpened) {
  std::string drop;  // what lifts the limit
  if (geteuid() == 0) {
    drop = "/usr/bin/setpriv";
    if (access(drop.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << drop;
    drop += " --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
  }
  const std::string command =
      absl::StrCat("ulimit -l 64 && exec ", drop, " ", SLUICED_PATH,
                   " --provider verbs --export ", Path("none"));

  const Outcome outcome = RunProgram("/bin/sh", {"sh", "-c", command});

  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("sluiced: locked memory: 144 MiB needed"),
                    HasSubstr("the limit is 64 KiB; raise it")));
}

TEST_F(SluicedCli, ARestartedOneWaitsForItsDeviceUntilASignal) {
  if (HasRdmaDevice()) GTEST_SKIP() << "this machine has one";
  if (geteuid() != 0) GTEST_SKIP() << "locked memory may stop it first";
  setenv("SLUICED_RESTARTED", "127.0.0.1:4420", 1);
  std::string export_flag = "--export=null:1M";
  std::string name = "sluiced";
  char* argv[] = {name.data(), export_flag.data(), nullptr};
  int err[2];
  ASSERT_EQ(pipe(err), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  posix_spawn_file_actions_addclose(&actions, err[0]);
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, SLUICED_PATH, &actions, nullptr, argv, environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  unsetenv("SLUICED_RESTARTED");
  close(err[1]);

  std::string text;
  char byte = 0;
  while (!absl::StrContains(text, "waiting to start") &&
         read(err[0], &byte, 1) == 1) {
    text += byte;
  }
  kill(pid, SIGTERM);
  int status = 0;
  waitpid(pid, &status, 0);
  close(err[0]);

  EXPECT_THAT(text, HasSubstr("waiting to start"));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sluice
