#include "tests/support/raw_stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "transport/iwarp/crc32c.h"

namespace sluice {
namespace {

constexpr size_t kMpaHeader = 20;
constexpr uint8_t kFlagCrc = 0x40;
constexpr uint8_t kFlagEnhanced = 0x10;

uint32_t CrcOf(const Bytes& bytes, size_t count) {
  iwarp::Crc32c crc;
  crc.Add(bytes.data(), count);
  return crc.value();
}

template <typename T>
void AppendNumber(Bytes* to, T value) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0;
       shift -= 8) {
    to->push_back(static_cast<std::byte>(value >> shift));
  }
}

uint64_t ReadNumber(const Bytes& from, size_t at, size_t bytes) {
  SLUICE_CHECK(at + bytes <= from.size());
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value = value << 8 | std::to_integer<uint64_t>(from[at + i]);
  }
  return value;
}

}  // namespace

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

Bytes ToBytes(std::string_view text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes FromHex(std::string_view digits) {
  Bytes bytes;
  int high = -1;
  for (const char digit : digits) {
    if (std::isspace(static_cast<unsigned char>(digit)) != 0) continue;
    const int value = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
    SLUICE_CHECK(value >= 0);
    SLUICE_CHECK(value < 16);
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<std::byte>(high << 4 | value));
      high = -1;
    }
  }
  SLUICE_CHECK(high < 0);
  return bytes;
}

Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

void Append16(Bytes* to, uint16_t value) { AppendNumber(to, value); }
void Append32(Bytes* to, uint32_t value) { AppendNumber(to, value); }
void Append64(Bytes* to, uint64_t value) { AppendNumber(to, value); }

void Write16(Bytes* to, size_t at, uint16_t value) {
  (*to)[at] = static_cast<std::byte>(value >> 8);
  (*to)[at + 1] = static_cast<std::byte>(value & 0xff);
}

uint16_t Read16(const Bytes& from, size_t at) {
  return static_cast<uint16_t>(ReadNumber(from, at, 2));
}
uint32_t Read32(const Bytes& from, size_t at) {
  return static_cast<uint32_t>(ReadNumber(from, at, 4));
}
uint64_t Read64(const Bytes& from, size_t at) {
  return ReadNumber(from, at, 8);
}

// --- start-up frames ---

Bytes MpaText(const MpaFields& fields) {
  Bytes text = ToBytes(fields.reply ? "MPA ID Rep Frame" : "MPA ID Req Frame");
  int flags = fields.more_flags;
  if (fields.crc) flags |= kFlagCrc;
  if (fields.enhanced) flags |= kFlagEnhanced;
  text.push_back(static_cast<std::byte>(flags));
  text.push_back(static_cast<std::byte>(fields.revision));
  const size_t block = fields.enhanced ? 4 : 0;
  Append16(&text, static_cast<uint16_t>(block + fields.data.size()));
  if (fields.enhanced) {
    Append16(&text, fields.ird);
    Append16(&text, fields.ord);
  }
  return std::move(text) + fields.data;
}

// --- FPDUs ---

Bytes Tagged(uint16_t control, uint32_t stag, uint64_t to,
             const Bytes& payload) {
  Bytes fpdu;
  Append16(&fpdu, static_cast<uint16_t>(14 + payload.size()));
  Append16(&fpdu, control);
  Append32(&fpdu, stag);
  Append64(&fpdu, to);
  return std::move(fpdu) + payload;
}

Bytes Untagged(uint16_t control, uint32_t reserved, uint32_t queue,
               uint32_t msn, uint32_t mo, const Bytes& payload) {
  Bytes fpdu;
  Append16(&fpdu, static_cast<uint16_t>(18 + payload.size()));
  Append16(&fpdu, control);
  Append32(&fpdu, reserved);
  Append32(&fpdu, queue);
  Append32(&fpdu, msn);
  Append32(&fpdu, mo);
  return std::move(fpdu) + payload;
}

