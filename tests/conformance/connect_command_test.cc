// The Connect command and its data, each field wrong in turn, with the status
// and the place to blame (IPO, IATTR) of [spec §3.1, §3.2].
#include <algorithm>
#include <cstring>
#include <functional>

#include "nvme/wire.h"
#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

class ConnectCommand : public Conformance {
 protected:
  using Spoil = std::function<void(RawConnect*)>;

  // The answer to a Connect on a connection of its own, right but for `spoil`.
  std::string Try(const RawQueueOptions& options, uint16_t cntlid,
                  const Spoil& spoil) {
    auto queue = RawQueue::Open(host(), options);
    if (!queue.ok()) return queue.status().ToString();
    const ConnectAnswer answer = (*queue)->connection().Connect();
    if (!answer.established()) return answer.text();
    RawConnect connect = RawConnect::For(host(), options.request, cntlid);
    spoil(&connect);
    return ConnectText((*queue)->Connect(connect));
  }

  std::string TryAdmin(const Spoil& spoil) {
    return Try(RawQueueOptions::Admin(), nvme::kCntlidDynamic, spoil);
  }

  // For queue 1 of an enabled controller, which goes when the answer is there.
  std::string TryIo(const Spoil& spoil, uint32_t depth = 16) {
    const auto controller = Enabled();
    if (controller == nullptr) return "no controller";
    RawQueueOptions options =
        RawQueueOptions::Io(1, depth, controller->cntlid());
    options.in_capsule_bytes = nvme::kConnectDataBytes;
    return Try(options, controller->cntlid(), spoil);
  }

  static void FillField(RawConnect* connect, size_t offset, size_t count,
                        char letter) {
    std::memset(connect->data.data() + offset, 0, nvme::kNqnFieldBytes);
    std::memset(connect->data.data() + offset, letter, count);
  }
  static void SetText(RawConnect* connect, size_t offset,
                      const std::string& text) {
    std::memset(connect->data.data() + offset, 0, nvme::kNqnFieldBytes);
    std::memcpy(connect->data.data() + offset, text.data(), text.size());
  }
  static void SetCntlid(RawConnect* connect, uint16_t cntlid) {
    nvme::Store16(absl::MakeSpan(connect->data), nvme::kConnectDataCntlidOffset,
                  cntlid);
  }
};

constexpr const char* kBadQid = "0x182|DNR at 42/SQE";
constexpr const char* kBadSqsize = "0x182|DNR at 44/SQE";
constexpr const char* kBadCntlid = "0x182|DNR at 16/data";
constexpr const char* kBadSubnqn = "0x182|DNR at 256/data";
constexpr const char* kBadHostnqn = "0x182|DNR at 512/data";

TEST_F(ConnectCommand, AnswersCntlid) {
  auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  const auto response = (*queue)->Connect(RawConnect::For(
      host(), (*queue)->options().request, nvme::kCntlidDynamic));

  ASSERT_EQ(Text(response), "0x000");
  EXPECT_GE(response->cqe.dw0(), nvme::kCntlidMin);
  EXPECT_LE(response->cqe.dw0(), nvme::kCntlidMax);  // ATR and ASCR are 0
  EXPECT_NE(response->cqe.sqhd, 0xFFFF);  // nobody asked to disable it
  EXPECT_EQ(response->cqe.status_wire & 1, 0) << "the phase bit";
}

TEST_F(ConnectCommand, TwoControllersHaveTwoIds) {
  const auto one = Connected();
  const auto other = Connected();
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(one->cntlid(), other->cntlid());
}

TEST_F(ConnectCommand, RecordFormat) {
  Check("", TryAdmin([](RawConnect* connect) {
          connect->command.record_format = 1;
        }),
        {"0x180|DNR"});
}

TEST_F(ConnectCommand, AdminQidOfAnotherQueue) {
  Check("", TryAdmin([](RawConnect* connect) { connect->command.qid = 1; }),
        {kBadQid});
}

TEST_F(ConnectCommand, AdminSqsize) {
  Check("zero",
        TryAdmin([](RawConnect* connect) { connect->command.sqsize = 0; }),
        {kBadSqsize});
  Check("beyond the request",
        TryAdmin([](RawConnect* connect) { ++connect->command.sqsize; }),
        {kBadSqsize});
  Check("FFFFh",
        TryAdmin([](RawConnect* connect) { connect->command.sqsize = 0xFFFF; }),
        {kBadSqsize});
}

TEST_F(ConnectCommand, ShortData) {
  for (const uint32_t bytes : {0u, 16u, 512u, 1023u}) {
    Check(absl::StrCat(bytes), TryAdmin([bytes](RawConnect* connect) {
            connect->sgl_bytes = bytes;
          }),
          {"0x00F|DNR"});
  }
}

TEST_F(ConnectCommand, LongData) {
  Check("", TryAdmin([](RawConnect* connect) {
          connect->data.resize(2048);
          connect->sgl_bytes = 2048;
        }),
        {"0x000"});
}

