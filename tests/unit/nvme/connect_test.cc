#include "nvme/connect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace sluice::nvme {
namespace {

Nqn MakeNqn(absl::string_view text) {
  Nqn nqn;
  EXPECT_TRUE(Nqn::FromText(text, &nqn));
  return nqn;
}

ConnectData AdminData() {
  ConnectData data;
  for (size_t i = 0; i < data.hostid.size(); ++i) {
    data.hostid[i] = std::byte(0xA0 + i);
  }
  data.subnqn = MakeNqn("nqn.2026-01.io.sluice:disk");
  data.hostnqn = MakeNqn("nqn.2014-08.org.nvmexpress:uuid:0");
  return data;
}

TEST(ConnectCommand, IsSixtyFourGoldenBytes) {
  Sqe sqe;
  sqe.cid = 0x1001;
  EncodeConnectCommand({.qid = 2,
                        .sqsize = 0x7F,
                        .cattr = kCattrDisableFlowControl,
                        .kato_ms = 5000,
                        .nvmsetid = 0x0506},
                       &sqe);
  std::array<std::byte, kSqeBytes> bytes;
  WriteSqe(sqe, absl::MakeSpan(bytes));

  const uint8_t golden[kSqeBytes] = {
      0x7F, 0x40, 0x01, 0x10, 0x01, 0, 0, 0,    0, 0, 0, 0, 0,    0, 0, 0,
      0,    0,    0,    0,    0,    0, 0, 0,    0, 0, 0, 0, 0,    0, 0, 0,
      0,    0,    0,    0,    0,    0, 0, 0x40, 0, 0, 2, 0, 0x7F, 0, 4, 0,
      0x88, 0x13, 0,    0,    6,    5, 0, 0,    0, 0, 0, 0, 0,    0, 0, 0};
  for (size_t i = 0; i < kSqeBytes; ++i) {
    EXPECT_EQ(bytes[i], std::byte{golden[i]}) << i;
  }
  const ConnectCommand decoded = DecodeConnectCommand(ReadSqe(bytes));
  EXPECT_EQ(decoded.qid, 2);
  EXPECT_EQ(decoded.queue_depth(), 128u);
  EXPECT_EQ(decoded.cattr, kCattrDisableFlowControl);
  EXPECT_EQ(decoded.kato_ms, 5000u);
  EXPECT_EQ(decoded.nvmsetid, 0x0506);
}

TEST(ConnectData, PutsFieldsAtTheirOffsets) {
  const auto bytes = EncodeConnectData(AdminData());

  EXPECT_EQ(bytes[0], std::byte{0xA0});
  EXPECT_EQ(bytes[15], std::byte{0xAF});
  EXPECT_EQ(bytes[16], std::byte{0xFF});
  EXPECT_EQ(bytes[17], std::byte{0xFF});
  EXPECT_EQ(std::memcmp(bytes.data() + 256, "nqn.2026-01.io.sluice:disk", 27),
            0);
  EXPECT_EQ(
      std::memcmp(bytes.data() + 512, "nqn.2014-08.org.nvmexpress:uuid:0", 34),
      0);
  EXPECT_TRUE(std::all_of(bytes.begin() + 18, bytes.begin() + 256,
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(std::all_of(bytes.begin() + 768, bytes.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(ConnectData, RoundTrips) {
  const ConnectData sent = AdminData();
  ConnectData data;

  const ConnectOutcome outcome =
      DecodeConnectData(EncodeConnectData(sent), /*is_admin=*/true, &data);

  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(data.hostid, sent.hostid);
  EXPECT_EQ(data.cntlid, kCntlidDynamic);
  EXPECT_EQ(data.subnqn, sent.subnqn);
  EXPECT_EQ(data.hostnqn, sent.hostnqn);
}

struct DataCase {
  std::string name;
  size_t offset;
  size_t count;
  uint8_t fill;
  bool is_admin;
  Status status;
  uint32_t dw0;
};

TEST(ConnectData, BlamesTheBadField) {
  const Status invalid = kConnectInvalidParameters.WithDnr();
  const DataCase cases[] = {
      {"good", 18, 200, 0xEE, true, kSuccess, 0},
      {"no subnqn", 256, 256, 0, true, invalid, 0x10100},
      {"subnqn without NUL", 256, 256, 'x', true, invalid, 0x10100},
      {"subnqn of 224", 256, 224, 'x', true, invalid, 0x10100},
      {"subnqn of 223", 256, 223, 'x', true, kSuccess, 0},
      {"no hostnqn", 512, 256, 0, true, invalid, 0x10200},
      {"hostnqn without NUL", 512, 256, 'x', true, invalid, 0x10200},
      {"static model", 16, 1, 0xFE, true, invalid, 0x10010},
      {"admin with an id", 16, 2, 0, true, invalid, 0x10010},
      {"io with an id", 16, 2, 1, false, kSuccess, 0},
  };
  for (const DataCase& c : cases) {
    auto bytes = EncodeConnectData(AdminData());
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(c.offset), c.count,
                std::byte{c.fill});
    ConnectData data;

    const ConnectOutcome outcome = DecodeConnectData(bytes, c.is_admin, &data);

    EXPECT_EQ(outcome.status, c.status) << c.name;
    EXPECT_EQ(outcome.dw0, c.dw0) << c.name;
  }
}

TEST(ConnectData, RefusesShortData) {
  const auto bytes = EncodeConnectData(AdminData());
  ConnectData data;

  const ConnectOutcome outcome = DecodeConnectData(
      absl::MakeConstSpan(bytes).first(1023), /*is_admin=*/true, &data);

  EXPECT_EQ(outcome.status, kDataSglLengthInvalid.WithDnr());
  EXPECT_EQ(outcome.dw0, 0u);
}

struct CommandCase {
  std::string name;
  ConnectCommand command;
  Status status;
  uint32_t dw0;
};

TEST(CheckConnectCommand, BindsTheCommandToTheRequest) {
  const Status invalid = kConnectInvalidParameters.WithDnr();
  const CommandCase cases[] = {
      {"good", {.qid = 2, .sqsize = 127}, kSuccess, 0},
      {"smaller", {.qid = 2, .sqsize = 1}, kSuccess, 0},
      {"format",
       {.record_format = 1, .qid = 3},
       kConnectIncompatibleFormat.WithDnr(),
       40},
      {"qid", {.qid = 3, .sqsize = 127}, invalid, 42},
      {"no queue", {.qid = 2, .sqsize = 0}, invalid, 44},
      {"too deep", {.qid = 2, .sqsize = 128}, invalid, 44},
  };
  for (const CommandCase& c : cases) {
    const ConnectOutcome outcome = CheckConnectCommand(c.command, 2, 127);
    EXPECT_EQ(outcome.status, c.status) << c.name;
    EXPECT_EQ(outcome.dw0, c.dw0) << c.name;
  }
}

TEST(ConnectResponse, CarriesTheControllerId) {
  EXPECT_EQ(ConnectAccepted(0x0042, false).dw0, 0x00000042u);
  EXPECT_EQ(ConnectAccepted(0x0042, true).dw0, 0x00020042u);
  EXPECT_TRUE(ConnectAccepted(1, true).ok());

  const ConnectResponse response = DecodeConnectResponse(0x00020042);
  EXPECT_EQ(response.cntlid, 0x42);
  EXPECT_TRUE(response.authentication_required);
  EXPECT_FALSE(response.secure_channel_required);
  EXPECT_TRUE(DecodeConnectResponse(0x00040042).secure_channel_required);
}

TEST(ConnectError, TellsDataFromSqe) {
  EXPECT_TRUE(DecodeConnectError(0x10100).in_data);
  EXPECT_EQ(DecodeConnectError(0x10100).offset_bytes, 256);
  EXPECT_FALSE(DecodeConnectError(44).in_data);
}

TEST(Disconnect, ChecksItsFormat) {
  Sqe sqe;
  EncodeDisconnect(0, &sqe);
  EXPECT_EQ(sqe.fctype(), 0x08);
  EXPECT_EQ(DecodeDisconnect(sqe), kSuccess);

  EncodeDisconnect(7, &sqe);
  EXPECT_EQ(DecodeDisconnect(sqe), kConnectIncompatibleFormat.WithDnr());
}

}  // namespace
}  // namespace sluice::nvme
