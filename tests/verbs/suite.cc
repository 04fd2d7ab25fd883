#include "tests/verbs/suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tests/verbs/differences.h"

namespace sluice::verbs {
namespace {

SuiteDevice& MutableDevice() {
  static SuiteDevice device;
  return device;
}

DeviceKind KindOf(const std::string& name) {
  if (Flags().provider == "iwarp") return DeviceKind::kIwarp;
  if (absl::StartsWith(name, "siw")) return DeviceKind::kSiw;
  return absl::StartsWith(name, "rxe") ? DeviceKind::kRxe : DeviceKind::kOther;
}

// libsiw cannot use the queue that lies at one offset of the process's maps.
// The first CQ of all covers it, until the process ends.
void CoverBadOffset(ibv_context* context) {
  constexpr int kCoverEntries = 32768;  // of 32 bytes each: 1 MiB
  if (Api().create_cq(context, kCoverEntries, nullptr, nullptr, 0) == nullptr) {
    std::perror("verbs_test: no completion queue of 32768 entries");
  }
}

std::string TestName() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(info->test_suite_name(), ".", info->name());
}

bool Names(const char* pattern, const std::string& test) {
  const absl::string_view all(pattern);
  if (!absl::EndsWith(all, "*")) return test == all;
  return absl::StartsWith(test, all.substr(0, all.size() - 1));
}

const Difference* FindRow(const std::string& what, const std::string& answer) {
  const std::string test = TestName();
  for (const Difference& row : kDifferences) {
    if (row.device != Device().kind || !Names(row.test, test)) continue;
    if (answer != row.answer) continue;
    if (row.what[0] == '\0' || what == row.what) return &row;
  }
  return nullptr;
}

}  // namespace

SuiteFlags& Flags() {
  static SuiteFlags flags;
  return flags;
}

const VerbsApi& Api() {
  return Flags().provider == "iwarp" ? VerbsApi::Iwarp() : VerbsApi::System();
}

bool FindDevice() {
  SuiteDevice& device = MutableDevice();
  rdma_event_channel* channel = Api().create_event_channel();
  rdma_cm_id* id = nullptr;
  sockaddr_storage address = Address(0);
  if (channel == nullptr ||
      Api().create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0 ||
      Api().bind_addr(id, Raw(&address)) != 0 || id->verbs == nullptr) {
    std::fprintf(stderr, "verbs_test: no device at %s: %s\n",
                 Flags().address.c_str(), std::strerror(errno));
    return false;
  }
  // Contexts of the connection manager live as long as the process.
  device.context = id->verbs;
  Api().destroy_id(id);
  Api().destroy_event_channel(channel);
  device.name = Api().get_device_name(device.context->device);
  device.kind = KindOf(device.name);
  if (device.kind == DeviceKind::kSiw) CoverBadOffset(device.context);
  return Api().query_device(device.context, &device.attr) == 0;
}

const SuiteDevice& Device() { return MutableDevice(); }

sockaddr_storage AddressOf(const std::string& text, uint16_t port) {
  sockaddr_storage storage = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
  }
  return storage;
}

sockaddr_storage Address(uint16_t port) {
  return AddressOf(Flags().address, port);
}

void SetNonblocking(int fd) {
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

bool IsReadable(int fd, absl::Duration wait) {
  pollfd readable = {fd, POLLIN, 0};
  const auto wait_ms = static_cast<int>(absl::ToInt64Milliseconds(wait));
  return poll(&readable, 1, wait_ms) == 1;
}

std::string StatusName(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "SUCCESS";
    case IBV_WC_LOC_LEN_ERR:
      return "LOC_LEN_ERR";
    case IBV_WC_LOC_QP_OP_ERR:
      return "LOC_QP_OP_ERR";
    case IBV_WC_LOC_PROT_ERR:
      return "LOC_PROT_ERR";
    case IBV_WC_WR_FLUSH_ERR:
      return "WR_FLUSH_ERR";
    case IBV_WC_REM_INV_REQ_ERR:
      return "REM_INV_REQ_ERR";
    case IBV_WC_REM_ACCESS_ERR:
      return "REM_ACCESS_ERR";
    case IBV_WC_REM_OP_ERR:
      return "REM_OP_ERR";
    default:
      return absl::StrCat("status ", static_cast<int>(status));
  }
}

std::string ErrnoName(int error) {
  const char* name = strerrorname_np(error);
  return name == nullptr ? absl::StrCat(error) : name;
}

void Verbs::SetUp() {
  const Difference* row = FindRow("", kSpared);
  if (row != nullptr) GTEST_SKIP() << row->reason;
}

bool Verbs::Spared(const std::string& what) {
  const Difference* row = FindRow(what, kSpared);
  if (row != nullptr) {
    RecordProperty(absl::StrCat("difference_", what), row->reason);
  }
  return row != nullptr;
}

void Verbs::Check(const std::string& what, const std::string& answer,
                  const std::vector<std::string>& right) {
  if (std::find(right.begin(), right.end(), answer) != right.end()) return;
  const Difference* row = FindRow(what, answer);
  if (row != nullptr) {
    RecordProperty(absl::StrCat("difference_", what), row->reason);
    return;
  }
  ADD_FAILURE() << what << ": " << answer << ", not "
                << absl::StrJoin(right, " or ");
}

}  // namespace sluice::verbs
