#include "transport/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "tests/support/fake_verbs.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/transport/transport_fixture.h"
#include "transport/limits.h"

namespace sluice::transport {
namespace {

DeviceTraits TraitsOf(const FakeDeviceOptions& options) {
  FakeFabric fabric(std::vector<FakeDeviceOptions>{options});
  auto traits = QueryTraits(fabric.api(), fabric.context("fake0"));
  EXPECT_THAT(traits, IsOk());
  return *traits;
}

// An iWARP card that is not siw.
FakeDeviceOptions Rnic() {
  FakeDeviceOptions options;
  options.iwarp = true;
  options.read_sink_needs_remote_write = true;
  return options;
}

TEST(Device, SoftRoce) {
  const DeviceTraits traits = TraitsOf(FakeDeviceOptions::Rxe());

  EXPECT_EQ(traits.name, "fake0");
  EXPECT_FALSE(traits.iwarp);
  EXPECT_FALSE(traits.private_read_sinks);
  EXPECT_TRUE(traits.send_with_invalidate);
  EXPECT_TRUE(traits.inline_with_invalidate);
  EXPECT_EQ(traits.signal_writes_from_bytes, UINT32_MAX);
}

TEST(Device, Siw) {
  const DeviceTraits traits = TraitsOf(FakeDeviceOptions::Siw());

  EXPECT_TRUE(traits.iwarp);
  EXPECT_FALSE(traits.private_read_sinks);
  EXPECT_FALSE(traits.inline_with_invalidate);
  EXPECT_EQ(traits.signal_writes_from_bytes, 4096U);
  EXPECT_EQ(traits.two_sges_up_to_bytes, 24U);
  EXPECT_TRUE(traits.loses_first_capsule);
  EXPECT_EQ(traits.sge_max, 6U);
}

TEST(Device, Rnic) {
  const DeviceTraits traits = TraitsOf(Rnic());

  EXPECT_TRUE(traits.iwarp);
  EXPECT_TRUE(traits.private_read_sinks);
  EXPECT_EQ(traits.signal_writes_from_bytes, UINT32_MAX);
  EXPECT_EQ(traits.two_sges_up_to_bytes, 0U);
  EXPECT_FALSE(traits.loses_first_capsule);
}

TEST(Device, WithoutMemoryManagementNoInvalidate) {
  FakeDeviceOptions options;
  options.mem_mgt_extensions = false;

  EXPECT_FALSE(TraitsOf(options).send_with_invalidate);
}

TEST(Device, LimitsAreClamped) {
  FakeDeviceOptions options;
  options.max_cqe = 4'000'000;
  options.max_qp_init_rd_atom = 0;
  const DeviceTraits large = TraitsOf(options);

  EXPECT_EQ(large.cq_entries_max, static_cast<uint32_t>(kCqEntriesMax));
  EXPECT_EQ(large.read_depth_max, 1U);
}

TEST(Device, QueryFailureIsNamed) {
  FakeFabric fabric;
  fabric.faults().FailCall("query_device", 1, ENOMEM);

  EXPECT_THAT(
      QueryTraits(fabric.api(), fabric.context("fake0")).status().ToString(),
      ::testing::HasSubstr("ibv_query_device fake0"));
}

}  // namespace
}  // namespace sluice::transport
