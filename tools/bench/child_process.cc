#include "tools/bench/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"

namespace sluice::bench {
namespace {

// Between fork and exec: no allocation.
[[noreturn]] void Become(char* const* argv, int output_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent && dup2(output_fd, STDOUT_FILENO) >= 0) {
    execvp(argv[0], argv);
  }
  _exit(127);
}

}  // namespace

int64_t ProcessCpuNanos(pid_t pid) {
  int64_t total = 0;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    int64_t nanos = 0;  // the first number: time on a processor
    if (std::ifstream(task.path() / "schedstat") >> nanos) total += nanos;
  }
  return total;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe2");
  }
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(pointers.data(), pipe_fds[1], parent);
  const int error = errno;
  close(pipe_fds[1]);
  if (pid < 0) {
    close(pipe_fds[0]);
    return absl::ErrnoToStatus(error, "fork");
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, pipe_fds[0]));
}

ChildProcess::~ChildProcess() {
  (void)Finish(SIGKILL);
  close(output_fd_);
}

bool ChildProcess::ReadMore(absl::Time end) {
  const absl::Duration left = std::max(end - absl::Now(), absl::ZeroDuration());
  pollfd waits = {output_fd_, POLLIN, 0};
  const int timeout_ms =
      end == absl::InfiniteFuture()
          ? -1
          : static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
  if (poll(&waits, 1, timeout_ms) <= 0) return false;
  char piece[4096];
  const ssize_t got = read(output_fd_, piece, sizeof(piece));
  if (got <= 0) return false;
  held_.append(piece, static_cast<size_t>(got));
  return true;
}

std::string ChildProcess::ReadLine(absl::Duration wait) {
  const absl::Time end = absl::Now() + wait;
  while (true) {
    const size_t length = held_.find('\n');
    if (length != std::string::npos) {
      std::string line = held_.substr(0, length);
      held_.erase(0, length + 1);
      return line;
    }
    if (!ReadMore(end)) return std::exchange(held_, {});
  }
}

void ChildProcess::Suspend(bool suspended) const {
  if (pid_ > 0) kill(pid_, suspended ? SIGSTOP : SIGCONT);
}

std::string ChildProcess::ReadAll() {
  while (ReadMore(absl::InfiniteFuture())) {
  }
  return std::exchange(held_, {});
}

int ChildProcess::Finish(int signal) {
  if (pid_ <= 0) return 0;
  if (signal != 0) kill(pid_, signal);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace sluice::bench
