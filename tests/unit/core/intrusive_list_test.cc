#include "core/intrusive_list.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

struct Node : ListNode {
  int value = 0;
};

TEST(IntrusiveList, IsAFifo) {
  std::array<Node, 3> nodes;
  IntrusiveList<Node> list;

  for (Node& node : nodes) list.PushBack(&node);

  for (Node& node : nodes) EXPECT_EQ(list.PopFront(), &node);
  EXPECT_EQ(list.PopFront(), nullptr);
  EXPECT_TRUE(list.empty());
}

TEST(IntrusiveList, RemovesFromTheMiddle) {
  std::array<Node, 3> nodes;
  IntrusiveList<Node> list;
  for (Node& node : nodes) list.PushBack(&node);

  list.Remove(&nodes[1]);

  EXPECT_FALSE(nodes[1].linked());
  EXPECT_EQ(list.after(&nodes[0]), &nodes[2]);
  EXPECT_EQ(list.after(&nodes[2]), nullptr);
  EXPECT_EQ(list.PopFront(), &nodes[0]);
  EXPECT_EQ(list.PopFront(), &nodes[2]);
}

TEST(IntrusiveList, PushesToTheFront) {
  std::array<Node, 2> nodes;
  IntrusiveList<Node> list;
  list.PushBack(&nodes[0]);

  list.PushFront(&nodes[1]);

  EXPECT_EQ(list.PopFront(), &nodes[1]);
  EXPECT_EQ(list.PopFront(), &nodes[0]);
}

TEST(IntrusiveList, AppendsAnother) {
  std::array<Node, 4> nodes;
  IntrusiveList<Node> list;
  IntrusiveList<Node> other;
  list.PushBack(&nodes[0]);
  list.PushBack(&nodes[1]);
  other.PushBack(&nodes[2]);
  other.PushBack(&nodes[3]);

  list.Append(&other);

  EXPECT_TRUE(other.empty());
  for (Node& node : nodes) EXPECT_EQ(list.PopFront(), &node);
}

#ifndef NDEBUG
TEST(IntrusiveListDeathTest, ALinkedNodeMayNotDieNorStandTwice) {
  Node node;
  EXPECT_DEATH(
      {
        IntrusiveList<Node> list;
        list.PushBack(&node);
        list.PushBack(&node);
      },
      "CHECK failed");
  EXPECT_DEATH(
      {
        IntrusiveList<Node> list;
        Node inner;
        list.PushBack(&inner);
      },
      "CHECK failed");
}
#endif

}  // namespace
}  // namespace sluice
