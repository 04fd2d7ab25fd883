// A queue pair: its send queue, receive queue, the READs in flight each way,
// and the stream they share. Guarded by its group's mutex but for what never
// changes.
//
// One I/O goes qp_post.cc -> encode.cc -> transmit.cc -> (the wire) ->
// receive.cc -> segment.cc -> completion.cc. Set-up,
// states and flushes are in qp.cc.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "core/intrusive_list.h"
#include "transport/iwarp/completion.h"
#include "transport/iwarp/crc32c.h"
#include "transport/iwarp/device.h"
#include "transport/iwarp/limits.h"
#include "transport/iwarp/rdmap.h"

namespace sluice::iwarp {

struct Srq;

// kIdle -> kEstablished when the connection manager hands the stream over ->
// kClosing when this side disconnects, or kError; kClosing -> kError when the
// peer has closed, too. kError -> kIdle by ibv_modify_qp(RESET). In kClosing
// and kError everything posted is flushed.
enum class QpState : uint8_t { kIdle, kEstablished, kClosing, kError };

// kQueued -> kEncoding (its message is begun) -> kSent (all of it is in the
// stream) -> kDone; a READ instead waits in kSent for its response. kFailed: it
// cannot be sent; what is before it completes first.
enum class SendState : uint8_t { kQueued, kEncoding, kSent, kDone, kFailed };

// One cache line, its only piece of memory included.
struct alignas(64) SendEntry {
  uint64_t wr_id = 0;
  uint64_t remote_address = 0;
  uint64_t end = 0;  // kSent: the stream's position behind its message
  ibv_sge sge = {};  // where `sge_count` is 1
  uint32_t key = 0;  // rkey, or what to invalidate
  uint32_t length_bytes = 0;
  uint32_t got_bytes = 0;  // READs: of the response
  ibv_wr_opcode opcode = IBV_WR_SEND;
  ibv_wc_status status = IBV_WC_SUCCESS;
  SendState state = SendState::kQueued;
  uint8_t sge_count = 0;
  bool signalled : 1 = false;
  bool solicited : 1 = false;
  bool fenced : 1 = false;
  bool is_inline : 1 = false;
};
static_assert(sizeof(SendEntry) == 64);

// Entries at `head`, …, `tail` - 1 are outstanding, those from `next` on not
// begun. Numbers count up and are taken modulo the size, a power of two.
struct SendQueue {
  std::vector<SendEntry> entries;
  std::vector<ibv_sge> sges;             // max_send_sge of each
  std::vector<std::byte> inline_memory;  // max_inline_data of each
  uint32_t sge_max = 0;
  uint32_t mask = 0;
  uint32_t depth = 0;  // outstanding at most
  uint32_t head = 0;
  uint32_t next = 0;
  uint32_t tail = 0;

  SendEntry* At(uint32_t number) { return &entries[number & mask]; }
  // Of the entry of that number.
  const ibv_sge* SgesOf(uint32_t number) {
    const SendEntry* entry = At(number);
    return entry->sge_count <= 1 ? &entry->sge
                                 : &sges[size_t{number & mask} * sge_max];
  }
  uint32_t outstanding() const { return tail - head; }
};

struct ReceiveEntry {
  uint64_t wr_id = 0;
  uint64_t length_bytes = 0;  // of all SGEs
  uint32_t sge_count = 0;
  const ibv_sge* sges = nullptr;
  ibv_sge sge = {};  // the only one
};

struct ReceiveQueue {
  std::vector<ReceiveEntry> entries;
  std::vector<ibv_sge> sges;
  uint32_t mask = 0;
  uint32_t depth = 0;
  uint32_t sge_max = 0;
  uint32_t head = 0;
  uint32_t tail = 0;

