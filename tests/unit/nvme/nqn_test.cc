#include "nvme/nqn.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace sluice::nvme {
namespace {

std::vector<std::byte> Field(const std::string& text) {
  std::vector<std::byte> field(kNqnFieldBytes);
  std::memcpy(field.data(), text.data(), text.size());
  return field;
}

TEST(Nqn, TakesOneTo223Bytes) {
  for (const size_t size : {1u, 68u, 223u}) {
    const std::string text(size, 'n');
    Nqn nqn;
    EXPECT_TRUE(Nqn::FromText(text, &nqn)) << size;
    EXPECT_EQ(nqn.view(), text);
    EXPECT_TRUE(Nqn::FromField(Field(text), &nqn)) << size;
    EXPECT_EQ(nqn.view(), text);
    EXPECT_TRUE(nqn.valid());
  }
}

TEST(Nqn, RefusesEmptyAndTooLong) {
  for (const size_t size : {0u, 224u, 255u, 256u}) {
    const std::string text(size, 'n');
    Nqn nqn;
    EXPECT_FALSE(Nqn::FromText(text, &nqn)) << size;
    EXPECT_FALSE(Nqn::FromField(Field(text), &nqn)) << size;
    EXPECT_FALSE(nqn.valid());
  }
}

TEST(Nqn, RefusesAFieldWithoutNul) {
  const std::vector<std::byte> field(10, std::byte{'x'});
  Nqn nqn;

  EXPECT_FALSE(Nqn::FromField(field, &nqn));
  EXPECT_FALSE(Nqn::FromField({}, &nqn));
}

TEST(Nqn, IgnoresWhatIsBehindTheNul) {
  std::vector<std::byte> field = Field("nqn.x");
  field[6] = std::byte{'y'};
  Nqn nqn;

  ASSERT_TRUE(Nqn::FromField(field, &nqn));

  EXPECT_EQ(nqn.view(), "nqn.x");
  Nqn same;
  ASSERT_TRUE(Nqn::FromText("nqn.x", &same));
  EXPECT_EQ(nqn, same);
}

TEST(Nqn, RefusesTextWithNul) {
  Nqn nqn;

  EXPECT_FALSE(Nqn::FromText(absl::string_view("a\0b", 3), &nqn));
}

TEST(Nqn, WritesItsFieldPadded) {
  Nqn nqn;
  ASSERT_TRUE(Nqn::FromText(kDiscoveryNqn, &nqn));
  std::vector<std::byte> field(kNqnFieldBytes, std::byte{0xFF});

  nqn.WriteField(absl::MakeSpan(field));

  EXPECT_EQ(field, Field(std::string(kDiscoveryNqn)));
}

}  // namespace
}  // namespace sluice::nvme
