#include "tools/bench/verbs_loop.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/check.h"

namespace sluice::bench {
namespace {

constexpr uint32_t kChain = 32;     // work requests posted at once
constexpr uint32_t kWindow = 4096;  // messages that the receiver has room for
constexpr uint32_t kCredit = 512;   // messages a credit gives back
constexpr uint32_t kSmallReceives = 16;
constexpr int kPollBatch = 64;
// Of the last word of either side.
constexpr uint32_t kWordBytes = 64;
constexpr uint64_t kReceiveId = 1;  // wr_id of receives; of others: 0

// Where the other side may read and write; travels as private data.
struct Window {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

struct Sizes {
  size_t buffer_bytes = 0;
  uint32_t depth = 0;
  uint32_t receives = 0;
  uint32_t receive_bytes = 0;
};

// One end: a queue pair with all it needs and one registered buffer. Blocking.
class End {
 public:
  End(const VerbsApi& api, size_t buffer_bytes)
      : api_(api), buffer_(buffer_bytes) {
    channel_ = api_.create_event_channel();
    SLUICE_CHECK(channel_ != nullptr);
  }
  ~End() {
    if (id_ != nullptr && id_->qp != nullptr) api_.destroy_qp(id_);
    if (cq_ != nullptr) {
      if (unacked_ > 0) api_.ack_cq_events(cq_, unacked_);
      SLUICE_CHECK(api_.destroy_cq(cq_) == 0);
    }
    if (events_ != nullptr) api_.destroy_comp_channel(events_);
    if (mr_ != nullptr) api_.dereg_mr(mr_);
    if (pd_ != nullptr) api_.dealloc_pd(pd_);
    if (id_ != nullptr) api_.destroy_id(id_);
    if (listener_ != nullptr) api_.destroy_id(listener_);
    api_.destroy_event_channel(channel_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // The passive side; says the port before it waits.
  bool Accept(const std::string& address, const Sizes& sizes,
              const std::function<void(uint16_t)>& listening) {
    sockaddr_in at = Address(address, 0);
    if (api_.create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) != 0 ||
        api_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&at)) != 0 ||
        api_.listen(listener_, 1) != 0) {
      return false;
    }
    listening(ntohs(api_.get_src_port(listener_)));
    rdma_conn_param param = {};
    if (!Await(RDMA_CM_EVENT_CONNECT_REQUEST, &param) || !Make(sizes)) {
      return false;
    }
    rdma_conn_param answer = Parameters();
    return api_.accept(id_, &answer) == 0 &&
           Await(RDMA_CM_EVENT_ESTABLISHED, &param);
  }

  bool Connect(const std::string& address, uint16_t port, const Sizes& sizes) {
    sockaddr_in at = Address(address, port);
    rdma_conn_param param = {};
    if (api_.create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0 ||
        api_.resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&at),
                          2000) != 0 ||
        !Await(RDMA_CM_EVENT_ADDR_RESOLVED, &param) ||
        api_.resolve_route(id_, 2000) != 0 ||
        !Await(RDMA_CM_EVENT_ROUTE_RESOLVED, &param) || !Make(sizes)) {
      return false;
    }
    rdma_conn_param wanted = Parameters();
    if (api_.connect(id_, &wanted) != 0) return false;
    return Await(RDMA_CM_EVENT_ESTABLISHED, &param);
  }

  bool PostReceive(uint32_t index, uint32_t bytes) {
    ibv_sge sge = Sge(size_t{index} * bytes, bytes);
    ibv_recv_wr wr = {};
    wr.wr_id = kReceiveId;
    wr.sg_list = &sge;
    wr.num_sge = bytes > 0 ? 1 : 0;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(id_->qp, &wr, &bad) == 0;
  }

