// Memory regions: who may touch what, from where to where, and until when
// [iwarp §3.7, §4.4, §4.8].
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

constexpr uint32_t kBytes = 4096;
constexpr uint8_t kUntouched = 0xee;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;

enum class Operation { kWrite, kRead };

std::string NameOf(Operation operation) {
  return operation == Operation::kWrite ? "WRITE" : "READ";
}

class Access : public Verbs {
 protected:
  // `operation` on `remote` of the pair's passive side, and all that comes of a
  // violation: a READ says so, a WRITE may have completed by then; both queue
  // pairs end, and no byte of `target` changes.
  static void ExpectViolation(Pair* pair, Operation operation, Remote remote,
                              uint32_t bytes, Region* target) {
    SCOPED_TRACE(NameOf(operation));
    Endpoint* active = pair->active.get();
    active->memory().Fill(0x11);
    if (target != nullptr) target->Fill(kUntouched);
    ASSERT_EQ(pair->passive->PostRecv(7, pair->passive->Sge(0, 64)), 0);
    const ibv_sge sge = active->Sge(0, bytes);
    if (operation == Operation::kWrite) {
      ASSERT_EQ(active->PostWrite(1, sge, remote), 0);
      const std::string status = Statuses(active->TakeSent(1));
      Check("WRITE", status,
            Device().is_iwarp()
                ? std::vector<std::string>{"SUCCESS", "REM_ACCESS_ERR"}
                : std::vector<std::string>{"REM_ACCESS_ERR"});
    } else {
      ASSERT_EQ(active->PostRead(1, sge, remote), 0);
      Check("READ", Statuses(active->TakeSent(1)), {"REM_ACCESS_ERR"});
      EXPECT_EQ(active->memory().DiffersFrom(0x11, 0, bytes), "");
    }
    EXPECT_TRUE(Until([=] { return active->State() == IBV_QPS_ERR; }));
    if (!Spared(NameOf(operation) + " responder")) {
      EXPECT_EQ(Statuses(pair->passive->TakeReceived(1)), "WR_FLUSH_ERR");
    }
    if (!Spared("event")) {
      EXPECT_TRUE(Until([=] {
        return pair->async.Count(IBV_EVENT_QP_ACCESS_ERR, pair->passive->qp()) +
                   pair->async.Count(IBV_EVENT_QP_REQ_ERR,
                                     pair->passive->qp()) >
               0;
      }));
    }
    if (target != nullptr) {
      EXPECT_EQ(target->DiffersFrom(kUntouched, 0, target->size()), "");
    }
  }

  // A SEND of `sge` fails where it is posted, before anything leaves.
  static void ExpectBadLocal(ibv_sge sge, Operation operation) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    ExpectBadLocal(&pair, sge, operation);
  }
  static void ExpectBadLocal(Pair* pair, ibv_sge sge, Operation operation) {
    Endpoint* active = pair->active.get();
    const Remote to = pair->passive->At(0);
    const int error = operation == Operation::kWrite
                          ? active->PostWrite(1, sge, to)
                          : active->PostRead(1, sge, to);
    if (error != 0) {
      Check("post", ErrnoName(error), {"0"});
      return;
    }
    Check("status", Statuses(active->TakeSent(1)), {"LOC_PROT_ERR"});
    if (Spared("state")) return;
    EXPECT_TRUE(Until([=] { return active->State() == IBV_QPS_ERR; }));
  }
};

TEST_F(Access, RemoteRightsAreTheRegions) {
  for (const int access : {0, kLocal, kLocal | IBV_ACCESS_REMOTE_READ}) {
    SCOPED_TRACE(access);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes, access);
    ExpectViolation(&pair, Operation::kWrite, target.At(0), 64, &target);
  }
  for (const int access : {0, kLocal, kLocal | IBV_ACCESS_REMOTE_WRITE}) {
    SCOPED_TRACE(access);
    if (Spared("READ without the right")) continue;
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes, access);
    ExpectViolation(&pair, Operation::kRead, target.At(0), 64, &target);
  }
}

