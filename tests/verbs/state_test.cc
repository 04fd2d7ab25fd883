// The states of a queue pair, and what may be posted in each [iwarp §4.1].
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

std::string StateName(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET:
      return "RESET";
    case IBV_QPS_INIT:
      return "INIT";
    case IBV_QPS_RTR:
      return "RTR";
    case IBV_QPS_RTS:
      return "RTS";
    case IBV_QPS_SQD:
      return "SQD";
    case IBV_QPS_SQE:
      return "SQE";
    case IBV_QPS_ERR:
      return "ERR";
    default:
      return "?";
  }
}

class State : public Verbs {
 protected:
  static PairOptions Unconnected() {
    PairOptions options;
    options.connect = false;
    return options;
  }
  static std::string Of(Endpoint* end) { return StateName(end->State()); }
  static std::string Posted(Endpoint* end) {
    return ErrnoName(end->PostSend(1, end->Sge(0, 32)));
  }
  static bool Reaches(Endpoint* end, ibv_qp_state state) {
    return Until([=] { return end->State() == state; });
  }
};

TEST_F(State, InitAfterCreation) {
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  Check("state", Of(pair.active.get()), {"INIT"});
  EXPECT_EQ(pair.active->PostRecv(1, pair.active->Sge(0, 32)), 0);
  Check("post_send", Posted(pair.active.get()), {"EINVAL"});
  PumpFor();
  EXPECT_TRUE(pair.active->sent.empty());
  EXPECT_TRUE(pair.active->received.empty());
}

TEST_F(State, RtsWhenConnected) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Check("active", Of(pair.active.get()), {"RTS"});
  Check("passive", Of(pair.passive.get()), {"RTS"});
  EXPECT_EQ(Posted(pair.active.get()), "0");
}

// The program does not move it to RTR and RTS: on iWARP the connection manager
// alone has the socket.
TEST_F(State, RtrAndRtsDoNotConnect) {
  if (!Device().is_iwarp()) GTEST_SKIP() << "others have their attributes";
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  (void)pair.active->Modify(IBV_QPS_RTR);
  (void)pair.active->Modify(IBV_QPS_RTS);
  Check("state", Of(pair.active.get()), {"INIT"});
  Check("post_send", Posted(pair.active.get()), {"EINVAL"});
}

TEST_F(State, InitToErrFlushes) {
  Pair pair(Unconnected());
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  ASSERT_EQ(end->PostRecv(1, end->Sge(0, 32)), 0);
  ASSERT_EQ(end->PostRecv(2, end->Sge(0, 32)), 0);

  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);

  const auto received = end->TakeReceived(2);
  EXPECT_EQ(Statuses(received), "WR_FLUSH_ERR WR_FLUSH_ERR");
  EXPECT_EQ(WrIds(received), (std::vector<uint64_t>{1, 2}));
  Check("state", Of(end), {"ERR"});
}

TEST_F(State, ErrToResetToInit) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);

  ASSERT_EQ(end->Modify(IBV_QPS_RESET), 0);
  Check("state after RESET", Of(end), {"RESET"});
  Check("post_send in RESET", Posted(end), {"EINVAL"});
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(Api().modify_qp(end->qp(), &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                IBV_QP_ACCESS_FLAGS),
            0);
  Check("state after INIT", Of(end), {"INIT"});
  end->received.clear();
  EXPECT_EQ(end->PostRecv(5, end->Sge(0, 32)), 0);
  PumpFor();
  EXPECT_TRUE(end->received.empty());
}

TEST_F(State, InitIsRefusedWhenConnected) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Check("modify", ErrnoName(pair.active->Modify(IBV_QPS_INIT)), {"EINVAL"});
  EXPECT_TRUE(pair.Greet());
}

TEST_F(State, ErrEndsTheConnectionForBoth) {
  for (const bool by_active : {true, false}) {
    SCOPED_TRACE(by_active);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Endpoint* end = by_active ? pair.active.get() : pair.passive.get();
    Endpoint* peer = by_active ? pair.passive.get() : pair.active.get();
    ASSERT_EQ(peer->PostRecv(9, peer->Sge(0, 32)), 0);

    ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);

    Check("state", Of(end), {"ERR"});
    if (Spared("peer")) continue;
    EXPECT_TRUE(pair.WaitDisconnected());
    EXPECT_TRUE(Reaches(peer, IBV_QPS_ERR));
    EXPECT_EQ(Statuses(peer->TakeReceived(1)), "WR_FLUSH_ERR");
  }
}