TEST_F(ConnectCommand, Subnqn) {
  constexpr size_t kAt = nvme::kConnectDataSubnqnOffset;
  Check("unknown", TryAdmin([](RawConnect* connect) {
          SetText(connect, kAt, "nqn.2014-08.org.example:absent");
        }),
        {kBadSubnqn});
  Check("empty",
        TryAdmin([](RawConnect* connect) { FillField(connect, kAt, 0, 0); }),
        {kBadSubnqn});
  Check("224 letters", TryAdmin([](RawConnect* connect) {
          FillField(connect, kAt, 224, 'n');
        }),
        {kBadSubnqn});
  Check("no NUL", TryAdmin([](RawConnect* connect) {
          FillField(connect, kAt, 256, 'n');
        }),
        {kBadSubnqn});
  Check("one letter more", TryAdmin([this](RawConnect* connect) {
          SetText(connect, kAt, host().subnqn + "x");
        }),
        {kBadSubnqn});
}

TEST_F(ConnectCommand, Hostnqn) {
  constexpr size_t kAt = nvme::kConnectDataHostnqnOffset;
  Check("empty",
        TryAdmin([](RawConnect* connect) { FillField(connect, kAt, 0, 0); }),
        {kBadHostnqn});
  Check("224 letters", TryAdmin([](RawConnect* connect) {
          FillField(connect, kAt, 224, 'h');
        }),
        {kBadHostnqn});
  Check("no NUL", TryAdmin([](RawConnect* connect) {
          FillField(connect, kAt, 256, 'h');
        }),
        {kBadHostnqn});
  Check("223 letters", TryAdmin([](RawConnect* connect) {
          FillField(connect, kAt, 223, 'h');
        }),
        {"0x000"});
}

TEST_F(ConnectCommand, AdminCntlid) {
  for (const int cntlid : {0, 1, 0xFFEF, 0xFFFE}) {
    Check(absl::StrCat(cntlid), TryAdmin([cntlid](RawConnect* connect) {
            SetCntlid(connect, static_cast<uint16_t>(cntlid));
          }),
          {kBadCntlid});
  }
}

TEST_F(ConnectCommand, KatoOfAnyLength) {
  for (const uint32_t kato_ms : {0u, 1u, 5000u, 0xFFFFFFFFu}) {
    Check(absl::StrCat(kato_ms), TryAdmin([kato_ms](RawConnect* connect) {
            connect->command.kato_ms = kato_ms;
          }),
          {"0x000"});
  }
}

TEST_F(ConnectCommand, FlowControlDisabled) {
  Check("", TryAdmin([](RawConnect* connect) {
          connect->command.cattr = nvme::kCattrDisableFlowControl;
        }),
        {"0x000"});
}

TEST_F(ConnectCommand, SecondConnect) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const auto response = controller->admin().Connect(RawConnect::For(
      host(), controller->admin().options().request, nvme::kCntlidDynamic));
  Check("admin", Text(response), {"0x00C|DNR"});

  const Io io = NewIo();
  ASSERT_TRUE(io);
  Check("io",
        Text(io.queue->Connect(RawConnect::For(
            host(), io.queue->options().request, io.controller->cntlid()))),
        {"0x00C|DNR"});
}

TEST_F(ConnectCommand, FirstCommandIsNoConnect) {
  auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  nvme::Sqe sqe;
  nvme::EncodePropertyGet({.offset_bytes = 8}, &sqe);
  Check("Property Get", Text((*queue)->First([&](absl::Duration wait) {
          return (*queue)->Execute(sqe, {}, wait);
        })),
        {"0x00C|DNR"});
  nvme::EncodeIdentify({.cns = 1}, &sqe);
  sqe.sgl = (*queue)->data().Keyed(0, 4096);
  Check("Identify", Text((*queue)->Execute(sqe)), {"0x00C|DNR"});

  // It is not too late for a right one.
  const auto connect = RawConnect::For(host(), (*queue)->options().request,
                                       nvme::kCntlidDynamic);
  Check("Connect", ConnectText((*queue)->Connect(connect)), {"0x000"});
}

TEST_F(ConnectCommand, FirstIoCommandIsNoConnect) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  auto queue =
      RawQueue::Open(host(), RawQueueOptions::Io(1, 16, controller->cntlid()));
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  const auto response = (*queue)->First([&](absl::Duration wait) {
    return (*queue)->Execute(
        (*queue)->BlockSqe(nvme::IoOpcode::kRead, limits().nsid, 0, 1,
                           limits().block_bytes),
        {}, wait);
  });
  Check("", Text(response), {"0x00C|DNR"});
}

// A host that takes its time; sluiced looks for its capsule meanwhile where a
// device may have lost it.
TEST_F(ConnectCommand, Late) {
  auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  EXPECT_FALSE((*queue)->connection().WaitEnd(absl::Milliseconds(300)));
  const auto response = (*queue)->Connect(RawConnect::For(
      host(), (*queue)->options().request, nvme::kCntlidDynamic));
  EXPECT_EQ(Text(response), "0x000");
}

