#include "nvme/private_data.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::nvme {
namespace {

constexpr ConnectRequestLimits kLimits{
    .qid_max = 8, .admin_depth_max = 32, .io_depth_max = 128};

// What Linux 6.12 sends for an I/O queue of depth 128.
const ConnectRequest kIoRequest{
    .qid = 3, .hrqsize = 128, .hsqsize = 127, .cntlid = 0x1234};

TEST(ConnectRequest, IsThirtyTwoGoldenBytes) {
  const auto bytes = EncodeConnectRequest(kIoRequest);

  const uint8_t golden[] = {0, 0, 3, 0, 128, 0, 127, 0, 0x34, 0x12};
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(bytes[i], std::byte{i < 10 ? golden[i] : uint8_t{0}}) << i;
  }
}

TEST(ConnectRequest, DecodesPaddedData) {
  const auto bytes = EncodeConnectRequest(kIoRequest);
  std::vector<std::byte> padded(56);  // IB and RoCE
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  ConnectRequest request;

  EXPECT_EQ(DecodeConnectRequest(padded, kLimits, &request),
            RejectReason::kNone);

  EXPECT_EQ(request.qid, 3);
  EXPECT_EQ(request.hrqsize, 128);
  EXPECT_EQ(request.queue_depth(), 128u);
  EXPECT_EQ(request.cntlid, 0x1234);
  EXPECT_FALSE(request.is_admin());
}

struct RequestCase {
  std::string name;
  ConnectRequest request;
  RejectReason expected;
};

TEST(ConnectRequest, RejectsInTheOrderOfTheTable) {
  const RequestCase cases[] = {
      {"admin", {.hrqsize = 32, .hsqsize = 31}, RejectReason::kNone},
      {"smallest", {.qid = 8, .hrqsize = 1, .hsqsize = 1}, RejectReason::kNone},
      {"largest",
       {.qid = 1, .hrqsize = 1, .hsqsize = 127},
       RejectReason::kNone},
      {"all wrong",
       {.record_format = 1, .qid = 9},
       RejectReason::kInvalidRecordFormat},
      {"qid", {.qid = 9}, RejectReason::kInvalidQid},
      {"qid",
       {.qid = 0xFFFF, .hrqsize = 1, .hsqsize = 1},
       RejectReason::kInvalidQid},
      {"one entry", {.qid = 1, .hrqsize = 1}, RejectReason::kInvalidHsqsize},
      {"admin too deep",
       {.hrqsize = 33, .hsqsize = 32},
       RejectReason::kInvalidHsqsize},
      {"io too deep",
       {.qid = 1, .hrqsize = 1, .hsqsize = 128},
       RejectReason::kInvalidHsqsize},
      {"deepest",
       {.qid = 1, .hrqsize = 1, .hsqsize = 0xFFFF},
       RejectReason::kInvalidHsqsize},
      {"no receives",
       {.qid = 1, .hsqsize = 127},
       RejectReason::kInvalidHrqsize},
  };
  for (const RequestCase& c : cases) {
    ConnectRequest request;
    EXPECT_EQ(DecodeConnectRequest(EncodeConnectRequest(c.request), kLimits,
                                   &request),
              c.expected)
        << c.name;
    EXPECT_EQ(request.qid, c.request.qid) << c.name;
  }
}

TEST(ConnectRequest, RejectsShortData) {
  const auto bytes = EncodeConnectRequest(kIoRequest);
  for (const size_t size : {0u, 1u, 10u, 31u}) {
    ConnectRequest request;
    EXPECT_EQ(DecodeConnectRequest(absl::MakeConstSpan(bytes).first(size),
                                   kLimits, &request),
              RejectReason::kInvalidPrivateDataLength);
    EXPECT_EQ(request.hsqsize, 0);
  }
}

TEST(ConnectAccept, RoundTrips) {
  const auto bytes = EncodeConnectAccept({.crqsize = 0x0180});
  EXPECT_EQ(bytes[2], std::byte{0x80});
  EXPECT_EQ(bytes[3], std::byte{0x01});

  ConnectAccept accept;
  EXPECT_TRUE(DecodeConnectAccept(bytes, &accept));
  EXPECT_EQ(accept.crqsize, 0x0180);
  EXPECT_FALSE(
      DecodeConnectAccept(absl::MakeConstSpan(bytes).first(31), &accept));
}

TEST(ConnectReject, RoundTrips) {
  const auto bytes =
      EncodeConnectReject({.reason = RejectReason::kNoResources});
  EXPECT_EQ(bytes[2], std::byte{6});

  ConnectReject reject;
  EXPECT_TRUE(DecodeConnectReject(bytes, &reject));
  EXPECT_EQ(reject.reason, RejectReason::kNoResources);
  EXPECT_STREQ(RejectReasonName(reject.reason), "no resources");
  EXPECT_FALSE(
      DecodeConnectReject(absl::MakeConstSpan(bytes).first(3), &reject));
  EXPECT_STREQ(RejectReasonName(static_cast<RejectReason>(77)),
               "unknown reason");
}

}  // namespace
}  // namespace sluice::nvme