  // Those of `index` and on, in one call; the ring of them has `size`.
  bool PostReceives(uint64_t index, int count, uint32_t size, uint32_t bytes) {
    ibv_sge sges[kPollBatch];
    ibv_recv_wr chain[kPollBatch];
    for (int i = 0; i < count; ++i) {
      const uint64_t place = (index + static_cast<uint64_t>(i)) % size;
      sges[i] = Sge(place * bytes, bytes);
      chain[i] = {};
      chain[i].wr_id = kReceiveId;
      chain[i].sg_list = &sges[i];
      chain[i].num_sge = 1;
      chain[i].next = i + 1 == count ? nullptr : &chain[i + 1];
    }
    ibv_recv_wr* bad = nullptr;
    return count == 0 || ibv_post_recv(id_->qp, chain, &bad) == 0;
  }

  ibv_sge Sge(size_t offset, uint32_t bytes) const {
    return {reinterpret_cast<uint64_t>(buffer_.data()) + offset, bytes,
            mr_->lkey};
  }

  bool PostSend(ibv_send_wr* wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(id_->qp, wr, &bad) == 0;
  }

  // Completions, at least one; 0 when one of them failed. Spins or sleeps.
  int Wait(ibv_wc* wc, bool polling) {
    while (true) {
      const int count = Poll(wc);
      if (count != 0) return std::max(count, 0);
      if (polling) continue;
      SLUICE_CHECK(ibv_req_notify_cq(cq_, 0) == 0);
      const int late = Poll(wc);
      if (late != 0) return std::max(late, 0);
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      if (api_.get_cq_event(events_, &cq, &context) != 0) return 0;
      ++unacked_;
    }
  }

  // -1: failed. Receives that are left when the other side goes are not.
  int Poll(ibv_wc* wc) {
    const int count = ibv_poll_cq(cq_, kPollBatch, wc);
    int good = 0;
    bool failed = false;
    for (int i = 0; i < count; ++i) {
      const bool flushed = wc[i].status == IBV_WC_WR_FLUSH_ERR;
      failed |= wc[i].status != IBV_WC_SUCCESS && !flushed;
      failed |= flushed && wc[i].wr_id != kReceiveId;
      gone_ |= flushed;
      if (wc[i].status == IBV_WC_SUCCESS) wc[good++] = wc[i];
    }
    return failed || (gone_ && good == 0) ? -1 : good;
  }

  const Window& peer() const { return peer_; }

 private:
  bool Await(rdma_cm_event_type type, rdma_conn_param* param) {
    rdma_cm_event* event = nullptr;
    if (api_.get_cm_event(channel_, &event) != 0) return false;
    const bool right = event->event == type;
    *param = event->param.conn;
    if (right && type == RDMA_CM_EVENT_CONNECT_REQUEST) id_ = event->id;
    if (right && param->private_data != nullptr &&
        param->private_data_len >= sizeof(peer_)) {
      std::memcpy(&peer_, param->private_data, sizeof(peer_));
    }
    api_.ack_cm_event(event);
    return right;
  }

  // With its receives posted: the other side may send as soon as it is
  // connected.
  bool Make(const Sizes& sizes) {
    pd_ = api_.alloc_pd(id_->verbs);
    events_ = api_.create_comp_channel(id_->verbs);
    cq_ = api_.create_cq(id_->verbs,
                         static_cast<int>(sizes.depth + sizes.receives),
                         nullptr, events_, 0);
    constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_READ;
    mr_ = api_.reg_mr(pd_, buffer_.data(), buffer_.size(), kAll);
    if (cq_ == nullptr || mr_ == nullptr) return false;
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = sizes.depth;
    attr.cap.max_recv_wr = sizes.receives;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    if (api_.create_qp(id_, pd_, &attr) != 0) return false;
    window_ = {reinterpret_cast<uint64_t>(buffer_.data()), mr_->rkey};
    for (uint32_t i = 0; i < sizes.receives; ++i) {
      if (!PostReceive(i, sizes.receive_bytes)) return false;
    }
    return true;
  }

  rdma_conn_param Parameters() const {
    rdma_conn_param param = {};
    param.private_data = &window_;
    param.private_data_len = sizeof(window_);
    param.responder_resources = 16;
    param.initiator_depth = 16;
    param.rnr_retry_count = 7;
    return param;
  }