TEST_F(ConnectCommand, IoRight) {
  Check("keyed", TryIo([](RawConnect*) {}), {"0x000"});
  if (limits().in_capsule_bytes < nvme::kConnectDataBytes) return;
  Check("in capsule",
        TryIo([](RawConnect* connect) { connect->in_capsule = true; }),
        {"0x000"});
}

TEST_F(ConnectCommand, IoAnswersCntlid) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  const auto options = RawQueueOptions::Io(1, 16, controller->cntlid());
  auto queue = RawQueue::Open(host(), options);
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  const auto response = (*queue)->Connect(
      RawConnect::For(host(), options.request, controller->cntlid()));
  ASSERT_EQ(Text(response), "0x000");
  EXPECT_EQ(response->cqe.dw0(), controller->cntlid());
}

TEST_F(ConnectCommand, IoCntlid) {
  for (const int cntlid : {0, 0xFFEF, 0xFFFE, 0xFFFF}) {
    Check(absl::StrCat(cntlid), TryIo([cntlid](RawConnect* connect) {
            SetCntlid(connect, static_cast<uint16_t>(cntlid));
          }),
          {kBadCntlid});
  }
}

TEST_F(ConnectCommand, IoOfAnotherHost) {
  // The field that differs, or the controller that is therefore not found.
  Check("HOSTNQN", TryIo([](RawConnect* connect) {
          SetText(connect, nvme::kConnectDataHostnqnOffset,
                  "nqn.2014-08.org.example:another-host");
        }),
        {kBadCntlid, kBadHostnqn});
  Check("HOSTID",
        TryIo([](RawConnect* connect) { connect->data[0] ^= std::byte{0xFF}; }),
        {kBadCntlid, "0x182|DNR at 0/data"});
  Check("HOSTID of zeroes", TryIo([](RawConnect* connect) {
          std::fill_n(connect->data.begin(), 16, std::byte{0});
        }),
        {"0x000"});
}

TEST_F(ConnectCommand, IoOfAnotherSubsystem) {
  Check("unknown", TryIo([](RawConnect* connect) {
          SetText(connect, nvme::kConnectDataSubnqnOffset,
                  "nqn.2014-08.org.example:absent");
        }),
        {kBadSubnqn});
  Check("discovery", TryIo([](RawConnect* connect) {
          SetText(connect, nvme::kConnectDataSubnqnOffset,
                  std::string(nvme::kDiscoveryNqn));
        }),
        {kBadCntlid, kBadQid});
}

TEST_F(ConnectCommand, IoSqsize) {
  Check("zero", TryIo([](RawConnect* connect) { connect->command.sqsize = 0; }),
        {kBadSqsize});
  Check("beyond the request",
        TryIo([](RawConnect* connect) { ++connect->command.sqsize; }),
        {kBadSqsize});
  Check("beyond MQES", TryIo([this](RawConnect* connect) {
          connect->command.set_queue_depth(limits().io_depth_max + 1);
        }),
        {kBadSqsize});
  Check("less than the request",
        TryIo([](RawConnect* connect) { connect->command.sqsize = 1; }),
        {"0x000"});
}

TEST_F(ConnectCommand, IoQidOfAnotherQueue) {
  Check("admin", TryIo([](RawConnect* connect) { connect->command.qid = 0; }),
        {kBadQid});
  Check("2", TryIo([](RawConnect* connect) { connect->command.qid = 2; }),
        {kBadQid});
}

TEST_F(ConnectCommand, IoQidBeyondTheGranted) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  const auto qid = static_cast<uint16_t>(limits().io_queue_count_max + 1);
  const auto options = RawQueueOptions::Io(qid, 16, controller->cntlid());
  Check("", Try(options, controller->cntlid(), [](RawConnect*) {}),
        {kBadQid, "0x101|DNR", "rejected 3"});
}

TEST_F(ConnectCommand, IoQidTwice) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint16_t cntlid = io.controller->cntlid();
  Check("", Try(RawQueueOptions::Io(1, 16, cntlid), cntlid, [](RawConnect*) {}),
        {"0x00C|DNR", "0x101|DNR"});

  // The first one still works.
  EXPECT_EQ(Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0))),
            "0x000");
}

TEST_F(ConnectCommand, IoBeforeEnable) {
  const auto controller = Connected();
  ASSERT_NE(controller, nullptr);
  const uint16_t cntlid = controller->cntlid();
  Check("", Try(RawQueueOptions::Io(1, 16, cntlid), cntlid, [](RawConnect*) {}),
        {kBadQid});
}

TEST_F(ConnectCommand, IoKatoIsIgnored) {
  Check("",
        TryIo([](RawConnect* connect) { connect->command.kato_ms = 10000; }),
        {"0x000"});
}

TEST_F(ConnectCommand, IoInCapsuleTooLong) {
  // The descriptor claims more than the capsule has.
  Check("", TryIo([](RawConnect* connect) {
          connect->in_capsule = true;
          connect->data.resize(1024 - 16);
        }),
        {"0x016|DNR"});
}

}  // namespace
}  // namespace sluice::conformance
