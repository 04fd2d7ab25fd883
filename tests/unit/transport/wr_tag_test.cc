#include "transport/wr_tag.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace sluice::transport {
namespace {

void ExpectSame(const WrTag& tag) {
  const WrTag back = WrTag::Unpack(tag.Pack());

  EXPECT_EQ(back.kind, tag.kind);
  EXPECT_EQ(back.last, tag.last);
  EXPECT_EQ(back.slot_generation, tag.slot_generation);
  EXPECT_EQ(back.slot, tag.slot);
  EXPECT_EQ(back.qp_index, tag.qp_index);
  EXPECT_EQ(back.qp_generation, tag.qp_generation);
}

TEST(WrTag, ExtremesSurvivePacking) {
  ExpectSame(WrTag{});
  ExpectSame(WrTag{.kind = WrKind::kRead,
                   .last = true,
                   .slot_generation = 255,
                   .slot = 65535,
                   .qp_index = 65535,
                   .qp_generation = 65535});
}

TEST(WrTag, FieldsDoNotOverlap) {
  const WrTag alone[] = {{.kind = WrKind::kRead},  {.last = true},
                         {.slot_generation = 255}, {.slot = 65535},
                         {.qp_index = 65535},      {.qp_generation = 65535}};
  uint64_t seen = 0;

  for (const WrTag& tag : alone) {
    ExpectSame(tag);
    EXPECT_NE(tag.Pack(), 0U);
    EXPECT_EQ(seen & tag.Pack(), 0U);
    seen |= tag.Pack();
  }
}

TEST(WrTag, EveryKindSurvives) {
  for (WrKind kind : {WrKind::kNone, WrKind::kReceive, WrKind::kSend,
                      WrKind::kWrite, WrKind::kRead}) {
    ExpectSame(WrTag{.kind = kind, .slot = 7});
  }
}

// A wr_id from nowhere must not do anything but unpack.
TEST(WrTag, UnpacksAnyNumber) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t wr_id = random();
    const WrTag tag = WrTag::Unpack(wr_id);
    EXPECT_EQ(tag.qp_generation, wr_id >> 48);
  }
}

}  // namespace
}  // namespace sluice::transport
