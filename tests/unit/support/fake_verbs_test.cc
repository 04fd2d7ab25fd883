// Fabric, devices, protection domains, memory regions.
#include "tests/support/fake_verbs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/support/fake_pair.h"

namespace sluice {
namespace {

TEST(FakeFabric, ListsItsDevices) {
  FakeFabric fabric({FakeDeviceOptions::Rxe(), FakeDeviceOptions::Siw()});
  const VerbsApi& api = fabric.api();

  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  ibv_context** contexts = api.get_devices(nullptr);

  ASSERT_EQ(count, 2);
  EXPECT_STREQ(api.get_device_name(list[0]), "fake0");
  EXPECT_STREQ(api.get_device_name(list[1]), "fake1");
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_EQ(list[1]->transport_type, IBV_TRANSPORT_IWARP);
  EXPECT_EQ(list[1]->node_type, IBV_NODE_RNIC);
  EXPECT_EQ(list[2], nullptr);
  EXPECT_EQ(contexts[1], fabric.context("fake1"));
  EXPECT_EQ(contexts[1]->device, list[1]);
  EXPECT_EQ(contexts[2], nullptr);
  api.free_device_list(list);
  api.free_devices(contexts);
}

TEST(FakeFabric, WithoutDevicesGivesEnodev) {
  FakeFabric fabric(std::vector<FakeDeviceOptions>{});

  int count = -1;
  ibv_device** list = fabric.api().get_device_list(&count);

  EXPECT_EQ(count, 0);
  fabric.api().free_device_list(list);
  errno = 0;
  EXPECT_EQ(fabric.api().create_event_channel(), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(fabric.api().get_devices(&count), nullptr);
}

TEST(FakeFabric, QueriesWhatTheOptionsSay) {
  FakeDeviceOptions options;
  options.max_qp_wr = 77;
  options.max_sge_rd = 1;
  options.mem_mgt_extensions = false;
  FakeFabric fabric({options});
  ibv_context* context = fabric.context("fake0");

  ibv_device_attr device = {};
  ibv_port_attr port = {};

  EXPECT_EQ(fabric.api().query_device(context, &device), 0);
  EXPECT_EQ(device.max_qp_wr, 77);
  EXPECT_EQ(device.max_sge_rd, 1);
  EXPECT_EQ(device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, 0u);
  EXPECT_EQ(fabric.api().query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(fabric.api().query_port(context, 2, &port), EINVAL);
}

TEST(FakeFabric, Nests) {
  FakeFabric outer;
  {
    FakeFabric inner;
    EXPECT_EQ(FakeFabric::Current(), &inner);
  }
  EXPECT_EQ(FakeFabric::Current(), &outer);
}

TEST(FakeFabric, CountsLiveObjects) {
  FakeFabric fabric;
  EXPECT_EQ(fabric.live_objects().total(), 0);
  {
    FakePair pair(&fabric);
    const FakeLiveObjects live = fabric.live_objects();
    EXPECT_EQ(live.pds, 2);
    EXPECT_EQ(live.mrs, 2);
    EXPECT_EQ(live.comp_channels, 2);
    EXPECT_EQ(live.cqs, 4);
    EXPECT_EQ(live.qps, 2);
    EXPECT_EQ(live.ids, 3);
    EXPECT_EQ(live.event_channels, 2);
    EXPECT_EQ(live.unacked_events, 0);
  }
  EXPECT_EQ(fabric.live_objects(), FakeLiveObjects{});
}

TEST(FakeFabricDeathTest, LeakIsABug) {
  EXPECT_DEATH(
      {
        FakeFabric fabric;
        fabric.api().alloc_pd(fabric.context("fake0"));
      },
      "live.pds == 0");
}

class FakeMemory : public testing::Test {
 protected:
  FakeMemory() : pd_(api_.alloc_pd(fabric_.context("fake0"))) {}
  ~FakeMemory() override { EXPECT_EQ(api_.dealloc_pd(pd_), 0); }

  FakeFabric fabric_;
  const VerbsApi& api_ = fabric_.api();
  ibv_pd* pd_;
  char bytes_[64] = {};
};

TEST_F(FakeMemory, KeysAreAllDifferent) {
  ibv_mr* a = api_.reg_mr(pd_, bytes_, sizeof(bytes_), IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* b = api_.reg_mr(pd_, bytes_, sizeof(bytes_), IBV_ACCESS_LOCAL_WRITE);

  EXPECT_NE(a->lkey, a->rkey);
  EXPECT_NE(a->lkey, b->lkey);
  EXPECT_NE(a->rkey, b->rkey);
  EXPECT_EQ(api_.dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(api_.dereg_mr(a), 0);
  EXPECT_EQ(api_.dereg_mr(b), 0);
}

TEST_F(FakeMemory, RefusesRemoteWriteWithoutLocalWrite) {
  errno = 0;
  EXPECT_EQ(api_.reg_mr(pd_, bytes_, 64, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(api_.reg_mr(pd_, bytes_, 0, IBV_ACCESS_LOCAL_WRITE), nullptr);
}

}  // namespace
}  // namespace sluice
