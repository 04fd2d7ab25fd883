#include "tests/unit/target/admin_fixture.h"

namespace sluice::target {
namespace {

class ControllerLogTest : public AdminFixture {
 protected:
  void SetUp() override { BuildDisk(); }

  void Log(uint16_t cid) {
    nvme::ErrorEntry entry;
    entry.cid = cid;
    entry.status = nvme::kInternalError;
    controller_->LogError(entry);
  }
};

TEST_F(ControllerLogTest, StartsEmpty) {
  EXPECT_TRUE(controller_->Errors().empty());
}

TEST_F(ControllerLogTest, CountsFromOneNewestFirst) {
  Log(10);
  Log(11);

  const std::vector<nvme::ErrorEntry> errors = controller_->Errors();

  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].count, 2u);
  EXPECT_EQ(errors[0].cid, 11);
  EXPECT_EQ(errors[1].count, 1u);
  EXPECT_EQ(errors[1].cid, 10);
}

TEST_F(ControllerLogTest, KeepsTheLastOnes) {
  for (uint16_t cid = 0; cid < kErrorEntries + 10; ++cid) Log(cid);

  const std::vector<nvme::ErrorEntry> errors = controller_->Errors();

  ASSERT_EQ(errors.size(), kErrorEntries);
  EXPECT_EQ(errors.front().count, kErrorEntries + 10);
  EXPECT_EQ(errors.back().count, 11u);
  EXPECT_EQ(errors.back().cid, 10);
}

}  // namespace
}  // namespace sluice::target