  const VerbsApi& api_;
  std::vector<std::byte> buffer_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_comp_channel* events_ = nullptr;
  ibv_cq* cq_ = nullptr;
  unsigned int unacked_ = 0;
  bool gone_ = false;  // the other side is
  Window window_;
  Window peer_;
};

// Both ends, connected, with their receives posted before the other may send.
template <typename Active, typename Passive>
RunResult RunConnected(const VerbsOptions& options, const Sizes& active_sizes,
                       const Sizes& passive_sizes, Active active,
                       Passive passive) {
  uint16_t port = 0;
  return RunPair(
      [&] {
        End end(*options.api, active_sizes.buffer_bytes);
        if (!end.Connect(options.address, port, active_sizes)) {
          return Failed("connect");
        }
        return Measure([&](SideResult* side) { active(&end, side); });
      },
      [&](const std::function<void()>& ready) {
        End end(*options.api, passive_sizes.buffer_bytes);
        if (!end.Accept(options.address, passive_sizes, [&](uint16_t chosen) {
              port = chosen;
              ready();
            })) {
          return Failed("accept");
        }
        return Measure([&](SideResult* side) { passive(&end, side); });
      });
}

ibv_send_wr SendWr(ibv_sge* sge, bool signalled) {
  ibv_send_wr wr = {};
  wr.sg_list = sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = signalled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u;
  return wr;
}

// Until the last SEND and the peer's last word, those that are waited for, are
// both complete; they may come at once, in either order.
bool AwaitLast(End* end, bool sends, bool receives) {
  ibv_wc wc[kPollBatch];
  while (sends || receives) {
    const int count = end->Wait(wc, /*polling=*/false);
    if (count == 0) return false;
    for (int i = 0; i < count; ++i) {
      (wc[i].opcode == IBV_WC_RECV ? receives : sends) = false;
    }
  }
  return true;
}

}  // namespace

RunResult VerbsStream(const VerbsOptions& options, bool reads, size_t bytes,
                      uint32_t depth) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  const Sizes sizes = {bytes * depth, depth + 1, kSmallReceives, kWordBytes};
  return RunConnected(
      options, sizes, sizes,
      [=](End* end, SideResult* side) {
        const int64_t stop = NowNanos() + limit;
        uint32_t in_flight = 0;
        uint32_t next = 0;
        ibv_wc wc[kPollBatch];
        while (true) {
          const bool go_on = NowNanos() < stop;
          for (; go_on && in_flight < depth; ++in_flight, ++next) {
            const size_t offset = next % depth * bytes;
            ibv_sge sge = end->Sge(offset, static_cast<uint32_t>(bytes));
            ibv_send_wr wr = SendWr(&sge, true);
            wr.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
            wr.wr.rdma.remote_addr = end->peer().address + offset;
            wr.wr.rdma.rkey = end->peer().rkey;
            side->ok &= end->PostSend(&wr);
          }
          if (in_flight == 0 || !side->ok) break;
          const int count = end->Wait(wc, /*polling=*/false);
          if (count == 0) side->ok = false;
          in_flight -= static_cast<uint32_t>(count);
          side->count += static_cast<uint64_t>(count) * bytes;
        }
        ibv_sge sge = end->Sge(0, kWordBytes);
        ibv_send_wr last = SendWr(&sge, true);
        side->ok &= end->PostSend(&last) && AwaitLast(end, true, true);
      },
      [](End* end, SideResult* side) {
        side->ok = AwaitLast(end, false, true);
        ibv_sge sge = end->Sge(0, kWordBytes);
        ibv_send_wr answer = SendWr(&sge, true);
        side->ok &= end->PostSend(&answer) && AwaitLast(end, true, false);
      });
}

