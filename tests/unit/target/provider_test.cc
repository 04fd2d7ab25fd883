#include "target/provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_verbs.h"
#include "tests/support/status_matchers.h"
#include "transport/iwarp/options.h"

namespace sluice::target {
namespace {

using ::testing::HasSubstr;

TargetOptions Listening(std::vector<std::string> addresses) {
  TargetOptions options;
  options.listen = std::move(addresses);
  return options;
}

// The fake stands for the system's libraries.
absl::StatusOr<PickedProvider> Pick(const FakeFabric& fabric,
                                    const TargetOptions& options) {
  return PickProvider(options, fabric.api());
}

TEST(Provider, AutoTakesTheDeviceThatCarriesTheAddress) {
  const FakeFabric fabric;

  const auto picked = Pick(fabric, Listening({"127.0.0.1:4420"}));

  ASSERT_TRUE(picked.ok()) << picked.status();
  EXPECT_EQ(picked->api, &fabric.api());
  EXPECT_TRUE(picked->pins_memory);
  EXPECT_THAT(picked->why, HasSubstr("carries 127.0.0.1:4420"));
  EXPECT_EQ(fabric.live_objects().total(), 0);
}

TEST(Provider, AutoTakesAnyDeviceForEveryAddress) {
  const FakeFabric fabric;

  const auto picked = Pick(fabric, Listening({}));

  ASSERT_TRUE(picked.ok()) << picked.status();
  EXPECT_EQ(picked->api, &fabric.api());
}

TEST(Provider, AutoWithoutADeviceIsIwarp) {
  const FakeFabric fabric{std::vector<FakeDeviceOptions>()};

  for (const auto& addresses :
       {std::vector<std::string>(), std::vector<std::string>{"127.0.0.1"}}) {
    const auto picked = Pick(fabric, Listening(addresses));

    ASSERT_TRUE(picked.ok()) << picked.status();
    EXPECT_EQ(picked->api, &VerbsApi::Iwarp());
    EXPECT_FALSE(picked->pins_memory);
    EXPECT_THAT(picked->why, HasSubstr("there is no RDMA device"));
  }
}

TEST(Provider, AutoOnAnAddressOfNoDeviceIsIwarp) {
  const FakeFabric fabric;

  const auto picked = Pick(fabric, Listening({"203.0.113.9"}));

  ASSERT_TRUE(picked.ok()) << picked.status();
  EXPECT_EQ(picked->api, &VerbsApi::Iwarp());
  EXPECT_THAT(picked->why, HasSubstr("no RDMA device carries 203.0.113.9"));
}

TEST(Provider, AutoDoesNotMix) {
  const FakeFabric fabric;

  const auto picked = Pick(fabric, Listening({"127.0.0.1", "203.0.113.9"}));

  EXPECT_TRUE(absl::IsInvalidArgument(picked.status()));
  EXPECT_THAT(std::string(picked.status().message()),
              HasSubstr("--provider verbs or iwarp"));
  EXPECT_EQ(fabric.live_objects().total(), 0);
}

TEST(Provider, WhatIsAskedForIsTaken) {
  const FakeFabric fabric;
  TargetOptions options = Listening({"127.0.0.1"});

  options.provider = Provider::kIwarp;
  options.iwarp_crc = IwarpCrc::kOn;
  const auto iwarp = Pick(fabric, options);
  const auto crc = iwarp::GetOptions().crc;
  options.iwarp_crc = IwarpCrc::kAuto;
  (void)Pick(fabric, options);
  options.provider = Provider::kVerbs;
  options.listen = {"203.0.113.9"};
  const auto verbs = Pick(fabric, options);

  ASSERT_TRUE(iwarp.ok());
  EXPECT_EQ(iwarp->api, &VerbsApi::Iwarp());
  EXPECT_EQ(crc, iwarp::CrcPolicy::kOn);
  EXPECT_EQ(iwarp::GetOptions().crc, iwarp::CrcPolicy::kAuto);
  ASSERT_TRUE(verbs.ok());
  EXPECT_EQ(verbs->api, &fabric.api());
}

TEST(Provider, AnAddressThatIsNoneIsTold) {
  const FakeFabric fabric;

  const auto picked = Pick(fabric, Listening({"elsewhere"}));

  EXPECT_TRUE(absl::IsInvalidArgument(picked.status()));
}

}  // namespace
}  // namespace sluice::target