  void Init(uint32_t depth, uint32_t sges_each);
  // Returns 0, ENOMEM or EINVAL.
  int Post(const ibv_recv_wr& wr);
  uint32_t count() const { return tail - head; }
  ReceiveEntry* Front() { return &entries[head & mask]; }
};

// A READ of the peer's, on its way to be answered.
struct InboundRead {
  uint32_t sink_stag = 0;
  uint64_t sink_to = 0;
  uint32_t source_stag = 0;
  uint64_t source_to = 0;
  uint32_t bytes = 0;
  uint32_t offset = 0;  // encoded up to here
  uint64_t end = 0;     // the stream's position behind the response
};

template <typename T>
struct Ring {
  std::vector<T> entries;
  uint32_t head = 0;
  uint32_t count = 0;

  void Init(uint32_t size) {
    entries.assign(size, T{});
    head = count = 0;
  }
  uint32_t size() const { return static_cast<uint32_t>(entries.size()); }
  bool full() const { return count == size(); }
  T* At(uint32_t index) { return &entries[(head + index) % size()]; }
  T* Push() { return At(count++); }
  void Pop() {
    head = (head + 1) % size();
    --count;
  }
};

// What a batch left over when the socket was full.
struct SendRest {
  std::vector<iovec> pieces;
  std::vector<uint32_t> keys;  // of the region; 0: in `text`
  size_t next = 0;
  std::vector<std::byte> text;