// What a queue pair does not grant, no region does.
TEST_F(Access, RemoteRightsAreTheQueuePairs) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes);
    ASSERT_EQ(pair.passive->Grant(operation == Operation::kWrite
                                      ? IBV_ACCESS_REMOTE_READ
                                      : IBV_ACCESS_REMOTE_WRITE),
              0);
    ExpectViolation(&pair, operation, target.At(0), 64, &target);
  }
}

TEST_F(Access, RightsOfAQueuePairAreGivenAndTaken) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region target(pair.passive->pd, kBytes);
  for (const unsigned rights :
       {unsigned{IBV_ACCESS_REMOTE_WRITE}, unsigned{IBV_ACCESS_REMOTE_READ},
        unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ}}) {
    ASSERT_EQ(pair.passive->Grant(rights), 0);
    if ((rights & IBV_ACCESS_REMOTE_WRITE) != 0) {
      ASSERT_EQ(
          pair.active->PostWrite(1, pair.active->Sge(0, 64), target.At(0)), 0);
      ASSERT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
    }
    ASSERT_TRUE(pair.Greet());
    if ((rights & IBV_ACCESS_REMOTE_READ) == 0) continue;
    ASSERT_EQ(pair.active->PostRead(2, pair.active->Sge(0, 64), target.At(0)),
              0);
    ASSERT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
  }
}

TEST_F(Access, EachRightIsEnough) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region readable(pair.passive->pd, kBytes, IBV_ACCESS_REMOTE_READ);
  Region writable(pair.passive->pd, kBytes, kLocal | IBV_ACCESS_REMOTE_WRITE);
  readable.FillPattern(1, 0, kBytes);
  pair.active->memory().FillPattern(2, 0, kBytes);
  ASSERT_EQ(
      pair.active->PostWrite(1, pair.active->Sge(0, kBytes), writable.At(0)),
      0);
  ASSERT_EQ(pair.active->PostRead(2, pair.active->Sge(kBytes, kBytes),
                                  readable.At(0)),
            0);
  EXPECT_EQ(Statuses(pair.active->TakeSent(2)), "SUCCESS SUCCESS");
  ASSERT_TRUE(pair.Greet());
  EXPECT_EQ(writable.Differs(2, 0, kBytes), "");
  EXPECT_EQ(pair.active->memory().Differs(1, kBytes, kBytes), "");
}

// A READ's sink needs no remote right of its own on this device.
TEST_F(Access, ReadSinkIsLocal) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region sink(pair.active->pd, kBytes, kLocal);
  pair.passive->memory().FillPattern(3, 0, kBytes);
  ASSERT_EQ(pair.active->PostRead(1, sink.Sge(0, kBytes), pair.passive->At(0)),
            0);
  Check("status", Statuses(pair.active->TakeSent(1)), {"SUCCESS"});
  if (Spared("data")) return;
  EXPECT_EQ(sink.Differs(3, 0, kBytes), "");
}

TEST_F(Access, BoundsToTheByte) {
  {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes);
    // All of it, its last byte, its first one.
    for (const auto& [offset, bytes] : std::vector<std::pair<size_t, uint32_t>>{
             {0, kBytes}, {kBytes - 1, 1}, {0, 1}}) {
      ASSERT_EQ(pair.active->PostWrite(1, pair.active->Sge(0, bytes),
                                       target.At(offset)),
                0);
      ASSERT_EQ(pair.active->PostRead(2, pair.active->Sge(0, bytes),
                                      target.At(offset)),
                0);
      ASSERT_EQ(Statuses(pair.active->TakeSent(2)), "SUCCESS SUCCESS");
    }
    ASSERT_TRUE(pair.Greet());
  }
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    for (const int which : {0, 1, 2, 3}) {
      SCOPED_TRACE(which);
      Pair pair;
      ASSERT_TRUE(pair.ok());
      Region target(pair.passive->pd, kBytes);
      // In one segment: of several, those before the end may be placed.
      constexpr uint32_t kPiece = 64;
      const Remote remotes[] = {
          target.At(kBytes - kPiece + 1),         // one byte past the end
          {target.Address() - 1, target.rkey()},  // and before the start
          target.At(kBytes),                      // right behind it
          {UINT64_MAX - 10, target.rkey()},       // around the end of all
      };
      ExpectViolation(&pair, operation, remotes[which], which == 2 ? 1 : kPiece,
                      &target);
    }
  }
}

