#include "transport/peer_advice.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace sluice::transport {
namespace {

const int64_t kKept = absl::ToInt64Nanoseconds(PeerAdvice::kAdviceKept);

sockaddr_storage V4(const char* address, uint16_t port = 1) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, address, &v4->sin_addr), 1);
  return storage;
}

sockaddr_storage V6(const char* address, uint32_t scope = 0) {
  sockaddr_storage storage{};
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, address, &v6->sin6_addr), 1);
  return storage;
}

sockaddr_storage Numbered(uint32_t number) {
  sockaddr_storage storage = V4("10.0.0.0");
  reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr =
      htonl(0x0a000000 + number);
  return storage;
}

TEST(PeerAdvice, KnowsNothingAtFirst) {
  EXPECT_EQ(PeerAdvice().For(V4("10.0.0.1"), 0), Halvings());
}

TEST(PeerAdvice, HalvesWhatWasTooMuchAndOnlyThat) {
  PeerAdvice advice;
  EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, {}, 0),
            (Halvings{.sends = 1, .reads = 0}));
  EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReadDepth,
                        {.sends = 1, .reads = 0}, 0),
            (Halvings{.sends = 1, .reads = 1}));
  EXPECT_EQ(advice.For(V4("10.0.0.2"), 0), Halvings());
}

// Another port is another connection of the same host.
TEST(PeerAdvice, IsOfAnAddress) {
  PeerAdvice advice;
  const Halvings half =
      advice.Note(V4("10.0.0.1", 1), Trouble::kReadDepth, {}, 0);
  EXPECT_EQ(advice.For(V4("10.0.0.1", 2), 0), half);
  EXPECT_EQ(advice.For(V6("::10.0.0.1"), 0), Halvings());

  (void)advice.Note(V6("fe80::1", 2), Trouble::kReadDepth, {}, 0);
  EXPECT_EQ(advice.For(V6("fe80::1", 2), 0).reads, 1);
  EXPECT_EQ(advice.For(V6("fe80::1", 3), 0), Halvings());
}

// All queues of a host break at once: that is one trouble. What was made before
// it and breaks later says nothing new either.
TEST(PeerAdvice, CountsOnceForThoseThatBreakTogether) {
  PeerAdvice advice;
  const Halvings before;
  for (int queue = 0; queue < 8; ++queue) {
    EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, before, 0)
                  .sends,
              1);
  }
  const Halvings first = advice.For(V4("10.0.0.1"), 0);
  EXPECT_EQ(
      advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, first, 0).sends,
      2);
  EXPECT_EQ(
      advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, before, 0).sends,
      2);
}

TEST(PeerAdvice, StopsAtWhatAQueuePairNeeds) {
  PeerAdvice advice;
  Halvings had;
  for (int i = 0; i < 20; ++i) {
    had = advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, had, 0);
    had = advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, had, 0);
  }
  EXPECT_EQ(had.sends, PeerAdvice::kHalvingsMax);
  EXPECT_EQ(had.reads, PeerAdvice::kHalvingsMax);
  EXPECT_EQ(HalvedSends(384, had), PeerAdvice::kSendsMin);
  EXPECT_EQ(HalvedReads(16, had), 1u);
}

TEST(PeerAdvice, IsAShareOfEachQueuesOwn) {
  const Halvings half{.sends = 1, .reads = 1};
  EXPECT_EQ(HalvedSends(384, half), 192u);
  EXPECT_EQ(HalvedSends(6, half), 3u);
  EXPECT_EQ(HalvedSends(2, half), 2u);
  EXPECT_EQ(HalvedReads(16, half), 8u);
  EXPECT_EQ(HalvedReads(1, half), 1u);
  EXPECT_EQ(HalvedSends(384, Halvings()), 384u);
}

TEST(PeerAdvice, IsForgottenWithoutTrouble) {
  PeerAdvice advice;
  (void)advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, {}, 0);
  EXPECT_EQ(advice.For(V4("10.0.0.1"), kKept - 1).reads, 1);
  EXPECT_EQ(advice.For(V4("10.0.0.1"), kKept), Halvings());
}

TEST(PeerAdvice, ForgetsTheOldestOfTooMany) {
  PeerAdvice advice;
  for (uint32_t i = 0; i <= PeerAdvice::kPeersMax; ++i) {
    (void)advice.Note(Numbered(i), Trouble::kReadDepth, {},
                      static_cast<int64_t>(i));
  }
  EXPECT_EQ(advice.size(), PeerAdvice::kPeersMax);
  EXPECT_EQ(advice.For(Numbered(0), 0), Halvings());
  EXPECT_EQ(advice.For(Numbered(1), 0).reads, 1);
}

}  // namespace
}  // namespace sluice::transport
