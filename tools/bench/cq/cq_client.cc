#include "tools/bench/cq/cq_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "nvme/private_data.h"
#include "nvme/sqe.h"
#include "tools/bench/bench_run.h"

namespace sluice::bench {
namespace {

constexpr int kPollBatch = 32;
constexpr int kResolveMs = 5000;
constexpr uint32_t kSignalEvery = 16;
// Beyond the depth: an unsignalled SEND holds its entry for a while.
constexpr uint32_t kExtraSends = 2 * kSignalEvery;
constexpr uint32_t kCqEntries = 32768;
constexpr int64_t kStuckNanos = 30'000'000'000;
constexpr uint64_t kSendId = uint64_t{1} << 32;

absl::Status CallFailed(absl::string_view call) {
  return absl::ErrnoToStatus(errno, call);
}

}  // namespace

double PercentileUs(std::vector<uint32_t>* samples, double share) {
  if (samples->empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(
      share * static_cast<double>(samples->size() - 1));
  const auto at = samples->begin() + place;
  std::nth_element(samples->begin(), at, samples->end());
  return static_cast<double>(*at) / 1e3;
}

absl::StatusOr<std::unique_ptr<CqClient>> CqClient::Connect(
    const VerbsApi& api, const CqClientOptions& options) {
  std::unique_ptr<CqClient> client(new CqClient(api, options));
  SLUICE_RETURN_IF_ERROR(client->Open());
  return client;
}

CqClient::~CqClient() {
  for (Connection& connection : connections_) {
    if (connection.id == nullptr) continue;
    api_.disconnect(connection.id);
    if (connection.id->qp != nullptr) api_.destroy_qp(connection.id);
  }
  if (mr_ != nullptr) SLUICE_CHECK(api_.dereg_mr(mr_) == 0);
  if (cq_ != nullptr) SLUICE_CHECK(api_.destroy_cq(cq_) == 0);
  if (pd_ != nullptr) SLUICE_CHECK(api_.dealloc_pd(pd_) == 0);
  for (Connection& connection : connections_) {
    if (connection.id != nullptr) api_.destroy_id(connection.id);
  }
  if (channel_ != nullptr) api_.destroy_event_channel(channel_);
}

absl::Status CqClient::Open() {
  channel_ = api_.create_event_channel();
  if (channel_ == nullptr) return CallFailed("rdma_create_event_channel");
  const uint32_t count = options_.queue_pairs * options_.depth;
  buffer_.resize(size_t{count} * (options_.message_bytes + nvme::kCqeBytes));
  connections_.resize(options_.queue_pairs);
  slots_.resize(count);
  receives_.resize(count);
  for (uint32_t i = 0; i < options_.queue_pairs; ++i) {
    SLUICE_RETURN_IF_ERROR(OpenConnection(i));
  }
  return absl::OkStatus();
}

absl::Status CqClient::Await(rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  if (api_.get_cm_event(channel_, &event) != 0) {
    return CallFailed("rdma_get_cm_event");
  }
  const rdma_cm_event_type got = event->event;
  const int status = event->status;
  api_.ack_cm_event(event);
  if (got == type) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("connecting to ", options_.address,
                                             ":", options_.port, ": event ",
                                             got, " status ", status));
}

absl::Status CqClient::OpenConnection(uint32_t index) {
  Connection& connection = connections_[index];
  sockaddr_in at = Address(options_.address, options_.port);
  if (api_.create_id(channel_, &connection.id, nullptr, RDMA_PS_TCP) != 0) {
    return CallFailed("rdma_create_id");
  }
  if (api_.resolve_addr(connection.id, nullptr,
                        reinterpret_cast<sockaddr*>(&at), kResolveMs) != 0) {
    return CallFailed("rdma_resolve_addr");
  }
  SLUICE_RETURN_IF_ERROR(Await(RDMA_CM_EVENT_ADDR_RESOLVED));
  if (api_.resolve_route(connection.id, kResolveMs) != 0) {
    return CallFailed("rdma_resolve_route");
  }
  SLUICE_RETURN_IF_ERROR(Await(RDMA_CM_EVENT_ROUTE_RESOLVED));
  if (pd_ == nullptr) SLUICE_RETURN_IF_ERROR(MakeShared(connection.id->verbs));
  SLUICE_RETURN_IF_ERROR(MakeQueuePair(index));
  nvme::ConnectRequest request;
  request.qid = static_cast<uint16_t>(index + 1);
  request.set_queue_depth(std::max(options_.depth, 2u));
  request.hrqsize = static_cast<uint16_t>(std::max(options_.depth, 2u));
  const auto data = nvme::EncodeConnectRequest(request);
  rdma_conn_param param = {};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.responder_resources = 16;
  param.initiator_depth = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  if (api_.connect(connection.id, &param) != 0) {
    return CallFailed("rdma_connect");
  }
  return Await(RDMA_CM_EVENT_ESTABLISHED);
}

absl::Status CqClient::MakeShared(ibv_context* context) {
  pd_ = api_.alloc_pd(context);
  if (pd_ == nullptr) return CallFailed("ibv_alloc_pd");
  ibv_device_attr device = {};
  if (api_.query_device(context, &device) != 0) {
    return CallFailed("ibv_query_device");
  }
  const uint32_t entries =
      options_.queue_pairs * (2 * options_.depth + kExtraSends);
  const uint32_t most =
      std::min(kCqEntries, static_cast<uint32_t>(device.max_cqe));
  if (entries > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue pairs and depth need ", entries,
                     " completion queue entries of ", most));
  }
  // The largest: siw's library cannot use what lies behind a small first queue
  // (transport/limits.h).
  cq_ = api_.create_cq(context, static_cast<int>(most), nullptr, nullptr, 0);
  if (cq_ == nullptr) return CallFailed("ibv_create_cq");
  mr_ =
      api_.reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (mr_ == nullptr) return CallFailed("ibv_reg_mr");
  return absl::OkStatus();
}

