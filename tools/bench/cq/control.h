// Lines over TCP between the two ends of a benchmark. Blocking; owned by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/listen_address.h"

namespace sluice::bench {

class ControlConnection {
 public:
  // Tries for a while: the other end may just be starting.
  static absl::StatusOr<std::unique_ptr<ControlConnection>> Connect(
      const transport::ListenAddress& address);
  explicit ControlConnection(int fd) : fd_(fd) {}
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  // Without its end. OutOfRange: the other end has gone.
  absl::StatusOr<std::string> ReadLine();
  absl::Status WriteLine(const std::string& line);

 private:
  const int fd_;
  std::string held_;
};

class ControlListener {
 public:
  static absl::StatusOr<std::unique_ptr<ControlListener>> Open(
      const transport::ListenAddress& address);
  ~ControlListener();
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  uint16_t port() const { return port_; }
  absl::StatusOr<std::unique_ptr<ControlConnection>> Accept();

 private:
  ControlListener(int fd, uint16_t port) : fd_(fd), port_(port) {}
  const int fd_;
  const uint16_t port_;
};

}  // namespace sluice::bench
