#include "transport/iwarp/event_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstddef>
#include <thread>

namespace sluice::iwarp {
namespace {

bool IsReadable(const EventQueue<int>& queue) {
  pollfd wait = {queue.fd(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

bool Take(EventQueue<int>* queue, int* event) {
  return queue->Take(event, [](int) {});
}

TEST(EventQueue, GivesEventsInOrder) {
  EventQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push(i, /*quietly=*/false);

  for (int i = 0; i < 10; ++i) {
    int event = -1;
    ASSERT_TRUE(Take(&queue, &event));
    EXPECT_EQ(event, i);
  }

  int event = -1;
  EXPECT_FALSE(Take(&queue, &event));
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, IsReadableWhileItHasEvents) {
  EventQueue<int> queue;
  EXPECT_FALSE(IsReadable(queue));

  queue.Push(1, /*quietly=*/false);
  queue.Push(2, /*quietly=*/false);
  EXPECT_TRUE(IsReadable(queue));

  int event;
  Take(&queue, &event);
  EXPECT_TRUE(IsReadable(queue));
  Take(&queue, &event);
  EXPECT_FALSE(IsReadable(queue));
}

TEST(EventQueue, AQuietEventIsAnnouncedLater) {
  EventQueue<int> queue;

  queue.Push(1, /*quietly=*/true);
  EXPECT_FALSE(IsReadable(queue));

  queue.Announce(/*anyway=*/false);
  EXPECT_TRUE(IsReadable(queue));
}

TEST(EventQueue, CanBeAnnouncedEmpty) {
  EventQueue<int> queue;
  queue.Announce(/*anyway=*/false);
  EXPECT_FALSE(IsReadable(queue));

  queue.Announce(/*anyway=*/true);
  EXPECT_TRUE(IsReadable(queue));

  int event;
  EXPECT_FALSE(Take(&queue, &event));
  EXPECT_FALSE(IsReadable(queue));
}

TEST(EventQueue, ExtractsWhatItIsAskedFor) {
  EventQueue<int> queue;
  for (int i = 0; i < 6; ++i) queue.Push(i, /*quietly=*/false);
  int event;
  Take(&queue, &event);

  const std::vector<int> odd =
      queue.Extract([](int each) { return each % 2 == 1; });

  EXPECT_EQ(odd, (std::vector<int>{1, 3, 5}));
  Take(&queue, &event);
  EXPECT_EQ(event, 2);
  EXPECT_TRUE(IsReadable(queue));
  queue.Extract([](int) { return true; });
  EXPECT_FALSE(IsReadable(queue));
}

TEST(EventQueue, DoesNotGrowWhileItIsNeverEmpty) {
  EventQueue<int> queue;
  queue.Push(0, /*quietly=*/false);

  for (int i = 1; i < 100000; ++i) {
    queue.Push(i, /*quietly=*/false);
    int event = -1;
    ASSERT_TRUE(Take(&queue, &event));
    ASSERT_EQ(event, i - 1);
  }

  EXPECT_LT(queue.capacity(), 1000U);
  EXPECT_TRUE(IsReadable(queue));
}

TEST(EventQueue, NoEventIsLostBetweenThreads) {
  EventQueue<int> queue;
  constexpr int kEvents = 20000;
  std::thread pusher([&queue] {
    for (int i = 0; i < kEvents; ++i) queue.Push(i, /*quietly=*/false);
  });

  for (int expected = 0; expected < kEvents;) {
    pollfd wait = {queue.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, 10000), 1);
    int event;
    while (Take(&queue, &event)) EXPECT_EQ(event, expected++);
  }
  pusher.join();
}

}  // namespace
}  // namespace sluice::iwarp
