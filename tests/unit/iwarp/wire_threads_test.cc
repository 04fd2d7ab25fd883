// What a peer does at the same time as the program: one thread polls and so
// moves the provider, another deregisters, posts and destroys, a third is the
// peer. For TSan and ASan.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/calls.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

constexpr int kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr size_t kRegion = 40000;

class WireThreads : public testing::Test {
 protected:
  WireThreads() { MutableOptions().linger = absl::Milliseconds(20); }
  ~WireThreads() override { MutableOptions() = Options(); }

  // Polls the connection's CQ in a thread of its own while `work` runs.
  void WhilePolled(WireConnection* connection,
                   const std::function<void()>& work) {
    std::atomic<bool> stop{false};
    std::thread poller([&] {
      ibv_wc wc[8];
      while (!stop.load()) {
        const int count = ibv_poll_cq(connection->cq, 8, wc);
        for (int i = 0; i < count; ++i) ++connection->completed[wc[i].wr_id];
      }
    });
    work();
    stop.store(true);
    poller.join();
  }

  // Sends the FPDU again and again until told to stop, or until nobody listens.
  static void Repeat(RawStream* raw, const Bytes& fpdu,
                     const std::atomic<bool>& stop) {
    size_t at = 0;
    while (!stop.load()) {
      const ssize_t sent = raw->SendSome(fpdu, at);
      if (sent < 0) return;
      at = (at + static_cast<size_t>(sent)) % fpdu.size();
      raw->Collect();
    }
  }

  WireSide side_;
};

// After ibv_dereg_mr the memory is the program's alone.
TEST_F(WireThreads, NoByteIsWrittenAfterDeregistration) {
  for (int round = 0; round < 30; ++round) {
    GuardedRegion region(side_.pd(), kRights, kRegion);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, round % 2 == 0);
    const size_t bytes = round % 3 == 0 ? 500 : kRegion;
    const Bytes write = Seal(Tagged(kWriteLast, region.key(), region.address(),
                                    Bytes(bytes, std::byte{0x11})),
                             round % 2 == 0);
    std::atomic<bool> stop{false};
    std::thread peer([&] { Repeat(&raw, write, stop); });

    WhilePolled(connection, [&] {
      for (int i = 0; i < round; ++i) std::this_thread::yield();
      region.Deregister();
      std::memset(region.data(), 0x3c, region.size());
      std::this_thread::yield();
    });

    stop.store(true);
    peer.join();
    for (int i = 0; i < 10; ++i) side_.Advance();
    EXPECT_TRUE(region.IsUntouched(true)) << round;
    side_.Destroy(connection);
  }
}

// And is read by nobody, either.
TEST_F(WireThreads, NoByteIsReadAfterDeregistration) {
  for (int round = 0; round < 30; ++round) {
    auto region = std::make_unique<GuardedRegion>(side_.pd(), kRights, kRegion);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, round % 2 == 0);
    std::atomic<bool> stop{false};
    std::thread peer([&] {
      for (uint32_t msn = 1; !stop.load(); ++msn) {
        const Bytes read = Seal(ReadRequest({.msn = msn,
                                             .bytes = kRegion,
                                             .source_stag = region->key(),
                                             .source_to = region->address()}),
                                round % 2 == 0);
        if (!raw.Send(read)) return;
        Bytes fpdu;
        size_t got = 0;
        while (got < kRegion && !stop.load() && !raw.at_end()) {
          raw.Collect();
          while (raw.TakeFpdu(&fpdu)) got += fpdu.size();
        }
      }
    });

    WhilePolled(connection, [&] {
      for (int i = 0; i < round; ++i) std::this_thread::yield();
      region->Deregister();
    });

    stop.store(true);
    peer.join();
    region.reset();
    for (int i = 0; i < 10; ++i) side_.Advance();
    side_.Destroy(connection);
  }
}

// The peer invalidates what the program deregisters.
TEST_F(WireThreads, InvalidationMeetsDeregistration) {
  for (int round = 0; round < 100; ++round) {
    GuardedRegion region(side_.pd(), kRights, 64);
    RawStream raw;
    WireConnection* connection = side_.Establish(&raw, false);
    std::atomic<bool> go{false};
    std::thread peer([&] {
      while (!go.load()) {
      }
      raw.Send(
          Seal(Untagged(kSendInvalidateLast, region.key(), 0, 1, 0), false));
    });

    WhilePolled(connection, [&] {
      go.store(true);
      for (int i = 0; i < round % 8; ++i) std::this_thread::yield();
      region.Deregister();
    });

    peer.join();
    side_.Destroy(connection);
  }
}

