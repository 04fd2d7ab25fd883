// What is before what: completions of one queue, data before the receive that
// tells of it, fences; and how many work requests there is room for
// [iwarp §3.2, §4.3].
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

std::vector<uint64_t> Numbers(uint64_t first, uint64_t count) {
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < count; ++i) numbers.push_back(first + i);
  return numbers;
}

class Order : public Verbs {};

TEST_F(Order, SendsArriveInOrder) {
  constexpr uint32_t kCount = 200;
  PairOptions options;
  options.Both([](EndpointOptions* end) {
    end->send_wr = kCount + 1;
    end->recv_wr = kCount + 1;
    end->cqe = 2 * kCount + 2;
  });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.passive->PostRecv(i, pair.passive->Sge(64 * i, 64)), 0);
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    pair.active->memory().FillPattern(i, 64 * i, 64);
    ASSERT_EQ(pair.active->PostSend(i, pair.active->Sge(64 * i, 64)), 0);
  }
  EXPECT_EQ(WrIds(pair.active->TakeSent(kCount)), Numbers(0, kCount));
  EXPECT_EQ(WrIds(pair.passive->TakeReceived(kCount)), Numbers(0, kCount));
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.passive->memory().Differs(i, 64 * i, 64), "") << i;
  }
}

// When a SEND is received, the WRITEs before it are there.
TEST_F(Order, WriteIsThereBeforeTheSendBehindIt) {
  constexpr uint32_t kBytes = 100'000;
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* passive = pair.passive.get();
  for (uint64_t round = 0; round < 50; ++round) {
    pair.active->memory().FillPattern(round, 0, kBytes);
    ASSERT_EQ(passive->PostRecv(round, passive->Sge(kBytes, 8)), 0);
    ASSERT_EQ(pair.active->PostWrite(round, pair.active->Sge(0, kBytes),
                                     passive->At(0), 0),
              0);
    ASSERT_EQ(pair.active->PostSend(round, pair.active->Sge(0, 8)), 0);
    ASSERT_EQ(Statuses(passive->TakeReceived(1)), "SUCCESS");
    ASSERT_EQ(passive->memory().Differs(round, 0, kBytes), "") << round;
    ASSERT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
  }
}

// A READ sees the WRITE before it.
TEST_F(Order, ReadSeesTheWriteBeforeIt) {
  constexpr uint32_t kBytes = 50'000;
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  for (uint64_t round = 0; round < 50; ++round) {
    active->memory().FillPattern(round, 0, kBytes);
    ASSERT_EQ(
        active->PostWrite(1, active->Sge(0, kBytes), pair.passive->At(0), 0),
        0);
    ASSERT_EQ(
        active->PostRead(2, active->Sge(kBytes, kBytes), pair.passive->At(0)),
        0);
    ASSERT_EQ(Statuses(active->TakeSent(1)), "SUCCESS");
    ASSERT_EQ(active->memory().Differs(round, kBytes, kBytes), "") << round;
  }
}

// Completions come in the order of posting, whatever takes how long.
TEST_F(Order, NothingCompletesBeforeAReadInFrontOfIt) {
  constexpr uint32_t kBytes = 4 << 20;
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->memory_bytes = kBytes; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(pair.passive->PostRecv(20, pair.passive->Sge(0, 64)), 0);
  }
  ASSERT_EQ(active->PostRead(1, active->Sge(0, kBytes), pair.passive->At(0)),
            0);
  ASSERT_EQ(active->PostSend(2, active->Sge(0, 64)), 0);
  ASSERT_EQ(active->PostWrite(3, active->Sge(0, 64), pair.passive->At(0)), 0);
  ASSERT_EQ(active->PostRead(4, active->Sge(0, 8), pair.passive->At(0)), 0);
  ASSERT_EQ(active->PostSend(5, active->Sge(0, 64)), 0);
  const auto sent = active->TakeSent(5);
  Check("order", WrIds(sent) == Numbers(1, 5) ? "posting" : "another",
        {"posting"});
  for (const ibv_wc& wc : sent) EXPECT_EQ(StatusName(wc.status), "SUCCESS");
}

// The sink of a READ is filled before a fenced SEND carries it on.
TEST_F(Order, FenceWaitsForReads) {
  constexpr uint32_t kBytes = 1 << 20;
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->memory_bytes = 2 * kBytes; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  Endpoint* passive = pair.passive.get();
  for (uint64_t round = 0; round < 5; ++round) {
    passive->memory().FillPattern(round, 0, kBytes);
    active->memory().Fill(0);
    ASSERT_EQ(passive->PostRecv(1, passive->Sge(kBytes, 4096)), 0);
    ASSERT_EQ(active->PostRead(2, active->Sge(0, kBytes), passive->At(0)), 0);
    // The last bytes of what is being read.
    ASSERT_EQ(active->PostSend(3, active->Sge(kBytes - 4096, 4096),
                               IBV_SEND_SIGNALED | IBV_SEND_FENCE),
              0);
    ASSERT_EQ(Statuses(active->TakeSent(2)), "SUCCESS SUCCESS");
    ASSERT_EQ(Statuses(passive->TakeReceived(1)), "SUCCESS");
    const auto bytes = passive->memory().bytes(kBytes - 4096, 4096);
    const auto arrived = passive->memory().bytes(kBytes, 4096);
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), arrived.begin()));
  }
}