  bool empty() const { return next == pieces.size(); }
};

enum class Message : uint8_t { kNone, kSend, kResponse };

struct Transmitter {
  uint64_t queued = 0;  // position in the stream: encoded
  uint64_t sent = 0;    // and taken by TCP
  Message current = Message::kNone;
  uint32_t offset = 0;     // of the current message, encoded so far
  uint32_t sge_index = 0;  // and where that is in its SGEs
  uint32_t sge_offset = 0;
  uint32_t send_msn = 1;
  uint32_t read_msn = 1;
  uint32_t responses_encoded = 0;  // at the front of `inbound`
  int responses_in_row = 0;
  uint32_t segment_bytes = 0;  // payload of a segment at most
  bool blocked = false;
  bool stopped = false;  // a work request that cannot be sent is next
  SendRest rest;
};

struct Receiver {
  enum class Phase : uint8_t {
    kHeader,
    kPayload,
    kTrailer,
    kWaiting,  // for a receive
  };
  Phase phase = Phase::kHeader;
  SegmentHeader header;
  std::array<std::byte, kHeaderBytesMax> raw_header;
  uint32_t raw_header_bytes = 0;
  uint32_t payload_left = 0;
  uint32_t trailer_bytes = 0;
  Crc32c crc;
  std::array<std::byte, kHeldMax> held;
  uint32_t held_bytes = 0;
  uint32_t placed = 0;  // of the segment's payload
  // Read from the socket, and behind a SEND that waits for a receive.
  std::vector<std::byte> backlog;
  // Sends: the receive that is being filled.
  bool has_receive = false;
  ReceiveEntry receive;
  std::array<ibv_sge, kSgeMax> receive_sges;
  uint32_t message_bytes = 0;
  uint32_t sge_index = 0;
  uint32_t sge_offset = 0;
  uint32_t send_msn = 1;
  uint32_t read_msn = 1;
  std::array<std::byte, kTerminateMax> terminate;
  bool heard = false;        // an FPDU was complete
  uint32_t empty_reads = 0;  // in a row
  // The socket told that the peer is done with it: short reads are no end.
  bool hung_up = false;
  int64_t wait_deadline_nanos = 0;
};

// Rights that peers have where the program says nothing: all, as an iWARP
// card's queue pairs, and as rdma_create_qp asks for.
inline constexpr int kPeersRights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct Qp : ibv_qp, ListNode {
  static Qp* From(ibv_qp* qp) { return static_cast<Qp*>(qp); }

  // --- never change ---
  std::shared_ptr<PollGroup> group;
  MrTable* memory = nullptr;
  Srq* shared_receives = nullptr;
  ibv_qp_cap cap = {};
  bool signal_all = false;

  // --- guarded by the group's mutex ---
  QpState live = QpState::kIdle;    // ibv_qp::state is the user's view
  bool initialised = false;         // INIT, by ibv_modify_qp
  int access_flags = kPeersRights;  // what of it peers may do at all
  uint64_t id_serial = 0;           // of the id to tell; 0: none
  int fd = -1;
  bool crc = false;
  bool must_listen_first = false;  // until the initiator has spoken
  bool tell_first_fpdu = false;
  bool disconnect_told = false;
  bool last_receive_told = false;     // with a shared receive queue
  int64_t linger_deadline_nanos = 0;  // 0: not closing
  int64_t listen_deadline_nanos = 0;  // 0: nothing waits for the initiator
  uint32_t ird = 0;
  uint32_t ord = 0;

  SendQueue sends;
  ReceiveQueue receives;
  Ring<uint64_t> outbound;  // numbers of READs in flight, or kRtrRead
  Ring<InboundRead> inbound;
  Transmitter tx;
  Receiver rx;

  // When posts come one by one, they wait for each other.
  uint32_t post_serial = 0;
  uint32_t posts = 0;           // calls since the last occasion to send
  uint32_t previous_posts = 0;  // and before that
  uint64_t posted_bytes = 0;
  bool is_posted = false;  // on PollGroup::posted_

  // --- guarded by the SRQ's lock ---
  bool is_waiting = false;  // on Srq::waiting

  // --- guarded by ibv_qp::mutex ---
  uint32_t delivered_async_events = 0;
};

// --- qp.cc ---

// What a connection has agreed on.
struct StreamOptions {
  bool passive = false;
  bool crc = false;
  uint32_t ird = 0;
  uint32_t ord = 0;
  bool tell_first_fpdu = false;
  bool send_rtr_write = false;  // this side must speak first, and with nothing
  bool send_rtr_read = false;
  uint64_t id_serial = 0;
};
// Hands a connected, non-blocking socket over; bytes behind the start-up
// frames may be in it. `first` is sent once nothing else can fail, before
// anything of the queue pair's. False, with errno: the socket stays the
// caller's.
bool AttachStream(Qp* qp, int fd, const StreamOptions& options,
                  absl::Span<const std::byte> first = {});
// This side is done: what was given to TCP still goes, the rest is flushed.
void Disconnect(Qp* qp);
// ibv_modify_qp to ERR.
void Abort(Qp* qp);

// With the mutex held, all below.

// Why a queue pair goes down.
struct Failure {
  const char* what = "";
  const TerminateReason* terminate = nullptr;  // to tell the peer, or null
  bool with_header = false;                    // of the segment at fault
  int async_event = -1;                        // ibv_event_type, or none
};
// Error state: everything is flushed, the peer told.
void Fail(Qp* qp, const Failure& failure);
// Which a queue pair without a stream does when it is used next: no group
// serves it.
void FailIfCqIsDead(Qp* qp);
// The stream ends without a word: the socket is closed.
void CloseStream(Qp* qp);
void FlushSends(Qp* qp);
void FlushReceives(Qp* qp);
// Emits completions of what is done, in order. May Fail.
void Retire(Qp* qp);
void CompleteSend(Qp* qp, const SendEntry& entry, ibv_wc_status status);
void CompleteReceive(Qp* qp, uint64_t wr_id, ibv_wc_status status,
                     uint32_t bytes, bool solicited, uint32_t invalidated);
void PushQpEvent(Qp* qp, ibv_event_type type);

// --- encode.cc ---

// Fills the group's batch with what may be sent. False: the queue pair failed.
bool FillBatch(Qp* qp);
// Fills it with a Terminate; with the first message of an initiator, a WRITE or
// a READ of nothing.
void FillWithTerminate(Qp* qp, const TerminateReason& reason, bool with_header);
void FillWithReadyToReceive(Qp* qp, bool write);

// --- transmit.cc ---

// Sends what may be sent and the socket takes. False: the stream is gone.
bool Transmit(Qp* qp);
// A Terminate, where the stream is between two FPDUs.
void SendTerminate(Qp* qp, const TerminateReason& reason, bool with_header);
// The first message of an initiator that is to show that it is ready.
void SendReadyToReceive(Qp* qp, bool write, bool read);
// The number, in `outbound`, of a READ that no work request asked for: none of
// theirs, which have 32 bits and all of them.
inline constexpr uint64_t kRtrRead = UINT64_MAX;
// What is left of the stream no longer refers to the user's memory.
bool OwnRest(Qp* qp);

// --- receive.cc ---

enum class ReceiveResult : uint8_t {
  kDrained,  // the socket has no more
  kMore,
  kWaiting,  // for a receive to be posted
  kGone,     // the stream is over
};
ReceiveResult Receive(Qp* qp);

// --- memory, for both ---

// The region behind `key`, if the queue pair may use those bytes of it so:
// pinned until its group lets go. Null: not, and why.
inline Mr* FindRange(Qp* qp, uint32_t key, uint64_t address, uint64_t bytes,
                     int access, AccessFault* fault) {
  Mr* mr = qp->group->pins.Find(qp->memory, key);
  *fault = RangeFault(mr, qp->pd, address, bytes, access);
  return *fault == AccessFault::kNone ? mr : nullptr;
}
inline AccessFault CheckRange(Qp* qp, uint32_t key, uint64_t address,
                              uint64_t bytes, int access) {
  AccessFault fault;
  FindRange(qp, key, address, bytes, access, &fault);
  return fault;
}
// All access by that key ends. False: it is not the queue pair's to end.
bool Invalidate(Qp* qp, uint32_t key, bool by_peer);

// --- segment.cc ---

enum class SegmentResult : uint8_t {
  kTaken,
  kWaiting,  // a SEND, and there is no receive
  kFailed,   // the queue pair is down
};
// A peer's fault: it is told, with the header of the segment where that is
// complete, and the queue pair is down.
SegmentResult Refuse(Qp* qp, const char* what, const TerminateReason& reason,
                     ibv_event_type event, bool with_header = true);
// rx.header is complete: checks what it asks for and says where its payload
// goes. Again after kWaiting.
SegmentResult BeginSegment(Qp* qp);
// Puts the next bytes of the payload where they belong.
SegmentResult Place(Qp* qp, const std::byte* from, uint32_t bytes);
// Where the rest of the payload belongs: at most `pieces_max` pieces of pinned
// memory. Returns how many; 0: it is not memory that can be read to.
int PlacesOf(Qp* qp, iovec* pieces, int pieces_max, uint64_t* bytes);
// Those bytes are there.
void Placed(Qp* qp, uint32_t bytes);
// Payload, padding and checksum were there and right.
SegmentResult EndSegment(Qp* qp);
// All of that for a segment whose payload is at `payload`.
SegmentResult TakeSegment(Qp* qp, const std::byte* payload);
// All of that for the FPDU at `from` if it is a SEND of one segment and its
// receive has one piece: nothing else is worth a way of its own. False: it is
// something else, or there is something about it.
bool TakeSimpleSend(Qp* qp, const std::byte* from);

// --- srq.cc ---

struct Srq : ibv_srq {
  static Srq* From(ibv_srq* srq) { return static_cast<Srq*>(srq); }
  std::mutex lock;
  // --- guarded by `lock` ---
  ReceiveQueue receives;
  uint32_t limit = 0;
  // Queue pairs that wait for a receive, oldest first. As many as there are
  // receives, those in front, are woken and no longer here: one that finds its
  // receive taken comes back to the front, one that ends passes its turn on.
  std::deque<Qp*> waiting;
  int users = 0;
  uint32_t delivered_async_events = 0;
};
// Takes a receive, and copies its SGEs to kSgeMax of them. False: there is
// none; `qp` is woken when one comes.
bool TakeShared(Srq* srq, Qp* qp, ReceiveEntry* entry, ibv_sge* sges);
// The queue pair takes nothing any more.
void LeaveShared(Srq* srq, Qp* qp);

}  // namespace sluice::iwarp