absl::Status CqClient::MakeQueuePair(uint32_t index) {
  Connection& connection = connections_[index];
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = options_.depth + kExtraSends;
  attr.cap.max_recv_wr = options_.depth;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  if (api_.create_qp(connection.id, pd_, &attr) != 0) {
    return CallFailed("rdma_create_qp");
  }
  const size_t message = options_.message_bytes;
  const size_t answers = slots_.size() * message;
  for (uint32_t i = 0; i < options_.depth; ++i) {
    const uint32_t number = index * options_.depth + i;
    Slot& slot = slots_[number];
    nvme::Sqe sqe;
    sqe.opcode = 0x02;
    sqe.cid = static_cast<uint16_t>(number);
    nvme::WriteSqe(sqe, absl::MakeSpan(buffer_).subspan(number * message,
                                                        nvme::kSqeBytes));
    slot.sge = {reinterpret_cast<uint64_t>(&buffer_[number * message]),
                options_.message_bytes, mr_->lkey};
    slot.wr.sg_list = &slot.sge;
    slot.wr.num_sge = 1;
    slot.wr.opcode = IBV_WR_SEND;
    slot.qp_index = index;
    connection.free_slots.push_back(number);
    Receive& receive = receives_[number];
    receive.sge = {reinterpret_cast<uint64_t>(
                       &buffer_[answers + number * nvme::kCqeBytes]),
                   nvme::kCqeBytes, mr_->lkey};
    receive.wr.wr_id = number;
    receive.wr.sg_list = &receive.sge;
    receive.wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(connection.id->qp, &receive.wr, &bad) != 0) {
      return CallFailed("ibv_post_recv");
    }
  }
  return absl::OkStatus();
}

bool CqClient::Answered(const ibv_wc& wc, int64_t now_nanos,
                        CqLoadResult* result) {
  const size_t answers = slots_.size() * options_.message_bytes;
  const nvme::Cqe cqe = nvme::ReadCqe(absl::MakeConstSpan(buffer_).subspan(
      answers + wc.wr_id * nvme::kCqeBytes, nvme::kCqeBytes));
  if (wc.byte_len != nvme::kCqeBytes || cqe.cid >= slots_.size()) {
    error_ = "an answer to nothing";
    return false;
  }
  Slot& slot = slots_[cqe.cid];
  const auto latency = static_cast<uint32_t>(
      std::min<int64_t>(now_nanos - slot.due_nanos, UINT32_MAX));
  result->latency_nanos.push_back(latency);
  if (slot.first) result->after_pause_nanos.push_back(latency);
  ++result->count;
  Connection& connection = connections_[slot.qp_index];
  connection.free_slots.push_back(cqe.cid);
  --in_flight_;
  ibv_recv_wr* wr = &receives_[wc.wr_id].wr;
  wr->next = nullptr;
  (connection.last_receive != nullptr ? connection.last_receive->next
                                      : connection.first_receive) = wr;
  connection.last_receive = wr;
  return true;
}