// Posting goes on in the error state, and everything is flushed.
TEST_F(State, PostsAfterAnErrorAreFlushed) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  ASSERT_EQ(end->Modify(IBV_QPS_ERR), 0);
  for (uint64_t i = 0; i < 40; ++i) {  // more than the queues are deep
    ASSERT_EQ(end->PostRecv(100 + i, end->Sge(0, 32)), 0) << i;
    ASSERT_EQ(end->PostSend(200 + i, end->Sge(0, 32), 0), 0) << i;
    if (Spared("sends")) {
      end->sent.clear();
      ASSERT_EQ(end->TakeReceived(1).size(), 1U);
      continue;
    }
    const auto sent = end->TakeSent(1);
    ASSERT_EQ(Statuses(sent), "WR_FLUSH_ERR");
    EXPECT_EQ(sent[0].wr_id, 200 + i);
    const auto received = end->TakeReceived(1);
    ASSERT_EQ(Statuses(received), "WR_FLUSH_ERR");
    EXPECT_EQ(received[0].wr_id, 100 + i);
  }
}

TEST_F(State, DisconnectLeadsToErr) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Api().disconnect(pair.active->id), 0);
  Check("at once", Of(pair.active.get()), {"SQD", "ERR"});
  ASSERT_TRUE(pair.WaitDisconnected());
  for (Endpoint* end : {pair.active.get(), pair.passive.get()}) {
    EXPECT_TRUE(Reaches(end, IBV_QPS_ERR));
    EXPECT_EQ(end->PostRecv(3, end->Sge(0, 32)), 0);
    if (!Spared("receive")) {
      EXPECT_EQ(Statuses(end->TakeReceived(1)), "WR_FLUSH_ERR");
    }
    EXPECT_EQ(end->PostSend(4, end->Sge(0, 32)), 0);
    EXPECT_EQ(Statuses(end->TakeSent(1)), "WR_FLUSH_ERR");
  }
}

// iWARP's graceful close: what was posted before is still delivered.
TEST_F(State, SqdClosesGracefully) {
  if (!Device().is_iwarp()) GTEST_SKIP() << "others drain and go on";
  Pair pair;
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(pair.passive->PostRecv(1, pair.passive->Sge(0, 4096)), 0);
  ASSERT_EQ(pair.active->PostSend(2, pair.active->Sge(0, 4096)), 0);

  ASSERT_EQ(pair.active->Modify(IBV_QPS_SQD), 0);

  EXPECT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
  EXPECT_EQ(Statuses(pair.passive->TakeReceived(1)), "SUCCESS");
  EXPECT_TRUE(pair.WaitDisconnected());
  if (Spared("state")) return;
  EXPECT_TRUE(Reaches(pair.active.get(), IBV_QPS_ERR));
  EXPECT_TRUE(Reaches(pair.passive.get(), IBV_QPS_ERR));
}

TEST_F(State, NoReceiveForASendEndsIt) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(pair.active->PostSend(1, pair.active->Sge(0, 32)), 0);
  EXPECT_EQ(pair.active->TakeSent(1).size(), 1U);
  EXPECT_TRUE(Reaches(pair.active.get(), IBV_QPS_ERR));
}

// A provider may hold such a SEND for a while (ours does): a receive in time
// saves it.
TEST_F(State, ReceiveInTimeSavesASend) {
  if (Device().kind != DeviceKind::kIwarp) {
    GTEST_SKIP() << "how long a device waits is its own affair";
  }
  Pair pair;
  ASSERT_TRUE(pair.ok());
  pair.active->memory().FillPattern(5, 0, 100);
  ASSERT_EQ(pair.active->PostSend(1, pair.active->Sge(0, 100)), 0);
  ASSERT_EQ(pair.active->PostSend(2, pair.active->Sge(0, 100)), 0);
  PumpFor();
  ASSERT_EQ(pair.passive->PostRecv(3, pair.passive->Sge(0, 100)), 0);
  ASSERT_EQ(pair.passive->PostRecv(4, pair.passive->Sge(100, 100)), 0);
  const auto received = pair.passive->TakeReceived(2);
  EXPECT_EQ(Statuses(received), "SUCCESS SUCCESS");
  EXPECT_EQ(WrIds(received), (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(pair.passive->memory().Differs(5, 0, 100), "");
  EXPECT_EQ(pair.passive->memory().Differs(5, 100, 100), "");
}

}  // namespace
}  // namespace sluice::verbs
