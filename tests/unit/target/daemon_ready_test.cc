#include "target/daemon_ready.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace sluice::target {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kNqn[] = "nqn.2024-01.org.example:a";

transport::ListenAddress Address(const char* text) {
  return *transport::ParseListenAddress(text, 4420);
}

TEST(ReadyLines, OnePairForEachListenerAndSubsystem) {
  const std::vector<transport::ListenAddress> addresses = {
      Address("10.0.0.1:4421"), Address("[2001:db8::1]")};

  EXPECT_EQ(ReadyLines(addresses, {kNqn, "nqn.2024-01.org.example:b"}, {}),
            "listening rdma 10.0.0.1:4421 nqn.2024-01.org.example:a\n"
            "nvme connect -t rdma -a 10.0.0.1 -s 4421 -n "
            "nqn.2024-01.org.example:a\n"
            "listening rdma 10.0.0.1:4421 nqn.2024-01.org.example:b\n"
            "nvme connect -t rdma -a 10.0.0.1 -s 4421 -n "
            "nqn.2024-01.org.example:b\n"
            "listening rdma [2001:db8::1]:4420 nqn.2024-01.org.example:a\n"
            "nvme connect -t rdma -a 2001:db8::1 -s 4420 -n "
            "nqn.2024-01.org.example:a\n"
            "listening rdma [2001:db8::1]:4420 nqn.2024-01.org.example:b\n"
            "nvme connect -t rdma -a 2001:db8::1 -s 4420 -n "
            "nqn.2024-01.org.example:b\n");
}

TEST(ReadyLines, AWildcardIsReachedAtAnAddressOfThisMachine) {
  const LocalHosts local = {"192.0.2.7", "2001:db8::7"};

  EXPECT_THAT(ReadyLines({Address(":4420")}, {kNqn}, local),
              HasSubstr("connect -t rdma -a 192.0.2.7 -s 4420"));
  EXPECT_THAT(ReadyLines({Address("[::]")}, {kNqn}, local),
              HasSubstr("connect -t rdma -a 2001:db8::7 -s"));
  EXPECT_THAT(ReadyLines({Address(":4420")}, {kNqn}, {}),
              HasSubstr("connect -t rdma -a ADDR -s 4420"));
}

TEST(ReadyLines, ALinkLocalAddressKeepsItsInterface) {
  transport::ListenAddress address = Address("[fe80::1]:4420");
  address.interface_zone = "eth0";

  EXPECT_THAT(ReadyLines({address}, {kNqn}, {}),
              HasSubstr("-a fe80::1%eth0 -s 4420"));
}

TEST(FindLocalHosts, FindsNoLoopback) {
  const LocalHosts local = FindLocalHosts();

  EXPECT_THAT(local.v4, Not(StartsWith("127.")));
  EXPECT_NE(local.v6, "::1");
}

TEST(DescribeExports, SaysWhatAndWhere) {
  TargetOptions options;
  options.subsystems.resize(2);
  options.subsystems[0].namespaces.resize(2);
  options.subsystems[0].namespaces[0].path = "/a";
  options.subsystems[0].namespaces[1].path = "ram:1M";
  options.subsystems[0].namespaces[1].read_only = true;
  options.subsystems[1].nqn = kNqn;
  options.subsystems[1].allowed_hosts = {"nqn.h1", "nqn.h2"};
  options.listen = {"10.0.0.1"};

  EXPECT_EQ(DescribeExports(options, "nqn.default"),
            "configuration is valid; nothing was opened\n"
            "subsystem nqn.default, for every host\n"
            "  namespace 1 /a, blocks of 512\n"
            "  namespace 2 ram:1M, blocks of 512, read-only\n"
            "subsystem nqn.2024-01.org.example:a, for nqn.h1 nqn.h2\n"
            "listen on 10.0.0.1\n");
}

}  // namespace
}  // namespace sluice::target
