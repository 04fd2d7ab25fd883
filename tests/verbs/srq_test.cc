// Shared receive queues [iwarp §4.7].
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

// A PD and an SRQ on it.
class Srq : public Verbs {
 protected:
  static constexpr uint32_t kDepth = 16;

  void SetUp() override {
    Verbs::SetUp();
    if (IsSkipped()) return;
    pd_ = Api().alloc_pd(Device().context);
    ASSERT_NE(pd_, nullptr);
    ibv_srq_init_attr attr = {};
    attr.attr = {.max_wr = kDepth, .max_sge = 2, .srq_limit = 0};
    srq_ = Api().create_srq(pd_, &attr);
    ASSERT_NE(srq_, nullptr);
    memory_ = std::make_unique<Region>(pd_, kDepth * 256);
  }
  void TearDown() override {
    memory_ = nullptr;
    EXPECT_TRUE(srq_ == nullptr || Api().destroy_srq(srq_) == 0);
    EXPECT_TRUE(pd_ == nullptr || Api().dealloc_pd(pd_) == 0);
  }

  // The passive side takes its receives from the SRQ.
  PairOptions Options() const {
    PairOptions options;
    options.passive.srq = srq_;
    options.passive.pd = pd_;
    options.passive.memory_bytes = 4096;
    return options;
  }
  // As ibv_query_srq says; what was asked for where it says nothing.
  ibv_srq_attr Query() const {
    ibv_srq_attr attr = {.max_wr = kDepth, .max_sge = 2, .srq_limit = 0};
    const int error = std::abs(Api().query_srq(srq_, &attr));
    if (error != 0) Check("query", ErrnoName(error), {"0"});
    can_query_ = error == 0;
    return attr;
  }
  int Post(uint64_t wr_id) {
    ibv_sge sge = memory_->Sge(wr_id % kDepth * 256, 256);
    ibv_recv_wr wr = {wr_id, nullptr, &sge, 1};
    ibv_recv_wr* bad_wr = nullptr;
    return std::abs(ibv_post_srq_recv(srq_, &wr, &bad_wr));
  }
  static void Send(Pair* pair, uint64_t seed) {
    pair->active->memory().FillPattern(seed, 0, 200);
    ASSERT_EQ(pair->active->PostSend(seed, pair->active->Sge(0, 200)), 0);
    ASSERT_EQ(Statuses(pair->active->TakeSent(1)), "SUCCESS");
  }

  ibv_pd* pd_ = nullptr;
  ibv_srq* srq_ = nullptr;
  std::unique_ptr<Region> memory_;
  mutable bool can_query_ = true;
};

TEST_F(Srq, SaysWhatItIs) {
  const ibv_srq_attr attr = Query();
  EXPECT_GE(attr.max_wr, kDepth);
  EXPECT_GE(attr.max_sge, 2U);
  EXPECT_EQ(attr.srq_limit, 0U);
}

// Whoever receives takes the oldest.
TEST_F(Srq, IsSharedByQueuePairs) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 3; ++i) {
    pairs.push_back(std::make_unique<Pair>(Options()));
    ASSERT_TRUE(pairs.back()->ok());
    EXPECT_EQ(pairs.back()->passive->qp()->srq, srq_);
  }
  for (uint64_t i = 0; i < 12; ++i) ASSERT_EQ(Post(i), 0);
  for (uint64_t i = 0; i < 12; ++i) {
    Pair* pair = pairs[i * 7 % 3].get();
    Send(pair, i);
    const auto received = pair->passive->TakeReceived(1);
    ASSERT_EQ(Statuses(received), "SUCCESS");
    EXPECT_EQ(received[0].wr_id, i);
    EXPECT_EQ(received[0].qp_num, pair->passive->qp()->qp_num);
    EXPECT_EQ(memory_->Differs(i, i * 256, 200), "");
  }
}

TEST_F(Srq, QueuePairHasNoReceivesOfItsOwn) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  ibv_sge sge = memory_->Sge(0, 64);
  ibv_recv_wr wr = {1, nullptr, &sge, 1};
  ibv_recv_wr* bad_wr = nullptr;
  EXPECT_NE(ibv_post_recv(pair.passive->qp(), &wr, &bad_wr), 0);
}

TEST_F(Srq, IsFullAtItsDepth) {
  const ibv_srq_attr attr = Query();
  uint32_t posted = 0;
  while (posted < 100 * kDepth && Post(posted) == 0) ++posted;
  EXPECT_GE(posted, kDepth);
  EXPECT_TRUE(!can_query_ || posted == attr.max_wr) << posted;
  Check("post", ErrnoName(Post(99)), {"ENOMEM"});
}

