// Objects that go while they are in use, many of them, and threads
// [iwarp §7.7].
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/verbs/pair.h"

namespace sluice::verbs {
namespace {

constexpr uint32_t kBytes = 1 << 20;

class Busy : public Verbs {
 protected:
  static PairOptions Options() {
    PairOptions options;
    return options.Both([](EndpointOptions* end) {
      end->memory_bytes = 2 * kBytes;
      end->send_wr = 16;
    });
  }
  // Keeps the active side's queue full of WRITEs to `remote`, until it fails.
  static void Stream(Pair* pair, Remote remote) {
    Endpoint* active = pair->active.get();
    active->sent.clear();
    while (active->PostWrite(1, active->Sge(0, kBytes), remote) == 0) {
      if (active->State() != IBV_QPS_RTS) break;
    }
  }
};

// Not a byte is written after ibv_dereg_mr has returned.
TEST_F(Busy, DeregisteredMemoryIsNotWritten) {
  for (int round = 0; round < 20 * Flags().scale; ++round) {
    Pair pair(Options());
    ASSERT_TRUE(pair.ok());
    auto target = std::make_unique<Region>(pair.passive->pd, kBytes);
    pair.active->memory().Fill(0x11);
    for (int i = 0; i <= round; ++i) {
      Stream(&pair, target->At(0));
      PumpAll();
    }
    target->Deregister();
    target->Fill(0xee);
    Stream(&pair, target->At(0));
    EXPECT_TRUE(Until([&] {
      Stream(&pair, target->At(0));
      return pair.active->State() == IBV_QPS_ERR;
    }));
    ASSERT_EQ(target->DiffersFrom(0xee, 0, kBytes), "") << round;
    // Gone altogether: under ASan a late write would show.
    target = nullptr;
    PumpFor(absl::Milliseconds(1));
  }
}

// The same with the progress in another thread.
TEST_F(Busy, DeregisteredMemoryIsNotWrittenByAThread) {
  for (int round = 0; round < 20 * Flags().scale; ++round) {
    Pair pair(Options());
    ASSERT_TRUE(pair.ok());
    Endpoint* passive = pair.passive.get();
    passive->held = true;
    auto target = std::make_unique<Region>(passive->pd, kBytes);
    std::atomic<bool> stop{false};
    std::thread progress([&] {
      ibv_wc wc;
      while (!stop) (void)ibv_poll_cq(passive->recv_cq, 1, &wc);
    });
    for (int i = 0; i <= round % 5; ++i) {
      Stream(&pair, target->At(0));
      PumpAll();
    }
    target->Deregister();
    target->Fill(0xee);
    EXPECT_TRUE(Until([&] {
      Stream(&pair, target->At(0));
      return pair.active->State() == IBV_QPS_ERR;
    }));
    EXPECT_EQ(target->DiffersFrom(0xee, 0, kBytes), "") << round;
    target = nullptr;
    stop = true;
    progress.join();
  }
}

// The memory of what is being sent goes: an error, and no byte of it is read
// any more (ASan).
TEST_F(Busy, SourceIsDeregistered) {
  for (int round = 0; round < 10; ++round) {
    Pair pair(Options());
    ASSERT_TRUE(pair.ok());
    auto source = std::make_unique<Region>(pair.active->pd, kBytes);
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(pair.active->PostWrite(i, source->Sge(0, kBytes),
                                       pair.passive->At(0)),
                0);
    }
    source = nullptr;
    if (Spared("flush")) continue;
    const auto sent = pair.active->TakeSent(10);
    ASSERT_EQ(sent.size(), 10U);
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(sent[i].wr_id, i);
  }
}

// So does what a READ of the peer's is being answered from, and its sink.
TEST_F(Busy, BothEndsOfAReadAreDeregistered) {
  for (const bool sink_goes : {false, true}) {
    SCOPED_TRACE(sink_goes);
    for (int round = 0; round < 10; ++round) {
      Pair pair(Options());
      ASSERT_TRUE(pair.ok());
      auto source = std::make_unique<Region>(pair.passive->pd, kBytes);
      auto sink = std::make_unique<Region>(pair.active->pd, kBytes);
      for (uint64_t i = 0; i < 6; ++i) {
        ASSERT_EQ(pair.active->PostRead(i, sink->Sge(0, kBytes), source->At(0)),
                  0);
      }
      for (int i = 0; i < round; ++i) PumpAll();
      (sink_goes ? sink : source) = nullptr;
      if (Spared("flush")) continue;
      const auto sent = pair.active->TakeSent(6);
      ASSERT_EQ(sent.size(), 6U);
      for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(sent[i].wr_id, i);
    }
  }
}

TEST_F(Busy, QueuePairGoes) {
  for (const bool active_goes : {true, false}) {
    SCOPED_TRACE(active_goes);
    for (int round = 0; round < 5; ++round) {
      Pair pair(Options());
      ASSERT_TRUE(pair.ok());
      Endpoint* gone = active_goes ? pair.active.get() : pair.passive.get();
      for (int i = 0; i < round; ++i) {
        Stream(&pair, pair.passive->At(0));
        PumpAll();
      }
      for (uint64_t i = 0; i < 4; ++i) {
        (void)pair.passive->PostWrite(i, pair.passive->Sge(0, kBytes),
                                      pair.active->At(0));
        (void)pair.passive->PostRecv(i, pair.passive->Sge(0, 64));
      }
      gone->DestroyQp();
      PumpFor(absl::Milliseconds(2));
    }
  }
}

TEST_F(Busy, IdGoesWithItsQueuePair) {
  for (int round = 0; round < 5; ++round) {
    Pair pair(Options());
    ASSERT_TRUE(pair.ok());
    Stream(&pair, pair.passive->At(0));
    PumpAll();
    if (round % 2 == 0) pair.active = nullptr;
    if (round % 2 == 1) pair.passive = nullptr;
    PumpFor(absl::Milliseconds(2));
  }
}

// Two connections on one CQ, of which one has been quiet for long and the other
// never is: what then comes on the quiet one is found.
TEST_F(Busy, ABusyConnectionHidesNoQuietOne) {
  Pair quiet;
  ASSERT_TRUE(quiet.ok());
  quiet.passive->held = true;
  PairOptions options;
  options.passive.send_cq = quiet.passive->send_cq;
  options.passive.recv_cq = quiet.passive->recv_cq;
  Pair busy(options);
  ASSERT_TRUE(busy.ok());
  busy.passive->held = true;
  bool arrived = false;
  const auto take = [&arrived, &quiet](ibv_cq* cq) {
    ibv_wc wc = {};
    if (ibv_poll_cq(cq, 1, &wc) != 1) return false;
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    const bool of_quiet = wc.qp_num == quiet.passive->qp()->qp_num;
    arrived |= of_quiet;
    return !of_quiet;
  };
  const auto round_trip = [&] {
    ASSERT_EQ(busy.active->PostRecv(1, busy.active->Sge(0, 64)), 0);
    ASSERT_EQ(busy.passive->PostRecv(2, busy.passive->Sge(0, 64)), 0);
    ASSERT_EQ(busy.active->PostSend(3, busy.active->Sge(64, 64)), 0);
    ASSERT_TRUE(Until([&] { return take(busy.passive->recv_cq); }));
    ASSERT_EQ(busy.passive->PostSend(4, busy.passive->Sge(64, 64)), 0);
    ASSERT_TRUE(Until([&] { return take(busy.passive->send_cq); }));
    ASSERT_EQ(busy.active->TakeSent(1).size(), 1u);
    ASSERT_EQ(busy.active->TakeReceived(1).size(), 1u);
  };
  ASSERT_EQ(quiet.passive->PostRecv(5, quiet.passive->Sge(0, 64)), 0);
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(round_trip());
  EXPECT_FALSE(arrived);

  ASSERT_EQ(quiet.active->PostSend(6, quiet.active->Sge(0, 64)), 0);
  for (int i = 0; i < 1000 && !arrived; ++i) {
    ASSERT_NO_FATAL_FAILURE(round_trip());
  }

  EXPECT_TRUE(arrived);
}

// One thread posts, another one polls: every completion, once, in order.
TEST_F(Busy, OnePostsAnotherPolls) {
  const uint64_t count =
      uint64_t{20'000} * static_cast<uint64_t>(Flags().scale);
  PairOptions options;
  options.active.send_wr = 64;
  Pair pair(options);
  ASSERT_TRUE(pair.ok());
  Endpoint* active = pair.active.get();
  Endpoint* passive = pair.passive.get();
  active->held = passive->held = true;
  std::atomic<uint64_t> done{0};
  std::atomic<bool> failed{false};
  std::thread poller([&] {
    ibv_wc wc[16];
    while (done < count && !failed) {
      const int taken = ibv_poll_cq(active->send_cq, 16, wc);
      if (taken < 0) failed = true;
      for (int i = 0; i < taken; ++i) {
        if (wc[i].wr_id != done || wc[i].status != IBV_WC_SUCCESS) {
          failed = true;
        }
        ++done;
      }
      ibv_wc other;
      (void)ibv_poll_cq(passive->recv_cq, 1, &other);
    }
  });
  Deadline deadline(absl::Seconds(60));
  uint64_t posted = 0;
  while (posted < count && !failed && !deadline.passed()) {
    if (posted - done >= 60) {
      std::this_thread::yield();
      continue;
    }
    const int error =
        active->PostWrite(posted, active->Sge(0, 64), passive->At(0));
    if (error != 0) {
      ADD_FAILURE() << ErrnoName(error) << " at " << posted << ", " << done;
      break;
    }
    ++posted;
  }
  while (done < posted && !failed && deadline.Nap()) {
  }
  failed = failed || done < posted;
  EXPECT_FALSE(failed) << done << " of " << posted;
  failed = true;  // ends the poller in any case
  poller.join();
}

class Many : public Verbs {
 protected:
  static size_t Descriptors() {
    DIR* dir = opendir("/proc/self/fd");
    if (dir == nullptr) return 0;
    size_t count = 0;
    while (readdir(dir) != nullptr) ++count;
    closedir(dir);
    return count;
  }
  static size_t ResidentBytes() {
    std::FILE* file = std::fopen("/proc/self/statm", "re");
    unsigned long size = 0;
    unsigned long resident = 0;
    if (file != nullptr) {
      if (std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
      std::fclose(file);
    }
    return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  }
  // Connects, and ends it in one of several ways.
  static void Once(int how) {
    PairOptions options;
    options.Both([](EndpointOptions* end) { end->memory_bytes = 4096; });
    Pair pair(options);
    ASSERT_TRUE(pair.ok());
    (void)pair.passive->PostRecv(1, pair.passive->Sge(0, 64));
    switch (how % 4) {
      case 0:
        Api().disconnect(pair.active->id);
        EXPECT_TRUE(pair.WaitDisconnected());
        break;
      case 1:
        (void)pair.passive->Modify(IBV_QPS_ERR);
        break;
      case 2:
        pair.active->DestroyQp();
        break;
      default:
        break;
    }
  }
};

TEST_F(Many, ConnectionsLeaveNothingBehind) {
  const int count = Device().kind == DeviceKind::kIwarp ? 1000 : 100;
  for (int i = 0; i < 40; ++i) Once(i);
  const size_t descriptors = Descriptors();
  const size_t resident = ResidentBytes();
  for (int i = 0; i < count; ++i) Once(i);
  // A few may be on their way out, with a helper thread.
  EXPECT_LT(Descriptors(), descriptors + 10);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A queue pair and its CQs are some 100 KiB; an allocator keeps a little.
  EXPECT_LT(ResidentBytes(), resident + (size_t{16} << 20));
#else
  (void)resident;  // sanitizers keep what is freed
#endif
}

TEST_F(Many, ConnectionsAtATime) {
  const int count = Device().kind == DeviceKind::kIwarp ? 100 : 20;
  CmEvents active_events;
  CmEvents passive_events;
  Listener listener(&passive_events, count);
  std::vector<std::unique_ptr<Endpoint>> active;
  std::vector<std::unique_ptr<Endpoint>> passive;
  EndpointOptions options;
  options.memory_bytes = 4096;
  rdma_conn_param param = Param(Depths());
  for (int i = 0; i < count; ++i) {
    rdma_cm_id* id = Dial(&active_events, listener.port);
    ASSERT_NE(id, nullptr);
    active.push_back(std::make_unique<Endpoint>(id, options));
    ASSERT_TRUE(active.back()->made);
  }
  for (const auto& end : active) {
    ASSERT_EQ(Api().connect(end->id, &param), 0);
  }
  for (int i = 0; i < count; ++i) {
    const CmSeen request = [&] {
      // Requests and what became of earlier ones come in any order.
      EXPECT_TRUE(Until(
          [&] { return passive_events.Has(RDMA_CM_EVENT_CONNECT_REQUEST); }));
      for (auto seen = passive_events.seen.begin();
           seen != passive_events.seen.end(); ++seen) {
        if (seen->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
        CmSeen taken = std::move(*seen);
        passive_events.seen.erase(seen);
        return taken;
      }
      return CmSeen();
    }();
    ASSERT_NE(request.id, nullptr) << i;
    passive.push_back(std::make_unique<Endpoint>(request.id, options));
    ASSERT_TRUE(passive.back()->made);
    ASSERT_EQ(Api().accept(request.id, &param), 0);
  }
  EXPECT_TRUE(Until([&] {
    return active_events.Count(RDMA_CM_EVENT_ESTABLISHED) == count &&
           passive_events.Count(RDMA_CM_EVENT_ESTABLISHED) == count;
  }));
  for (const auto& end : active) ASSERT_EQ(Api().disconnect(end->id), 0);
  EXPECT_TRUE(Until([&] {
    return passive_events.Count(RDMA_CM_EVENT_DISCONNECTED) == count;
  }));
  for (const auto& end : passive) (void)Api().disconnect(end->id);
  EXPECT_TRUE(Until([&] {
    return active_events.Count(RDMA_CM_EVENT_DISCONNECTED) == count &&
           passive_events.Count(RDMA_CM_EVENT_DISCONNECTED) == count;
  }));
}

}  // namespace
}  // namespace sluice::verbs