TEST_F(Access, WrongKeys) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    for (const uint32_t wrong : {0x00000100U, 0x00000001U, 0x80000000U}) {
      SCOPED_TRACE(wrong);
      Pair pair;
      ASSERT_TRUE(pair.ok());
      Region target(pair.passive->pd, kBytes);
      ExpectViolation(&pair, operation,
                      {target.Address(), target.rkey() ^ wrong}, 64, &target);
    }
    for (const uint32_t key : {0U, 1U, UINT32_MAX}) {
      SCOPED_TRACE(key);
      Pair pair;
      ASSERT_TRUE(pair.ok());
      Region target(pair.passive->pd, kBytes);
      ExpectViolation(&pair, operation, {target.Address(), key}, 64, &target);
    }
  }
}

TEST_F(Access, RegionOfAnotherPd) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.active->pd, kBytes);
    ExpectViolation(&pair, operation, target.At(0), 64, &target);
  }
}

TEST_F(Access, DeregisteredRegion) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes);
    const Remote remote = target.At(0);
    ASSERT_EQ(pair.active->PostWrite(1, pair.active->Sge(0, kBytes), remote),
              0);
    ASSERT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
    ASSERT_TRUE(pair.Greet());
    target.Deregister();
    ExpectViolation(&pair, operation, remote, 64, &target);
  }
}

// A new region, of the same memory even, has another key.
TEST_F(Access, OldKeyDoesNotHitTheNextRegion) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  auto first = std::make_unique<Region>(pair.passive->pd, kBytes);
  const uint32_t old_key = first->rkey();
  first->Deregister();
  std::vector<std::unique_ptr<Region>> next;
  for (int i = 0; i < 64; ++i) {
    ibv_mr* mr = Api().reg_mr(pair.passive->pd, first->bytes().data(), kBytes,
                              kAllAccess);
    ASSERT_NE(mr, nullptr);
    EXPECT_NE(mr->rkey, old_key);
    ASSERT_EQ(Api().dereg_mr(mr), 0);
  }
  ibv_mr* mr =
      Api().reg_mr(pair.passive->pd, first->bytes().data(), kBytes, kAllAccess);
  ASSERT_NE(mr, nullptr);
  ExpectViolation(&pair, Operation::kWrite, {first->Address(), old_key}, 64,
                  first.get());
  EXPECT_EQ(Api().dereg_mr(mr), 0);
}

TEST_F(Access, BadLocalMemory) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    SCOPED_TRACE(NameOf(operation));
    for (const int which : {0, 1, 2, 3}) {
      SCOPED_TRACE(which);
      Pair pair;
      ASSERT_TRUE(pair.ok());
      Region own(pair.active->pd, kBytes);
      Region others(pair.passive->pd, kBytes);
      ibv_sge sge = own.Sge(0, 64);
      if (which == 0) sge.lkey ^= 0x00000100;    // wrong key
      if (which == 1) sge = own.Sge(1, kBytes);  // past the end
      if (which == 2) sge = others.Sge(0, 64);   // another PD
      if (which == 3) own.Deregister();          // no more
      ExpectBadLocal(&pair, sge, operation);
    }
  }
}

TEST_F(Access, ReadSinkMustBeWritable) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region constant(pair.active->pd, kBytes, 0);
  constant.Fill(kUntouched);
  ExpectBadLocal(&pair, constant.Sge(0, 64), Operation::kRead);
  EXPECT_EQ(constant.DiffersFrom(kUntouched, 0, kBytes), "");
}

// The second of two pieces: the first one is let go of again.
TEST_F(Access, BadSecondPiece) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region good(pair.active->pd, kBytes);
  ibv_sge bad = good.Sge(0, 64);
  bad.lkey ^= 0x00000100;
  ASSERT_EQ(pair.passive->PostRecv(1, pair.passive->Sge(0, 128)), 0);
  const int error =
      pair.active->Post({.wr_id = 2, .sges = {good.Sge(0, 64), bad}});
  if (error == 0) {
    Check("status", Statuses(pair.active->TakeSent(1)), {"LOC_PROT_ERR"});
  } else {
    Check("post", ErrnoName(error), {"0"});
  }
  good.Deregister();
}