bool CqClient::Poll(CqLoadResult* result) {
  std::array<ibv_wc, kPollBatch> wc;
  const int count = ibv_poll_cq(cq_, kPollBatch, wc.data());
  if (count < 0) error_ = "ibv_poll_cq failed";
  if (count <= 0) return count == 0;
  const int64_t now = NowNanos();
  for (int i = 0; i < count; ++i) {
    const ibv_wc& each = wc[static_cast<size_t>(i)];
    if (each.status != IBV_WC_SUCCESS) {
      error_ = absl::StrCat("a completion of status ", each.status);
      return false;
    }
    if ((each.wr_id & kSendId) != 0) continue;
    if (!Answered(each, now, result)) return false;
  }
  for (Connection& connection : connections_) {
    if (connection.first_receive == nullptr) continue;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(connection.id->qp, connection.first_receive, &bad) != 0) {
      error_ = "ibv_post_recv failed";
      return false;
    }
    connection.first_receive = connection.last_receive = nullptr;
  }
  return true;
}

bool CqClient::Send(int64_t due_nanos, bool first) {
  for (uint32_t tried = 0; tried < options_.queue_pairs; ++tried) {
    Connection& connection = connections_[next_];
    next_ = next_ + 1 == options_.queue_pairs ? 0 : next_ + 1;
    if (connection.free_slots.empty()) continue;
    Slot& slot = slots_[connection.free_slots.back()];
    connection.free_slots.pop_back();
    slot.due_nanos = due_nanos;
    slot.first = first;
    const bool signalled = ++connection.unsignalled == kSignalEvery;
    if (signalled) connection.unsignalled = 0;
    slot.wr.wr_id = kSendId;
    slot.wr.send_flags =
        signalled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
    slot.wr.next = nullptr;
    (connection.last != nullptr ? connection.last->next : connection.first) =
        &slot.wr;
    connection.last = &slot.wr;
    ++in_flight_;
    return true;
  }
  return false;
}

bool CqClient::Post() {
  for (Connection& connection : connections_) {
    if (connection.first == nullptr) continue;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(connection.id->qp, connection.first, &bad) != 0) {
      error_ = "ibv_post_send failed";
      return false;
    }
    connection.first = connection.last = nullptr;
  }
  return true;
}

int64_t CqClient::Gap(double rate) {
  std::exponential_distribution<double> gap(rate / 1e9);
  return static_cast<int64_t>(gap(random_));
}

int64_t CqClient::Pause(int64_t most) {
  std::uniform_int_distribution<int64_t> pause(0, most);
  return pause(random_);
}

absl::Status CqClient::Broken() const { return absl::UnavailableError(error_); }

absl::StatusOr<CqLoadResult> CqClient::Run(const CqLoad& load) {
  CqLoadResult result;
  const bool closed = load.kind == CqLoad::Kind::kClosed;
  const bool waves = load.kind == CqLoad::Kind::kWave;
  const double expected =
      load.seconds * (closed ? 2e6 : std::max(load.rate, 1.0)) * 1.2;
  result.latency_nanos.reserve(static_cast<size_t>(expected));
  const int64_t cpu = ThreadCpuNanos();
  const int64_t begin = NowNanos();
  const int64_t end = begin + static_cast<int64_t>(load.seconds * 1e9);
  int64_t on_until = begin + load.half_period_nanos;
  bool first = waves;
  int64_t due = load.rate > 0 && !waves ? begin + Gap(load.rate) : begin;
  int64_t now = begin;
  int64_t last_answer = begin;
  uint64_t seen = 0;
  uint64_t paced = 0;  // answers that the pause was made after
  while (now < end) {
    if (!Poll(&result)) return Broken();
    now = NowNanos();
    if (closed) {
      while (Send(now, false)) {
      }
    }
    if (load.kind == CqLoad::Kind::kPaced && in_flight_ == 0) {
      if (result.count > paced) {
        paced = result.count;
        due = now + Pause(load.pause_max_nanos);
      }
      if (due <= now) Send(now, false);
    }
    while (load.rate > 0 && due <= now && Send(due, first)) {
      first = false;
      due += Gap(load.rate);
      if (!waves || due < on_until) continue;
      due = on_until + load.half_period_nanos;
      on_until = due + load.half_period_nanos;
      first = true;
    }
    if (!Post()) return Broken();
    if (result.count > seen || in_flight_ == 0) last_answer = now;
    seen = result.count;
    if (now - last_answer > kStuckNanos) {
      return absl::DeadlineExceededError("no answer for 30 seconds");
    }
  }
  result.seconds = static_cast<double>(now - begin) / 1e9;
  result.client_cpu_nanos = ThreadCpuNanos() - cpu;
  CqLoadResult rest;  // answered too late to count
  const int64_t deadline = NowNanos() + kStuckNanos;
  while (in_flight_ > 0) {
    if (!Poll(&rest)) return Broken();
    if (NowNanos() > deadline) {
      return absl::DeadlineExceededError("messages without an answer");
    }
  }
  return result;
}

}  // namespace sluice::bench
