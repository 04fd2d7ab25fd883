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
  EXPECT_EQ(PeerAdvice().For(V4("10.0.0.1"), 0), PeerLimits());
}

TEST(PeerAdvice, HalvesWhatWasTooMuchAndOnlyThat) {
  PeerAdvice advice;
  const PeerLimits used{.sends = 384, .reads = 16};
  EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, used, 0),
            (PeerLimits{.sends = 192, .reads = 0}));
  EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, used, 0),
            (PeerLimits{.sends = 192, .reads = 8}));
  EXPECT_EQ(advice.For(V4("10.0.0.2"), 0), PeerLimits());
}

// Another port is another connection of the same host.
TEST(PeerAdvice, IsOfAnAddress) {
  PeerAdvice advice;
  const PeerLimits half = advice.Note(V4("10.0.0.1", 1), Trouble::kReadDepth,
                                      {.sends = 8, .reads = 8}, 0);
  EXPECT_EQ(advice.For(V4("10.0.0.1", 2), 0), half);
  EXPECT_EQ(advice.For(V6("::10.0.0.1"), 0), PeerLimits());

  (void)advice.Note(V6("fe80::1", 2), Trouble::kReadDepth,
                    {.sends = 8, .reads = 4}, 0);
  EXPECT_EQ(advice.For(V6("fe80::1", 2), 0).reads, 2u);
  EXPECT_EQ(advice.For(V6("fe80::1", 3), 0), PeerLimits());
}

TEST(PeerAdvice, StopsAtWhatAQueuePairNeeds) {
  PeerAdvice advice;
  for (int i = 0; i < 3; ++i) {
    const PeerLimits used{.sends = 2, .reads = 1};
    (void)advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, used, 0);
    (void)advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, used, 0);
  }
  EXPECT_EQ(advice.For(V4("10.0.0.1"), 0),
            (PeerLimits{.sends = PeerAdvice::kSendsMin, .reads = 1}));
}

// A deep and a shallow queue break together: the deep one's half is no advice
// for who has it worse already.
TEST(PeerAdvice, NeverGrows) {
  PeerAdvice advice;
  (void)advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, {8, 4}, 0);
  EXPECT_EQ(advice.Note(V4("10.0.0.1"), Trouble::kReceiverNotReady, {384, 4}, 0)
                .sends,
            4u);
}

TEST(PeerAdvice, IsForgottenWithoutTrouble) {
  PeerAdvice advice;
  (void)advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, {8, 8}, 0);
  EXPECT_EQ(advice.For(V4("10.0.0.1"), kKept - 1).reads, 4u);
  EXPECT_EQ(advice.For(V4("10.0.0.1"), kKept), PeerLimits());
  // And what is forgotten limits nothing that follows.
  EXPECT_EQ(
      advice.Note(V4("10.0.0.1"), Trouble::kReadDepth, {8, 8}, kKept).reads,
      4u);
}

TEST(PeerAdvice, ForgetsTheOldestOfTooMany) {
  PeerAdvice advice;
  for (uint32_t i = 0; i <= PeerAdvice::kPeersMax; ++i) {
    (void)advice.Note(Numbered(i), Trouble::kReadDepth, {8, 8},
                      static_cast<int64_t>(i));
  }
  EXPECT_EQ(advice.size(), PeerAdvice::kPeersMax);
  EXPECT_EQ(advice.For(Numbered(0), 0), PeerLimits());
  EXPECT_EQ(advice.For(Numbered(1), 0).reads, 4u);
}

}  // namespace
}  // namespace sluice::transport