TEST_F(Srq, TooManyPiecesAreRefused) {
  const ibv_srq_attr attr = Query();
  std::vector<ibv_sge> sges(attr.max_sge + 1, memory_->Sge(0, 64));
  ibv_recv_wr wr = {1, nullptr, sges.data(), static_cast<int>(sges.size())};
  ibv_recv_wr* bad_wr = nullptr;
  Check("post", ErrnoName(std::abs(ibv_post_srq_recv(srq_, &wr, &bad_wr))),
        {"EINVAL"});
  EXPECT_EQ(bad_wr, &wr);
}

TEST_F(Srq, InUse) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(ErrnoName(Api().destroy_srq(srq_)), "EBUSY");
  EXPECT_EQ(ErrnoName(Api().dealloc_pd(pd_)), "EBUSY");
}

// Told once, when fewer than that many are left; then it is 0.
TEST_F(Srq, LimitIsToldOnce) {
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(Post(i), 0);
  ibv_srq_attr attr = {.max_wr = 0, .max_sge = 0, .srq_limit = 5};
  ASSERT_EQ(Api().modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  attr = Query();
  EXPECT_TRUE(!can_query_ || attr.srq_limit == 5);
  const auto told = [&] {
    return pair.async.Count(IBV_EVENT_SRQ_LIMIT_REACHED, srq_);
  };
  for (uint64_t i = 0; i < 3; ++i) {
    Send(&pair, i);
    EXPECT_EQ(pair.passive->TakeReceived(1).size(), 1U);
  }
  PumpFor();
  Check("five are left", std::to_string(told()), {"0"});
  Send(&pair, 3);
  EXPECT_EQ(pair.passive->TakeReceived(1).size(), 1U);
  EXPECT_TRUE(Until([&] { return told() > 0; }));
  for (uint64_t i = 4; i < 8; ++i) {
    Send(&pair, i);
    EXPECT_EQ(pair.passive->TakeReceived(1).size(), 1U);
  }
  PumpFor();
  EXPECT_EQ(told(), 1);
  Check("limit after it", std::to_string(Query().srq_limit), {"0"});
}

TEST_F(Srq, LimitBeyondItsDepthIsRefused) {
  ibv_srq_attr attr = Query();
  attr.srq_limit = 100 * attr.max_wr + 1;
  Check("modify",
        ErrnoName(std::abs(Api().modify_srq(srq_, &attr, IBV_SRQ_LIMIT))),
        {"EINVAL"});
}

// A queue pair that fails leaves the receives where they are, and says once
// that it takes no more.
TEST_F(Srq, FailureLeavesItsReceives) {
  for (const bool by_disconnect : {false, true}) {
    SCOPED_TRACE(by_disconnect);
    Pair other(Options());
    ASSERT_TRUE(other.ok());
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(Post(i), 0);
    {
      PairOptions options = Options();
      options.greet = false;  // it would take the oldest receive
      Pair pair(options);
      ASSERT_TRUE(pair.ok());
      if (by_disconnect) {
        ASSERT_EQ(Api().disconnect(pair.passive->id), 0);
        ASSERT_TRUE(pair.WaitDisconnected());
      } else {
        ASSERT_EQ(pair.passive->Modify(IBV_QPS_ERR), 0);
      }
      const void* qp = pair.passive->qp();
      const auto told = [&] {
        return pair.async.Count(IBV_EVENT_QP_LAST_WQE_REACHED, qp) +
               other.async.Count(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
      };
      if (!Spared("last WQE")) {
        EXPECT_TRUE(Until([&] { return told() > 0; }));
        PumpFor();
        EXPECT_EQ(told(), 1);
      }
      EXPECT_TRUE(pair.passive->received.empty());
    }
    // The other one uses them up.
    for (uint64_t i = 0; i < 4; ++i) {
      Send(&other, i);
      EXPECT_EQ(Statuses(other.passive->TakeReceived(1)), "SUCCESS");
    }
  }
}

// A SEND that comes first waits for a receive (ours does, for a while).
TEST_F(Srq, ReceiveInTimeSavesASend) {
  if (Device().kind != DeviceKind::kIwarp) {
    GTEST_SKIP() << "how long a device waits is its own affair";
  }
  Pair pair(Options());
  ASSERT_TRUE(pair.ok());
  Send(&pair, 1);
  Send(&pair, 2);
  PumpFor();
  EXPECT_TRUE(pair.passive->received.empty());
  ASSERT_EQ(Post(1), 0);
  ASSERT_EQ(Post(2), 0);
  EXPECT_EQ(WrIds(pair.passive->TakeReceived(2)),
            (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(memory_->Differs(1, 256, 200), "");
  EXPECT_EQ(memory_->Differs(2, 512, 200), "");
}

}  // namespace
}  // namespace sluice::verbs