class SendQueue : public Verbs {};

// Exactly as many as the queue is deep, and room again when they are done.
TEST_F(SendQueue, IsFullAtItsDepth) {
  constexpr uint32_t kBytes = 1 << 20;
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->memory_bytes = kBytes; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  active->held = true;  // nothing is taken meanwhile
  const uint32_t depth = active->cap.max_send_wr;
  for (int round = 0; round < 3; ++round) {
    // READs that the other end, which nobody moves, does not answer. A kernel
    // moves by itself: where this thread loses its processor meanwhile, the
    // first are done before the last are posted.
    uint32_t posted = 0;
    int error = 0;
    while (posted < 2 * depth && error == 0) {
      error =
          active->PostRead(posted, active->Sge(0, kBytes), pair.passive->At(0));
      if (error == 0) ++posted;
    }
    if (!Spared("full")) {
      EXPECT_GE(posted, depth);
      if (Device().kind == DeviceKind::kIwarp) {
        EXPECT_EQ(posted, depth);
      }
      EXPECT_EQ(ErrnoName(error), "ENOMEM");
    }
    active->held = false;
    const auto sent = active->TakeSent(posted);
    EXPECT_EQ(WrIds(sent), Numbers(0, posted));
    active->held = true;
  }
}

TEST_F(SendQueue, UnsignalledOnesMakeRoomToo) {
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->recv_wr = 64; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  const uint32_t depth = active->cap.max_send_wr;
  for (uint64_t round = 0; round < 20; ++round) {
    for (uint32_t i = 1; i < depth; ++i) {
      ASSERT_EQ(
          active->PostWrite(i, active->Sge(0, 64), pair.passive->At(0), 0), 0)
          << round << " " << i;
    }
    ASSERT_EQ(active->PostWrite(round, active->Sge(0, 64), pair.passive->At(0)),
              0);
    const auto sent = active->TakeSent(1);
    ASSERT_EQ(Statuses(sent), "SUCCESS");
    ASSERT_EQ(sent.size(), 1U);
    ASSERT_EQ(sent[0].wr_id, round);
  }
  PumpFor();
  EXPECT_TRUE(active->sent.empty());
}

TEST_F(SendQueue, AllSignalled) {
  PairOptions options;
  options.active.signal_all = true;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(pair.active->PostWrite(1, pair.active->Sge(0, 64),
                                   pair.passive->At(0), 0),
            0);
  ASSERT_EQ(pair.active->PostWrite(2, pair.active->Sge(0, 64),
                                   pair.passive->At(0), 0),
            0);
  EXPECT_EQ(WrIds(pair.active->TakeSent(2)), Numbers(1, 2));
}

TEST_F(SendQueue, ReceiveQueueIsFullAtItsDepth) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  const uint32_t depth = end->cap.max_recv_wr;
  for (uint32_t i = 0; i < depth; ++i) {
    ASSERT_EQ(end->PostRecv(i, end->Sge(0, 64)), 0) << i;
  }
  Check("post", ErrnoName(end->PostRecv(99, end->Sge(0, 64))), {"ENOMEM"});
  ASSERT_EQ(pair.active->PostSend(1, pair.active->Sge(0, 64)), 0);
  EXPECT_EQ(WrIds(end->TakeReceived(1)), Numbers(0, 1));
  EXPECT_EQ(end->PostRecv(depth, end->Sge(0, 64)), 0);
}

// A chain is posted up to the first that cannot be, and bad_wr says which.
class Chain : public Verbs {
 protected:
  struct Result {
    int error = 0;
    int bad_index = -1;
  };
  static Result Post(Endpoint* end, std::vector<ibv_send_wr>* chain) {
    for (size_t i = 0; i + 1 < chain->size(); ++i) {
      (*chain)[i].next = &(*chain)[i + 1];
    }
    ibv_send_wr* bad_wr = nullptr;
    Result result;
    result.error = std::abs(ibv_post_send(end->qp(), chain->data(), &bad_wr));
    if (result.error != 0) {
      result.bad_index = static_cast<int>(bad_wr - chain->data());
    }
    return result;
  }
  static std::vector<ibv_send_wr> Sends(ibv_sge* sge, size_t count) {
    std::vector<ibv_send_wr> chain(count);
    for (size_t i = 0; i < count; ++i) {
      chain[i].wr_id = i;
      chain[i].sg_list = sge;
      chain[i].num_sge = 1;
      chain[i].opcode = IBV_WR_SEND;
      chain[i].send_flags = IBV_SEND_SIGNALED;
    }
    return chain;
  }
  static void PostReceives(Endpoint* end, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(end->PostRecv(i, end->Sge(0, 64)), 0);
    }
  }
};

