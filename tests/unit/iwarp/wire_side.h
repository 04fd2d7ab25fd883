// The provider's side of a wire test: a listener, queue pairs with regions
// between guard bytes, and all that happens to them, written down. One thread:
// the test moves it with Until(), which gives up after a while.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/support/raw_stream.h"
#include "transport/verbs/verbs_api.h"

namespace sluice::iwarp {

// Registered memory of a page; what is around it nobody may touch.
class GuardedRegion {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr size_t kGuard = 4096;

  GuardedRegion(ibv_pd* pd, int access, size_t bytes = kBytes);
  ~GuardedRegion();
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  uint32_t key() const { return key_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data()); }
  std::byte* data() const { return memory_.get() + kGuard; }
  size_t size() const { return bytes_; }
  Bytes Copy(size_t from, size_t bytes) const;
  // Its key is of no use from now on.
  void Deregister();
  // Guards, and with `data` what is between, are as at the start.
  bool IsUntouched(bool with_data) const;

 private:
  const size_t bytes_;
  const std::unique_ptr<std::byte[]> memory_;
  ibv_mr* mr_;
  uint32_t key_;
};

// One connection of the side's.
struct WireConnection {
  rdma_cm_id* id = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;  // null: it is destroyed
  std::vector<rdma_cm_event_type> events;
  std::vector<int> statuses;        // of `events`
  std::vector<Bytes> private_data;  // of `events`
  std::vector<ibv_event_type> async_events;
  std::vector<ibv_wc> completions;
  std::map<uint64_t, int> posted;     // times, by wr_id
  std::map<uint64_t, int> completed;  // of `posted`

  bool Saw(rdma_cm_event_type type) const;
  bool SawAsync(ibv_event_type type) const;
  // Each work request has completed, and once.
  bool IsDrained() const { return posted == completed; }
  const ibv_wc* Find(uint64_t wr_id) const;
};

struct WireQpOptions {
  uint32_t sends = 16;
  uint32_t receives = 16;
  int post = 4;  // receives, of kReceiveBytes each, before the connection
  uint8_t ird = 4;
  uint8_t ord = 4;
  bool is_own = false;  // by ibv_create_qp: its id learns its number alone
};

class WireSide {
 public:
  static constexpr uint32_t kReceiveBytes = 256;
  // wr_ids of receives count from here.
  static constexpr uint64_t kReceiveId = 1000;

  WireSide();
  ~WireSide();
  WireSide(const WireSide&) = delete;
  WireSide& operator=(const WireSide&) = delete;

  const VerbsApi& api() const { return api_; }
  ibv_pd* pd() const { return pd_; }
  ibv_pd* other_pd() const { return other_pd_; }
  uint16_t port() const { return port_; }
  rdma_event_channel* channel() const { return channel_; }

  // Moves everything once.
  void Advance();
  // Until `done`; false when that takes too long.
  bool Until(const std::function<bool()>& done);
  bool Until(RawStream* raw, const std::function<bool()>& done);

  // The oldest request that nobody has answered; null: none has come.
  rdma_cm_id* NextRequest();
  size_t request_count() const { return requests_.size(); }
  // Answers it. The connection lives until Destroy, or as long as the side.
  WireConnection* Accept(rdma_cm_id* id, const WireQpOptions& options = {},
                         const Bytes& data = {});
  // False: the provider refused.
  bool TryAccept(WireConnection* connection, const WireQpOptions& options,
                 const Bytes& data);
  WireConnection* NewConnection(rdma_cm_id* id, const WireQpOptions& options);
  // Begins to connect to a listener on 127.0.0.1.
  WireConnection* Connect(uint16_t port, const WireQpOptions& options = {},
                          const Bytes& data = {});
  void Destroy(WireConnection* connection);

  // Both ends of a connection in order, the reply taken.
  WireConnection* Establish(RawStream* raw, bool crc,
                            const WireQpOptions& options = {});

  // One receive of so many pieces of the receive region.
  void PostReceive(WireConnection* connection, uint64_t wr_id,
                   uint32_t bytes = kReceiveBytes);
  void PostReceive(WireConnection* connection, uint64_t wr_id,
                   absl::Span<ibv_sge> sges);
  void PostSend(WireConnection* connection, ibv_send_wr wr);
  // A READ of `bytes` into the read sink.
  void PostRead(WireConnection* connection, uint64_t wr_id, uint32_t bytes);

  // Memory of different rights, all of this side's PD but `stranger`.
  GuardedRegion& writable() { return *writable_; }
  GuardedRegion& readable() { return *readable_; }
  GuardedRegion& local() { return *local_; }  // receives go here
  GuardedRegion& sink() { return *sink_; }    // and READs
  GuardedRegion& stranger() { return *stranger_; }
  GuardedRegion& gone() { return *gone_; }  // deregistered
  // No guard is touched, nor what no peer may write to.
  bool AreGuardsIntact() const;
  // Nor anything else of what peers could name.
  bool IsNothingWritten() const;

 private:
  void TakeCmEvents();
  void TakeAsyncEvents();
  void Poll(WireConnection* connection);

  const VerbsApi& api_;
  rdma_event_channel* channel_;
  ibv_comp_channel* comp_channel_;
  rdma_cm_id* listener_ = nullptr;
  uint16_t port_ = 0;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_pd* other_pd_ = nullptr;
  std::unique_ptr<GuardedRegion> writable_, readable_, local_, sink_, stranger_,
      gone_;
  std::vector<rdma_cm_id*> requests_;
  std::vector<std::unique_ptr<WireConnection>> connections_;
};

}  // namespace sluice::iwarp