TEST_F(Access, BadReceives) {
  for (const int which : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(which);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Endpoint* passive = pair.passive.get();
    Region own(passive->pd, kBytes);
    Region others(pair.active->pd, kBytes);
    Region constant(passive->pd, kBytes, 0);
    constant.Fill(kUntouched);
    ibv_sge sge = own.Sge(0, 64);
    if (which == 0) sge.lkey ^= 0x00000100;
    if (which == 1) sge = own.Sge(kBytes - 10, 64);
    if (which == 2) sge = others.Sge(0, 64);
    if (which == 3) sge = constant.Sge(0, 64);
    if (which == 4) own.Deregister();
    const int error = passive->PostRecv(1, sge);
    if (error != 0) {
      Check("post", ErrnoName(error), {"0"});
      continue;
    }
    ASSERT_EQ(passive->PostRecv(2, passive->Sge(0, 64)), 0);
    pair.active->memory().Fill(0x22);
    ASSERT_EQ(pair.active->PostSend(3, pair.active->Sge(0, 64)), 0);
    const auto received = passive->TakeReceived(2);
    Check("statuses", Statuses(received), {"LOC_PROT_ERR WR_FLUSH_ERR"});
    EXPECT_EQ(WrIds(received), (std::vector<uint64_t>{1, 2}));
    EXPECT_TRUE(Until([=] { return passive->State() == IBV_QPS_ERR; }));
    EXPECT_EQ(constant.DiffersFrom(kUntouched, 0, kBytes), "");
  }
}

TEST_F(Access, SendLongerThanItsReceive) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* passive = pair.passive.get();
  passive->memory().Fill(kUntouched);
  ASSERT_EQ(passive->PostRecv(1, passive->Sge(0, 100)), 0);
  ASSERT_EQ(passive->PostRecv(2, passive->Sge(1000, 100)), 0);
  ASSERT_EQ(pair.active->PostSend(3, pair.active->Sge(0, 101)), 0);
  const auto received = passive->TakeReceived(2);
  Check("statuses", Statuses(received), {"LOC_LEN_ERR WR_FLUSH_ERR"});
  EXPECT_EQ(WrIds(received), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(passive->memory().DiffersFrom(kUntouched, 100, 2000), "");
  EXPECT_TRUE(Until([&] { return pair.active->State() == IBV_QPS_ERR; }));
}

// Large enough that its first segments have arrived when the end is reached:
// they may stay, nothing behind the region is touched.
TEST_F(Access, LongWriteAcrossTheEnd) {
  constexpr uint32_t kLong = 256 * 1024;
  Pair pair;
  ASSERT_TRUE(pair.ok());
  std::vector<std::byte> around(2 * kLong, std::byte{kUntouched});
  ibv_mr* mr =
      Api().reg_mr(pair.passive->pd, around.data(), kLong - 1, kAllAccess);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(pair.active->PostWrite(
                1, pair.active->Sge(0, kLong),
                {reinterpret_cast<uint64_t>(around.data()), mr->rkey}),
            0);
  EXPECT_EQ(pair.active->TakeSent(1).size(), 1U);
  EXPECT_TRUE(Until([&] { return pair.active->State() == IBV_QPS_ERR; }));
  EXPECT_EQ(Api().dereg_mr(mr), 0);
  for (size_t i = kLong - 1; i < around.size(); ++i) {
    ASSERT_EQ(around[i], std::byte{kUntouched}) << i;
  }
}

class Invalidate : public Access {
 protected:
  static int SendInvalidate(Pair* pair, uint32_t key) {
    return pair->active->Post({.wr_id = 1,
                               .opcode = IBV_WR_SEND_WITH_INV,
                               .sges = {pair->active->Sge(0, 64)},
                               .invalidate = key});
  }
};