TEST_F(Chain, IsPostedWhole) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  PostReceives(pair.passive.get(), 10);
  ibv_sge sge = pair.active->Sge(0, 64);
  std::vector<ibv_send_wr> chain = Sends(&sge, 10);
  const Result result = Post(pair.active.get(), &chain);
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(WrIds(pair.active->TakeSent(10)), Numbers(0, 10));
  EXPECT_EQ(WrIds(pair.passive->TakeReceived(10)), Numbers(0, 10));
}

TEST_F(Chain, EndsAtABadOne) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    PostReceives(pair.passive.get(), 3);
    ibv_sge sge = pair.active->Sge(0, 64);
    std::vector<ibv_sge> many(pair.active->cap.max_send_sge + 1, sge);
    std::vector<ibv_send_wr> chain = Sends(&sge, 6);
    const std::string names[] = {"opcode", "pieces", "inline"};
    if (which == 0) chain[3].opcode = IBV_WR_BIND_MW;
    if (which == 1) {
      chain[3].sg_list = many.data();
      chain[3].num_sge = static_cast<int>(many.size());
    }
    if (which == 2) {
      sge.length = 16384;
      chain[0].num_sge = chain[1].num_sge = chain[2].num_sge = 0;
      chain[3].send_flags |= IBV_SEND_INLINE;
    }
    if (Spared(names[which])) continue;
    const Result result = Post(pair.active.get(), &chain);
    Check(names[which], ErrnoName(result.error), {"EINVAL"});
    EXPECT_EQ(result.bad_index, 3);
    EXPECT_EQ(WrIds(pair.active->TakeSent(3)), Numbers(0, 3));
    EXPECT_EQ(WrIds(pair.passive->TakeReceived(3)), Numbers(0, 3));
    PumpFor();
    EXPECT_TRUE(pair.active->sent.empty());
  }
}

TEST_F(Chain, EndsWhereTheQueueIsFull) {
  constexpr uint32_t kBytes = 1 << 20;
  PairOptions options;
  options.Both([](EndpointOptions* end) { end->memory_bytes = kBytes; });
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  const uint32_t depth = active->cap.max_send_wr;
  ibv_sge sge = active->Sge(0, kBytes);
  std::vector<ibv_send_wr> chain = Sends(&sge, depth + 3);
  for (ibv_send_wr& wr : chain) {
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = pair.passive->At(0).address;
    wr.wr.rdma.rkey = pair.passive->At(0).rkey;
  }
  const Result result = Post(active, &chain);
  Check("errno", ErrnoName(result.error), {"ENOMEM"});
  if (!Spared("depth")) {
    EXPECT_EQ(result.bad_index, static_cast<int>(depth));
  }
  EXPECT_EQ(WrIds(active->TakeSent(depth)), Numbers(0, depth));
}

TEST_F(Chain, OfReceives) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.passive.get();
  ibv_sge sge = end->Sge(0, 64);
  std::vector<ibv_sge> many(end->cap.max_recv_sge + 1, sge);
  std::vector<ibv_recv_wr> chain(4);
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i] = {i, i + 1 < chain.size() ? &chain[i + 1] : nullptr, &sge, 1};
  }
  chain[2].sg_list = many.data();
  chain[2].num_sge = static_cast<int>(many.size());
  ibv_recv_wr* bad_wr = nullptr;
  const int error = std::abs(ibv_post_recv(end->qp(), chain.data(), &bad_wr));
  Check("post", ErrnoName(error), {"EINVAL"});
  EXPECT_EQ(bad_wr, &chain[2]);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.active->PostSend(1, pair.active->Sge(0, 64)), 0);
  }
  EXPECT_EQ(WrIds(end->TakeReceived(2)), Numbers(0, 2));
}

class ReadDepth : public Verbs {
 protected:
  static PairOptions Options(uint8_t active_depth, uint8_t passive_resources) {
    PairOptions options;
    options.Both([](EndpointOptions* end) {
      end->memory_bytes = 1 << 20;
      end->send_wr = 32;
    });
    options.active_depths.initiator_depth = active_depth;
    options.passive_depths.responder_resources = passive_resources;
    return options;
  }