Bytes ReadRequest(const ReadFields& fields) {
  Bytes body;
  Append32(&body, fields.sink_stag);
  Append64(&body, fields.sink_to);
  Append32(&body, fields.bytes);
  Append32(&body, fields.source_stag);
  Append64(&body, fields.source_to);
  return Untagged(kReadRequestLast, 0, 1, fields.msn, 0, body);
}

Bytes Seal(Bytes fpdu, bool crc, std::byte pad) {
  while (fpdu.size() % 4 != 0) fpdu.push_back(pad);
  const uint32_t value = crc ? CrcOf(fpdu, fpdu.size()) : 0;
  for (int i = 0; i < 4; ++i) {  // least significant byte first
    fpdu.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return fpdu;
}

uint16_t ControlOf(const Bytes& fpdu) { return Read16(fpdu, 2); }

bool IsSealed(const Bytes& fpdu, bool crc) {
  Bytes bare(fpdu.begin(), fpdu.begin() + 2 + Read16(fpdu, 0));
  return Seal(std::move(bare), crc) == fpdu;
}

Bytes PayloadOf(const Bytes& fpdu, size_t header_bytes) {
  const auto from = static_cast<std::ptrdiff_t>(header_bytes);
  return Bytes(fpdu.begin() + from, fpdu.begin() + 2 + Read16(fpdu, 0));
}

// --- the stream ---

RawStream RawStream::Connect(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SLUICE_CHECK(fd >= 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const sockaddr_in to = Loopback(port);
  const int result =
      connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  SLUICE_CHECK(result == 0);
  SLUICE_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  return RawStream(fd);
}

int RawStream::Listen(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  SLUICE_CHECK(fd >= 0);
  sockaddr_in at = Loopback(0);
  socklen_t bytes = sizeof(at);
  SLUICE_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&at), bytes) == 0);
  SLUICE_CHECK(listen(fd, 16) == 0);
  SLUICE_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &bytes) == 0);
  *port = ntohs(at.sin_port);
  return fd;
}

RawStream RawStream::Accept(int listener) {
  const int fd =
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return RawStream();
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return RawStream(fd);
}

RawStream::RawStream(RawStream&& other) noexcept { *this = std::move(other); }

RawStream& RawStream::operator=(RawStream&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  at_end_ = std::exchange(other.at_end_, false);
  broken_ = std::exchange(other.broken_, false);
  collected_ = std::exchange(other.collected_, {});
  return *this;
}

bool RawStream::Send(const Bytes& bytes) {
  return SendSome(bytes, 0) == static_cast<ssize_t>(bytes.size());
}

ssize_t RawStream::SendSome(const Bytes& bytes, size_t from) {
  const ssize_t sent = send(fd_, bytes.data() + from, bytes.size() - from,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == EAGAIN ? 0 : sent;
}

void RawStream::Finish() { shutdown(fd_, SHUT_WR); }

void RawStream::Reset() {
  const linger now = {1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

void RawStream::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void RawStream::Collect() {
  std::byte piece[16384];
  while (ok() && !at_end()) {
    const ssize_t got = recv(fd_, piece, sizeof(piece), MSG_DONTWAIT);
    if (got > 0) {
      collected_.insert(collected_.end(), piece, piece + got);
      continue;
    }
    at_end_ = got == 0;
    broken_ = got < 0 && errno != EAGAIN && errno != EINTR;
    return;
  }
}

bool RawStream::Take(size_t bytes, Bytes* to) {
  if (collected_.size() < bytes) return false;
  const auto end = collected_.begin() + static_cast<std::ptrdiff_t>(bytes);
  to->assign(collected_.begin(), end);
  collected_.erase(collected_.begin(), end);
  return true;
}

bool RawStream::TakeMpa(Bytes* frame) {
  if (collected_.size() < kMpaHeader) return false;
  return Take(kMpaHeader + Read16(collected_, 18), frame);
}

bool RawStream::TakeFpdu(Bytes* fpdu) {
  if (collected_.size() < 2) return false;
  const size_t bytes = 2 + size_t{Read16(collected_, 0)};
  return Take((bytes + 3) / 4 * 4 + 4, fpdu);
}

}  // namespace sluice
