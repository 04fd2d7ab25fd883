// An iWARP peer in plain TCP: what it sends is made by hand, byte for byte, and
// may be as wrong as a test wants. It shares no code with the provider but the
// checksum, whose vectors have a test of their own.
//
//   RawStream raw = RawStream::Connect(port);
//   raw.Send(MpaText({.crc = true}));
//   ... raw.Collect() until raw.TakeMpa(&reply)
//   raw.Send(Seal(Untagged(0x4143, 0, 0, 1, 0, payload), true));
//
// Never blocks: what comes in is gathered by Collect(), which the test calls
// while it moves the provider.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

using Bytes = std::vector<std::byte>;

Bytes ToBytes(std::string_view text);
// "4d 50 41": pairs of hexadecimal digits, white space between or not.
Bytes FromHex(std::string_view digits);
Bytes operator+(Bytes left, const Bytes& right);
void Append16(Bytes* to, uint16_t value);
void Append32(Bytes* to, uint32_t value);
void Append64(Bytes* to, uint64_t value);
void Write16(Bytes* to, size_t at, uint16_t value);
uint16_t Read16(const Bytes& from, size_t at);
uint32_t Read32(const Bytes& from, size_t at);
uint64_t Read64(const Bytes& from, size_t at);

// --- start-up frames [iwarp §1.1, §1.2] ---

struct MpaFields {
  bool reply = false;
  bool crc = false;
  uint8_t more_flags = 0;  // besides C and S
  uint8_t revision = 2;
  bool enhanced = true;
  uint16_t ird = 16;  // with the bits A and B
  uint16_t ord = 16;  // with C and D
  Bytes data = {};
};
Bytes MpaText(const MpaFields& fields);

// --- FPDUs [iwarp §1.6, §2.1] ---

inline constexpr uint16_t kWriteLast = 0xc140;
inline constexpr uint16_t kReadRequestLast = 0x4141;
inline constexpr uint16_t kReadResponseLast = 0xc142;
inline constexpr uint16_t kSendLast = 0x4143;
inline constexpr uint16_t kSendInvalidateLast = 0x4144;
inline constexpr uint16_t kSendSolicitedLast = 0x4145;
inline constexpr uint16_t kTerminateLast = 0x4147;
inline constexpr uint16_t kLastBit = 0x4000;

// ULPDU_Length, header and payload; Seal adds the rest.
Bytes Tagged(uint16_t control, uint32_t stag, uint64_t to,
             const Bytes& payload = {});
Bytes Untagged(uint16_t control, uint32_t reserved, uint32_t queue,
               uint32_t msn, uint32_t mo, const Bytes& payload = {});
struct ReadFields {
  uint32_t msn = 1;
  uint32_t sink_stag = 1;
  uint64_t sink_to = 0;
  uint32_t bytes = 0;
  uint32_t source_stag = 1;
  uint64_t source_to = 0;
};
Bytes ReadRequest(const ReadFields& fields);
// Adds padding and, last, the checksum: 0 where none was agreed on.
Bytes Seal(Bytes fpdu, bool crc, std::byte pad = std::byte{0});

// What a received FPDU says. Headers as they are: offsets count from its start.
uint16_t ControlOf(const Bytes& fpdu);
inline uint8_t OpcodeOf(const Bytes& fpdu) { return ControlOf(fpdu) & 0xf; }
// Whether padding is zero, and the checksum right.
bool IsSealed(const Bytes& fpdu, bool crc);
// Payload of a segment with a header of so many bytes.
Bytes PayloadOf(const Bytes& fpdu, size_t header_bytes);

// --- the stream ---

sockaddr_in Loopback(uint16_t port);  // on 127.0.0.1

class RawStream {
 public:
  // To 127.0.0.1. Checked: there is somebody.
  static RawStream Connect(uint16_t port);
  // A listener on 127.0.0.1 and a port of its own.
  static int Listen(uint16_t* port);
  // The next connection of it, or one with ok() false when there is none.
  static RawStream Accept(int listener);

  RawStream() = default;
  explicit RawStream(int fd) : fd_(fd) {}
  ~RawStream() { Close(); }
  RawStream(RawStream&& other) noexcept;
  RawStream& operator=(RawStream&& other) noexcept;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // All of it. False: the socket took less, or the other end is gone.
  bool Send(const Bytes& bytes);
  // What the socket takes; the number of bytes, or -1.
  ssize_t SendSome(const Bytes& bytes, size_t from);
  void Finish();  // FIN
  void Reset();   // RST, and closed
  void Close();

  // Takes what has come.
  void Collect();
  bool at_end() const { return at_end_ || broken_; }
  bool broken() const { return broken_; }  // reset
  const Bytes& collected() const { return collected_; }
  // One whole frame or FPDU of what was collected. False: not yet.
  bool TakeMpa(Bytes* frame);
  bool TakeFpdu(Bytes* fpdu);

 private:
  bool Take(size_t bytes, Bytes* to);

  int fd_ = -1;
  bool at_end_ = false;
  bool broken_ = false;
  Bytes collected_;
};

}  // namespace sluice
