// The request to the connection manager, each field wrong in turn, and the
// reject codes of [spec §1.4, §1.7].
#include <algorithm>
#include <functional>

#include "tests/conformance/conformance.h"

namespace sluice::conformance {
namespace {

class ConnectRequest : public Conformance {
 protected:
  // What a request gets. The queue pair is gone when it returns.
  std::string Try(const RawQueueOptions& options) {
    auto queue = RawQueue::Open(host(), options);
    if (!queue.ok()) return queue.status().ToString();
    is_iwarp_ = (*queue)->connection().is_iwarp();
    return (*queue)->connection().Connect().text();
  }

  // A right admin request, of so many bytes.
  std::string TryLength(size_t length_bytes) {
    RawQueueOptions options = RawQueueOptions::Admin();
    const auto bytes = nvme::EncodeConnectRequest(options.request);
    options.private_data.assign(bytes.begin(), bytes.end());
    options.private_data.resize(length_bytes);
    options.sends_private_data = true;
    return Try(options);
  }

  std::string TryAdmin(std::function<void(nvme::ConnectRequest*)> spoil) {
    RawQueueOptions options = RawQueueOptions::Admin();
    spoil(&options.request);
    return Try(options);
  }

  // A right request for queue 1 of a controller, then spoiled.
  std::string TryIo(std::function<void(nvme::ConnectRequest*)> spoil) {
    const auto controller = Enabled();
    if (controller == nullptr) return "no controller";
    RawQueueOptions options = RawQueueOptions::Io(1, 16, controller->cntlid());
    spoil(&options.request);
    return Try(options);
  }

  bool is_iwarp_ = false;  // of the last connection
};

TEST_F(ConnectRequest, LengthZero) {
  const std::string answer = TryLength(0);
  // RoCE pads it with zeroes, which are a request with HSQSIZE 0.
  if (is_iwarp_) {
    Check("iwarp", answer, {"rejected 1"});
  } else {
    Check("roce", answer, {"rejected 1", "rejected 4", "rejected 5"});
  }
}

TEST_F(ConnectRequest, Length4) {
  const std::string answer = TryLength(4);
  if (is_iwarp_) {
    Check("iwarp", answer, {"rejected 1"});
  } else {
    Check("roce", answer, {"rejected 1", "rejected 4", "rejected 5"});
  }
}

TEST_F(ConnectRequest, Length31) {
  const std::string answer = TryLength(31);
  if (is_iwarp_) {
    Check("iwarp", answer, {"rejected 1"});
  } else {
    Check("roce", answer, {"rejected 1", "established"});  // padded: right
  }
}

TEST_F(ConnectRequest, Length32) { Check("", TryLength(32), {"established"}); }
TEST_F(ConnectRequest, Length33) { Check("", TryLength(33), {"established"}); }
TEST_F(ConnectRequest, Length56) { Check("", TryLength(56), {"established"}); }

TEST_F(ConnectRequest, RecordFormat) {
  for (const int recfmt : {1, 0x100, 0xFFFF}) {
    Check(absl::StrCat(recfmt), TryAdmin([recfmt](auto* request) {
            request->record_format = static_cast<uint16_t>(recfmt);
          }),
          {"rejected 2"});
  }
}

TEST_F(ConnectRequest, RecordFormatComesBeforeSizes) {
  Check("", TryAdmin([](auto* request) {
          request->record_format = 1;
          request->hsqsize = 0;
          request->hrqsize = 0;
        }),
        {"rejected 2"});
}

TEST_F(ConnectRequest, QidTooLarge) {
  Check("", TryIo([](auto* request) { request->qid = 0xFFFF; }),
        {"rejected 3"});
}

TEST_F(ConnectRequest, HsqsizeZero) {
  Check("admin", TryAdmin([](auto* request) { request->hsqsize = 0; }),
        {"rejected 4"});
  Check("io", TryIo([](auto* request) { request->hsqsize = 0; }),
        {"rejected 4"});
}

TEST_F(ConnectRequest, HsqsizeTooLarge) {
  Check("admin", TryAdmin([](auto* request) { request->hsqsize = 0xFFFF; }),
        {"rejected 4"});
  const uint32_t depth = limits().io_depth_max + 1;
  Check("io",
        TryIo([depth](auto* request) { request->set_queue_depth(depth); }),
        {"rejected 4"});
  if (Spared("io FFFFh")) return;
  Check("io FFFFh", TryIo([](auto* request) { request->hsqsize = 0xFFFF; }),
        {"rejected 4"});
}

TEST_F(ConnectRequest, HrqsizeZero) {
  Check("admin", TryAdmin([](auto* request) { request->hrqsize = 0; }),
        {"rejected 5"});
  Check("io", TryIo([](auto* request) { request->hrqsize = 0; }),
        {"rejected 5"});
}

TEST_F(ConnectRequest, HrqsizeSmallerThanDepth) {
  // Right: the target then keeps no more responses unsent than that.
  Check("", TryIo([](auto* request) { request->hrqsize = 1; }),
        {"established"});
}

TEST_F(ConnectRequest, CntlidUnknown) {
  Check("", TryIo([](auto* request) { request->cntlid = 0xFFEF; }),
        {"rejected 9"});
}

TEST_F(ConnectRequest, CntlidZeroIsNotYetKnown) {
  Check("", TryIo([](auto* request) { request->cntlid = 0; }), {"established"});
}

TEST_F(ConnectRequest, NoReadDepth) {
  RawQueueOptions options = RawQueueOptions::Admin();
  options.responder_resources = 0;
  Check("", Try(options), {"rejected 7"});
}

TEST_F(ConnectRequest, ReadDepthOne) {
  RawQueueOptions options = RawQueueOptions::Admin();
  options.responder_resources = 1;
  Check("", Try(options), {"established"});
}

TEST_F(ConnectRequest, ReservedBytesAreIgnored) {
  RawQueueOptions options = RawQueueOptions::Admin();
  const auto bytes = nvme::EncodeConnectRequest(options.request);
  options.private_data.assign(bytes.begin(), bytes.end());
  options.sends_private_data = true;
  std::fill(options.private_data.begin() + 10, options.private_data.end(),
            std::byte{0xFF});
  Check("", Try(options), {"established"});
}

TEST_F(ConnectRequest, AcceptCarriesSizes) {
  auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
  ASSERT_TRUE(queue.ok()) << queue.status();
  const ConnectAnswer answer = (*queue)->connection().Connect();
  ASSERT_TRUE(answer.established()) << answer.text();

  nvme::ConnectAccept accept;
  ASSERT_TRUE(nvme::DecodeConnectAccept(answer.private_data, &accept));
  EXPECT_EQ(accept.record_format, 0);
  // A plain count [spec §1.3].
  EXPECT_GE(accept.crqsize, nvme::kAdminDepthMin);
  EXPECT_GE(answer.read_depth, 1);
}

}  // namespace
}  // namespace sluice::conformance
