#include "target/daemon_restart.h"

#include <gmock/gmock.h>

namespace sluice::target {
namespace {

using ::testing::ElementsAre;

TEST(Restart, KeepsThePortsThatWereChosen) {
  const std::vector<transport::ListenAddress> addresses = {
      *transport::ParseListenAddress("10.0.0.1:41234", 0),
      *transport::ParseListenAddress("[::]:4420", 0)};
  TargetOptions options;
  options.listen = {"10.0.0.1:0"};

  ApplyRestart(RestartValue(addresses), &options);

  EXPECT_TRUE(options.wait_for_device);
  EXPECT_EQ(options.provider, Provider::kVerbs);
  EXPECT_THAT(options.listen, ElementsAre("10.0.0.1:41234", "[::]:4420"));
}

TEST(Restart, WithoutAddressesKeepsTheFlags) {
  TargetOptions options;
  options.listen = {"10.0.0.1:4420"};

  ApplyRestart("", &options);

  EXPECT_TRUE(options.wait_for_device);
  EXPECT_THAT(options.listen, ElementsAre("10.0.0.1:4420"));
}

}  // namespace
}  // namespace sluice::target