  // Many READs, and a SEND behind them that must not overtake any.
  static void ExpectReadsInOrder(Pair* pair) {
    constexpr uint32_t kReads = 20;
    constexpr uint32_t kBytes = 30'000;
    Endpoint* active = pair->active.get();
    pair->passive->memory().FillPattern(4, 0, kReads * kBytes);
    ASSERT_EQ(pair->passive->PostRecv(1, pair->passive->Sge(1'000'000, 64)), 0);
    for (uint32_t i = 0; i < kReads; ++i) {
      ASSERT_EQ(active->PostRead(i, active->Sge(i * kBytes, kBytes),
                                 pair->passive->At(i * kBytes)),
                0);
    }
    ASSERT_EQ(active->PostSend(kReads, active->Sge(1'000'000, 64)), 0);
    const auto sent = active->TakeSent(kReads + 1);
    Check("order",
          WrIds(sent) == Numbers(0, kReads + 1) ? "posting" : "another",
          {"posting"});
    for (const ibv_wc& wc : sent) EXPECT_EQ(StatusName(wc.status), "SUCCESS");
    EXPECT_EQ(active->memory().Differs(4, 0, kReads * kBytes), "");
    EXPECT_EQ(Statuses(pair->passive->TakeReceived(1)), "SUCCESS");
  }
};

TEST_F(ReadDepth, OneAtATime) {
  Pair pair(Options(1, 1));
  ASSERT_TRUE(pair.ok());
  ExpectReadsInOrder(&pair);
}

TEST_F(ReadDepth, ThePeersIsALimit) {
  Pair pair(Options(16, 2));
  ASSERT_TRUE(pair.ok());
  ExpectReadsInOrder(&pair);
}

TEST_F(ReadDepth, AllTheDeviceHas) {
  const auto most = static_cast<uint8_t>(std::min(
      {Device().attr.max_qp_rd_atom, Device().attr.max_qp_init_rd_atom, 128}));
  Pair pair(Options(most, most));
  ASSERT_TRUE(pair.ok());
  ExpectReadsInOrder(&pair);
}

// A queue pair that may have no READ in flight does not hang over one.
TEST_F(ReadDepth, NoneIsAnError) {
  Pair pair(Options(0, 0));
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  const int error =
      active->PostRead(1, active->Sge(0, 64), pair.passive->At(0));
  if (error != 0) {
    Check("post", ErrnoName(error), {"EINVAL"});
    EXPECT_TRUE(pair.Greet());
    return;
  }
  if (Spared("completion")) return;
  const auto sent = active->TakeSent(1);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_NE(StatusName(sent[0].status), "SUCCESS");
}

TEST_F(ReadDepth, OfTheRequestAsTheOtherSideSeesIt) {
  PairOptions options;
  options.active_depths = {.initiator_depth = 5, .responder_resources = 7};
  options.passive_depths = {.initiator_depth = 6, .responder_resources = 9};
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  // What this side may have in flight is what the peer can serve, and back.
  EXPECT_EQ(pair.request.initiator_depth, 7);
  EXPECT_EQ(pair.request.responder_resources, 5);
  if (!Device().is_iwarp()) return;
  // The other way round, as the kernel's iWARP manager has it: IRD, then ORD.
  Check("ird", std::to_string(pair.established.initiator_depth), {"7"});
  Check("ord", std::to_string(pair.established.responder_resources), {"5"});
}

TEST_F(ReadDepth, TooMuchIsRefused) {
  const int most =
      std::min(Device().attr.max_qp_rd_atom, Device().attr.max_qp_init_rd_atom);
  if (most >= 254) GTEST_SKIP() << "more than there are numbers for";
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  const auto more = static_cast<uint8_t>(most + 1);
  rdma_conn_param param = Param({.initiator_depth = more});
  EXPECT_EQ(Api().connect(pair.active->id, &param), -1);
  EXPECT_EQ(ErrnoName(errno), "EINVAL");
  param = Param({.responder_resources = more});
  EXPECT_EQ(Api().connect(pair.active->id, &param), -1);
  EXPECT_EQ(ErrnoName(errno), "EINVAL");
}

// No parameters: all that the device has.
TEST_F(ReadDepth, WithoutParametersTheMost) {
  PairOptions options;
  options.connect = false;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  ASSERT_EQ(Api().connect(pair.active->id, nullptr), 0);
  const CmSeen request =
      pair.passive_events.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request.id, nullptr);
  pair.passive = std::make_unique<Endpoint>(request.id, EndpointOptions());
  ASSERT_TRUE(pair.passive->made);
  EXPECT_EQ(request.initiator_depth,
            std::min(Device().attr.max_qp_rd_atom, 255));
  EXPECT_EQ(request.responder_resources,
            std::min(Device().attr.max_qp_init_rd_atom, 255));
  ASSERT_EQ(Api().accept(pair.passive->id, nullptr), 0);
  pair.active_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
  pair.passive_events.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_TRUE(pair.Greet());
}

}  // namespace
}  // namespace sluice::verbs
