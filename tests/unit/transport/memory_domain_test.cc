// What memory of somebody else's the transport sends from, and from where.
#include "transport/memory_domain.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/transport_fixture.h"

namespace sluice::transport {
namespace {

Extent Piece(std::byte* data, uint32_t bytes) {
  Extent extent;
  extent.data = data;
  extent.bytes = bytes;
  return extent;
}

class LentMemory : public testing::Test {
 protected:
  // A device of a transport that is lent both.
  TransportOptions Options() {
    TransportOptions options;
    options.local.lent = {absl::MakeSpan(first_), absl::MakeSpan(second_)};
    return options;
  }

  std::vector<std::byte> first_ = std::vector<std::byte>(65536);
  std::vector<std::byte> second_ = std::vector<std::byte>(8192);
};

TEST_F(LentMemory, EachPieceHasTheKeyOfItsRegion) {
  Transport t(Options());
  const MemoryDomain& domain = *t.device->memory();

  const uint32_t pool_key = domain.lkey_of(Piece(t.pool->data(), 4096));
  const uint32_t first_key = domain.lkey_of(Piece(first_.data(), 65536));
  const uint32_t second_key =
      domain.lkey_of(Piece(second_.data() + 4096, 4096));

  EXPECT_NE(pool_key, first_key);
  EXPECT_NE(first_key, second_key);
  EXPECT_NE(pool_key, second_key);
  EXPECT_GE(domain.registered_bytes(), t.pool->total_bytes() + 65536 + 8192);
}

TEST_F(LentMemory, PiecesThatReachOverTheEdgeAreNotHeld) {
  Transport t(Options());
  const MemoryDomain& domain = *t.device->memory();
  std::byte elsewhere[64];

  EXPECT_TRUE(domain.Holds(first_.data() + 61440, 4096));
  EXPECT_FALSE(domain.Holds(first_.data() + 61441, 4096));
  EXPECT_FALSE(domain.Holds(first_.data() - 1, 4096));
  EXPECT_FALSE(domain.Holds(second_.data(), 8193));
  EXPECT_FALSE(domain.Holds(elsewhere, sizeof(elsewhere)));
}

// What siw sends must not change while it is on its way: it is copied.
TEST_F(LentMemory, IsNotUsedByADeviceThatSendsByReference) {
  TransportOptions options = Options();
  options.device = FakeDeviceOptions::Siw();
  Transport t(options);

  EXPECT_FALSE(t.device->memory()->Holds(first_.data(), 4096));
}

TEST_F(LentMemory, ThatCannotBeRegisteredIsNotUsed) {
  TransportOptions options = Options();
  Transport t(options, /*with_device=*/false);
  // After the pool's.
  t.faults().FailCall("reg_mr", 2, ENOMEM, 2);

  EXPECT_TRUE(t.AddDevice().ok());

  EXPECT_FALSE(t.device->memory()->Holds(first_.data(), 4096));
  EXPECT_TRUE(t.device->memory()->Holds(t.pool->data(), 4096));
  t.faults().Clear();
}

}  // namespace
}  // namespace sluice::transport