TEST_F(Invalidate, RemoteTellsTheKey) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region target(pair.passive->pd, kBytes);
  ASSERT_EQ(pair.passive->PostRecv(2, pair.passive->Sge(0, 64)), 0);
  ASSERT_EQ(SendInvalidate(&pair, target.rkey()), 0);
  EXPECT_EQ(Statuses(pair.active->TakeSent(1)), "SUCCESS");
  const auto received = pair.passive->TakeReceived(1);
  ASSERT_EQ(Statuses(received), "SUCCESS");
  if (!Spared("key")) {
    EXPECT_NE(received[0].wc_flags & IBV_WC_WITH_INV, 0U);
    EXPECT_EQ(received[0].invalidated_rkey, target.rkey());
  }
  EXPECT_EQ(received[0].byte_len, 64U);
}

TEST_F(Invalidate, RemoteEndsAllAccess) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes);
    ASSERT_EQ(pair.passive->PostRecv(2, pair.passive->Sge(0, 64)), 0);
    ASSERT_EQ(SendInvalidate(&pair, target.rkey()), 0);
    ASSERT_EQ(Statuses(pair.passive->TakeReceived(1)), "SUCCESS");
    (void)pair.active->TakeSent(1);
    ExpectViolation(&pair, operation, target.At(0), 64, &target);
  }
  // Local access, too.
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Region target(pair.passive->pd, kBytes);
  ASSERT_EQ(pair.passive->PostRecv(2, pair.passive->Sge(0, 64)), 0);
  ASSERT_EQ(SendInvalidate(&pair, target.rkey()), 0);
  ASSERT_EQ(Statuses(pair.passive->TakeReceived(1)), "SUCCESS");
  ASSERT_EQ(pair.passive->PostSend(3, target.Sge(0, 64)), 0);
  Check("local", Statuses(pair.passive->TakeSent(1)), {"LOC_PROT_ERR"});
}

TEST_F(Invalidate, KeysThatAreNone) {
  for (const bool of_another_pd : {false, true}) {
    SCOPED_TRACE(of_another_pd);
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.active->pd, kBytes);
    const uint32_t key =
        of_another_pd ? target.rkey() : target.rkey() ^ 0x00000100;
    ASSERT_EQ(pair.passive->PostRecv(2, pair.passive->Sge(0, 64)), 0);
    ASSERT_EQ(SendInvalidate(&pair, key), 0);
    const auto received = pair.passive->TakeReceived(1);
    EXPECT_NE(StatusName(received[0].status), "SUCCESS");
    if (Spared("peer")) continue;
    EXPECT_TRUE(Until([&] { return pair.active->State() == IBV_QPS_ERR; }));
  }
}

TEST_F(Invalidate, LocalEndsAllAccess) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead}) {
    Pair pair;
    ASSERT_TRUE(pair.ok());
    Region target(pair.passive->pd, kBytes);
    const int error = pair.passive->Post(
        {.wr_id = 1, .opcode = IBV_WR_LOCAL_INV, .invalidate = target.rkey()});
    if (error != 0) {
      Check("post", ErrnoName(error), {"0"});
      return;
    }
    const auto sent = pair.passive->TakeSent(1);
    if (Spared("region")) return;
    ASSERT_EQ(Statuses(sent), "SUCCESS");
    EXPECT_EQ(sent[0].opcode, IBV_WC_LOCAL_INV);
    ExpectViolation(&pair, operation, target.At(0), 64, &target);
  }
}

// In its place in the queue: the WRITE before it still has the memory.
TEST_F(Invalidate, LocalIsInOrder) {
  Pair pair;
  ASSERT_TRUE(pair.ok());
  Endpoint* end = pair.active.get();
  Region source(end->pd, 200'000);
  source.FillPattern(9, 0, source.size());
  ASSERT_EQ(end->PostWrite(1, source.Sge(0, 200'000), pair.passive->At(0)), 0);
  const int error = end->Post(
      {.wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .invalidate = source.rkey()});
  if (error != 0) {
    Check("post", ErrnoName(error), {"0"});
    return;
  }
  ASSERT_EQ(end->PostSend(3, source.Sge(0, 64)), 0);
  const auto sent = end->TakeSent(3);
  if (Spared("region")) return;
  EXPECT_EQ(Statuses(sent), "SUCCESS SUCCESS LOC_PROT_ERR");
  EXPECT_EQ(WrIds(sent), (std::vector<uint64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace sluice::verbs