// Queue pairs of one group come and go while another thread moves it.
TEST_F(WireThreads, QueuePairsGoWhileTheirGroupIsMoved) {
  RawStream staying_raw;
  WireConnection* staying = side_.Establish(&staying_raw, false);
  GuardedRegion region(side_.pd(), kRights, kRegion);
  const Bytes write = Seal(
      Tagged(kWriteLast, region.key(), region.address(), Bytes(300)), false);
  std::atomic<bool> stop{false};
  std::thread peer([&] { Repeat(&staying_raw, write, stop); });

  WhilePolled(staying, [&] {
    for (int round = 0; round < 50; ++round) {
      RawStream raw = RawStream::Connect(side_.port());
      ASSERT_TRUE(raw.Send(MpaText({})));
      rdma_cm_event* event = nullptr;
      while (side_.api().get_cm_event(side_.channel(), &event) != 0) {
        std::this_thread::yield();
      }
      ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
      rdma_cm_id* id = event->id;
      id->context = nullptr;
      side_.api().ack_cm_event(event);
      WireConnection* connection = side_.NewConnection(id, {});
      ASSERT_TRUE(side_.TryAccept(connection, {}, {}));
      // Good, wrong, or cut off.
      raw.Send(
          Seal(Untagged(kSendLast, 0, 0, round % 2 == 0 ? 1 : 2, 0), false));
      if (round % 3 == 0) raw.Reset();
      for (int i = 0; i < round % 5; ++i) std::this_thread::yield();
      id->context = nullptr;  // its events are nobody's
      side_.Destroy(connection);
    }
  });

  stop.store(true);
  peer.join();
  EXPECT_TRUE(region.IsUntouched(false));
}

// One thread disconnects an id, another destroys the program's queue pair,
// which the id knows by number alone.
TEST_F(WireThreads, OwnQueuePairsGoWhileTheyAreDisconnected) {
  uint16_t port = 0;
  const int listener = RawStream::Listen(&port);
  for (int round = 0; round < 100; ++round) {
    WireConnection* connection = side_.Connect(port, {.is_own = true});
    RawStream raw;
    ASSERT_TRUE(side_.Until([&] {
      if (!raw.ok()) raw = RawStream::Accept(listener);
      return raw.ok();
    }));
    ASSERT_TRUE(raw.Send(MpaText({.reply = true})));
    ASSERT_TRUE(side_.Until(
        [&] { return connection->Saw(RDMA_CM_EVENT_ESTABLISHED); }));
    std::atomic<bool> go{false};
    std::thread destroyer([&] {
      while (!go.load()) {
      }
      for (int i = 0; i < round % 8; ++i) std::this_thread::yield();
      EXPECT_EQ(DestroyQp(connection->qp), 0);
    });

    go.store(true);
    EXPECT_EQ(side_.api().disconnect(connection->id), 0);

    destroyer.join();
    connection->qp = nullptr;
    side_.Destroy(connection);
  }
  close(listener);
}

// Receives are posted by one thread while another fills them.
TEST_F(WireThreads, ReceivesComeWhileSendsWait) {
  MutableOptions().receive_wait = absl::Seconds(30);
  constexpr uint32_t kSends = 500;
  RawStream raw;
  WireConnection* connection = side_.Establish(&raw, false, {.post = 0});
  std::thread peer([&] {
    for (uint32_t msn = 1; msn <= kSends; ++msn) {
      raw.Send(Seal(Untagged(kSendLast, 0, 0, msn, 0, Bytes(40)), false));
    }
  });
  std::atomic<uint32_t> received{0};
  std::thread poller([&] {
    ibv_wc wc[8];
    while (received.load() < kSends) {
      const int count = ibv_poll_cq(connection->cq, 8, wc);
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      }
      if (count > 0) received.fetch_add(static_cast<uint32_t>(count));
    }
  });

  for (uint32_t posted = 0; posted < kSends;) {
    if (posted - received.load() < 4) {
      side_.PostReceive(connection, 1 + posted++);
    } else {
      std::this_thread::yield();
    }
  }

  poller.join();
  peer.join();
  side_.Destroy(connection);
}

}  // namespace
}  // namespace sluice::iwarp
