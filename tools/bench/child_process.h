// A program that a benchmark starts beside itself: its output, what it costs,
// its end. It is killed when this dies, or this program does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice::bench {

// Processor time of all threads of a process so far; 0 if there is none such.
int64_t ProcessCpuNanos(pid_t pid);

class ChildProcess {
 public:
  // argv[0] is looked for in PATH. Its standard output is ours to read.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // The next line it prints, without its end; what was there of it at the end
  // of its output or of the wait: empty if nothing was.
  std::string ReadLine(absl::Duration wait);
  // Holds it up, or lets it go on: one that polls leaves no processor to
  // others.
  void Suspend(bool suspended) const;
  // Everything it prints until it ends.
  std::string ReadAll();
  // Sends a signal, unless 0, and waits for its end: its exit code, or minus
  // the signal that it died of.
  int Finish(int signal);

 private:
  ChildProcess(pid_t pid, int output_fd) : pid_(pid), output_fd_(output_fd) {}
  // False at the end of the output, or when nothing came before `end`.
  bool ReadMore(absl::Time end);

  pid_t pid_;
  const int output_fd_;
  std::string held_;  // read and not asked for yet
};

}  // namespace sluice::bench