RunResult VerbsPingPong(const VerbsOptions& options, size_t bytes,
                        bool polling) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  const auto length = static_cast<uint32_t>(bytes);
  const Sizes sizes = {bytes * (kSmallReceives + 1), 64, kSmallReceives,
                       length};
  // One message out and one in; false at the end.
  const auto send = [=](End* end, uint32_t number) {
    ibv_sge sge = end->Sge(bytes * kSmallReceives, length);
    ibv_send_wr wr = SendWr(&sge, number % 32 == 31);
    return end->PostSend(&wr);
  };
  const auto receive = [=](End* end, uint32_t* number) {
    ibv_wc wc[kPollBatch];
    while (true) {
      const int count = end->Wait(wc, polling);
      if (count == 0) return false;
      bool received = false;
      for (int i = 0; i < count; ++i) received |= wc[i].opcode == IBV_WC_RECV;
      if (!received) continue;
      return end->PostReceive((*number)++ % kSmallReceives, length);
    }
  };
  return RunConnected(
      options, sizes, sizes,
      [=](End* end, SideResult* side) {
        side->samples.reserve(kSamplesMax);
        int64_t now = NowNanos();
        const int64_t stop = now + limit;
        uint32_t number = 0;
        while (now < stop && side->samples.size() < kSamplesMax) {
          if (!send(end, number) || !receive(end, &number)) {
            side->ok = false;
            return;
          }
          const int64_t later = NowNanos();
          side->samples.push_back(later - now);
          now = later;
          ++side->count;
        }
      },
      [=](End* end, SideResult* side) {
        uint32_t number = 0;
        while (receive(end, &number) && send(end, number)) ++side->count;
      });
}

RunResult VerbsMessages(const VerbsOptions& options, size_t bytes) {
  const auto limit = static_cast<int64_t>(options.seconds * 1e9);
  const auto length = static_cast<uint32_t>(bytes);
  // A credit is a word: siw loses sight of a SEND of no bytes.
  constexpr size_t kCredits = size_t{kSmallReceives} * kWordBytes;
  const Sizes active_sizes = {kCredits + bytes * kChain, kWindow,
                              kSmallReceives, kWordBytes};
  const Sizes passive_sizes = {bytes * kWindow + kWordBytes, kSmallReceives,
                               kWindow, length};
  return RunConnected(
      options, active_sizes, passive_sizes,
      [=](End* end, SideResult* side) {
        ibv_sge sges[kChain];
        ibv_send_wr chain[kChain];
        for (uint32_t i = 0; i < kChain; ++i) {
          sges[i] = end->Sge(kCredits + i * bytes, length);
          chain[i] = SendWr(&sges[i], i + 1 == kChain);
          chain[i].next = i + 1 == kChain ? nullptr : &chain[i + 1];
        }
        const int64_t stop = NowNanos() + limit;
        uint32_t credits = kWindow;       // messages that find a receive
        uint32_t free_entries = kWindow;  // of the send queue
        ibv_wc wc[kPollBatch];
        while (NowNanos() < stop && side->ok) {
          while (credits >= kChain && free_entries >= kChain) {
            side->ok &= end->PostSend(chain);
            credits -= kChain;
            free_entries -= kChain;
            side->count += kChain;
          }
          const int count = end->Poll(wc);
          if (count < 0) side->ok = false;
          for (int i = 0; i < count; ++i) {
            if (wc[i].opcode != IBV_WC_RECV) {
              free_entries += kChain;
              continue;
            }
            credits += kCredit;
            end->PostReceive(0, kWordBytes);
          }
        }
      },
      [=](End* end, SideResult* side) {
        ibv_wc wc[kPollBatch];
        uint32_t uncredited = 0;
        uint32_t sends = 0;
        while (true) {
          const int count = end->Poll(wc);
          if (count < 0) break;  // the other side has gone
          int received = 0;
          for (int i = 0; i < count; ++i) {
            if (wc[i].opcode == IBV_WC_RECV) ++received;
          }
          end->PostReceives(side->count, received, kWindow, length);
          side->count += static_cast<uint64_t>(received);
          uncredited += static_cast<uint32_t>(received);
          if (uncredited < kCredit) continue;
          uncredited -= kCredit;
          ibv_sge sge = end->Sge(bytes * kWindow, kWordBytes);
          ibv_send_wr credit = SendWr(&sge, ++sends % 8 == 0);
          end->PostSend(&credit);
        }
      });
}

}  // namespace sluice::bench
