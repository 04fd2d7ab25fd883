// The suite's device and its rules: what the command line said, the VerbsApi
// table under test, and Check(), which knows where a device is allowed to
// differ (differences.h).
//
// Everything is single-threaded unless a test says otherwise: one process plays
// both ends of each connection, and waits by looking at both.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/conformance/patience.h"
#include "tests/verbs/device_kind.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::verbs {

using conformance::Deadline;
using conformance::kWait;
using conformance::Scaled;

// As the command line said. Set once, before the tests.
struct SuiteFlags {
  std::string provider = "iwarp";
  std::string address = "127.0.0.1";
  double slow = 1;
  std::string results;
  // Rounds and connections of the tests that hammer, times this.
  int scale = 1;
};
SuiteFlags& Flags();

const VerbsApi& Api();

// The device that carries Flags().address. Found once, never closed.
struct SuiteDevice {
  ibv_context* context = nullptr;
  ibv_device_attr attr = {};
  std::string name;
  DeviceKind kind = DeviceKind::kOther;

  bool is_iwarp() const {
    return context->device->transport_type == IBV_TRANSPORT_IWARP;
  }
};
// False, with a word on stderr, when there is none.
bool FindDevice();
const SuiteDevice& Device();

// Flags().address with this port; an IPv4 or IPv6 address of another text.
sockaddr_storage Address(uint16_t port);
sockaddr_storage AddressOf(const std::string& text, uint16_t port);
inline sockaddr* Raw(sockaddr_storage* address) {
  return reinterpret_cast<sockaddr*>(address);
}
void SetNonblocking(int fd);
// Something can be read, now or before the wait is over.
bool IsReadable(int fd, absl::Duration wait = absl::ZeroDuration());

// "SUCCESS", "REM_ACCESS_ERR", …
std::string StatusName(ibv_wc_status status);
// "0", "EINVAL", …
std::string ErrnoName(int error);

class Verbs : public ::testing::Test {
 public:
  // Asserts that `answer` is one of `right`, or what a row of differences.h
  // allows this device. Static, so that helpers may say it, too.
  static void Check(const std::string& what, const std::string& answer,
                    const std::vector<std::string>& right);
  // True when a row leaves that check out, or the rest of the test with it.
  static bool Spared(const std::string& what);

 protected:
  void SetUp() override;
};

}  // namespace sluice::verbs
