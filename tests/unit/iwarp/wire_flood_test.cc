// Peers that connect and vanish, in whatever state: afterwards the process has
// the descriptors and the memory that it had before.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/allocated_bytes.h"
#include "tests/support/raw_stream.h"
#include "tests/unit/iwarp/wire_side.h"
#include "transport/iwarp/options.h"

namespace sluice::iwarp {
namespace {

// What tables and queues may keep for the next time.
constexpr size_t kKeptBytes = 128 * 1024;

int DescriptorCount() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

Bytes First(const Bytes& bytes, size_t count) {
  return Bytes(bytes.begin(),
               bytes.begin() + static_cast<std::ptrdiff_t>(count));
}

class Flood : public testing::Test {
 protected:
  static constexpr int kStates = 12;

  Flood() { MutableOptions().receive_wait = absl::ZeroDuration(); }
  ~Flood() override { MutableOptions() = Options(); }

  // Vanishes before there is a request: everything is the provider's.
  void VanishEarly(int state) {
    RawStream raw = RawStream::Connect(side_.port());
    const Bytes text = MpaText({.data = Bytes(20)});
    switch (state) {
      case 0:
        break;
      case 1:
        raw.Reset();
        return;
      case 2:
        raw.Send(First(text, 10));
        break;
      case 3:
        raw.Send(First(text, 30));
        side_.Advance();
        raw.Reset();
        return;
      case 4:
        raw.Send(ToBytes("GET / HTTP/1.0\r\n\r\n"));
        break;
      default:
        raw.Send(MpaText({.more_flags = 0x80}));
        break;
    }
    if (state % 2 == 0) side_.Advance();
  }

  // Vanishes as the request is answered, or with a connection.
  void VanishLate(int state) {
    RawStream raw;
    if (state == 6 || state == 7) {
      raw = RawStream::Connect(side_.port());
      ASSERT_TRUE(raw.Send(MpaText({.data = Bytes(20)})));
      ASSERT_TRUE(side_.Until([this] { return side_.request_count() > 0; }));
      raw.Reset();
      if (state == 6) {
        rdma_cm_id* id = side_.NextRequest();
        side_.api().reject(id, nullptr, 0);
        side_.api().destroy_id(id);
        return;
      }
      WireConnection* connection = side_.NewConnection(side_.NextRequest(), {});
      side_.TryAccept(connection, {}, {});
      side_.Destroy(connection);
      return;
    }
    WireConnection* connection = side_.Establish(&raw, state % 2 == 0);
    const Bytes send =
        Seal(Untagged(kSendLast, 0, 0, 1, 0, Bytes(8)), state % 2 == 0);
    switch (state) {
      case 8:
        raw.Reset();
        break;
      case 9:
        raw.Send(First(send, 21));
        raw.Close();
        break;
      case 10:
        raw.Send(send + Bytes(64, std::byte{0xff}));
        break;
      default:
        raw.Send(send);
        side_.Advance();
        side_.Destroy(connection);
        return;
    }
    EXPECT_TRUE(side_.Until(
        [&] { return connection->Saw(RDMA_CM_EVENT_DISCONNECTED); }));
    EXPECT_TRUE(connection->IsDrained());
    side_.Destroy(connection);
  }

  void Connect(int count) {
    for (int i = 0; i < count; ++i) {
      const int state = i % kStates;
      if (state < 6) {
        VanishEarly(state);
      } else {
        VanishLate(state);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    // Once more in order: what came before it has been taken, too.
    RawStream raw;
    side_.Destroy(side_.Establish(&raw, false));
  }

  void Run(int count) {
    Connect(10 * kStates);
    const int descriptors = DescriptorCount();
    const size_t bytes = AllocatedBytes();

    Connect(count);

    EXPECT_EQ(DescriptorCount(), descriptors);
    EXPECT_LT(AllocatedBytes(), bytes + kKeptBytes);
    EXPECT_TRUE(side_.AreGuardsIntact());
  }

  WireSide side_;
};

TEST_F(Flood, AThousandConnectsLeaveNothing) { Run(1000); }

// For tools/check --full.
TEST_F(Flood, DISABLED_TenThousandConnectsLeaveNothing) { Run(10000); }

// All at a time, and none says anything.
TEST_F(Flood, ConnectsAtATimeLeaveNothing) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const int count =
      static_cast<int>(std::min<rlim_t>(2000, (limit.rlim_cur - 100) / 3));
  Connect(kStates);
  const int descriptors = DescriptorCount();
  {
    std::vector<RawStream> raws;
    for (int i = 0; i < count; ++i) {
      raws.push_back(RawStream::Connect(side_.port()));
      if (i % 20 == 0) side_.Advance();
    }
    Connect(kStates);
  }
  EXPECT_TRUE(
      side_.Until([descriptors] { return DescriptorCount() == descriptors; }));
}

}  // namespace
}  // namespace sluice::iwarp
