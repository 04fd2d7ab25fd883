// Logging: a short phrase, then keys.
//   SLUICE_LOG(kInfo) << "queue up" << KV("qid", qid);
// Lines go to stderr through spdlog. Info: once per connection or change.
// Warning: a peer or device misbehaved. Error: we lost something. Nothing per
// command. A LogLimiter bounds what a peer could make us repeat. A short line
// costs no memory, so that a warning from the data path may be written.
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
// "debug", "info", "warning", "error", "off".
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);

template <typename T>
struct KeyValue {
  absl::string_view key;
  const T& value;
};

template <typename T>
KeyValue<T> KV(absl::string_view key, const T& value) {
  return {key, value};
}

// One line, written when it dies.
class LogLine {
 public:
  explicit LogLine(LogLevel level) : level_(level) {}
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  template <typename T>
  LogLine& operator<<(const KeyValue<T>& pair) {
    Append(" ");
    Append(pair.key);
    Append("=");
    Append(pair.value);
    return *this;
  }
  template <typename T>
  LogLine& operator<<(const T& value) {
    Append(value);
    return *this;
  }

 private:
  void Append(const absl::AlphaNum& piece);

  const LogLevel level_;
  size_t used_ = 0;
  std::array<char, 512> text_{};
  std::string long_text_;  // all of it, once text_ is too small
};

// At most one line a second from one place; the next one says how many were
// left out. One object per place and reactor.
class LogLimiter {
 public:
  // True when the line may be written; `left_out` gets the number suppressed.
  bool Allow(int64_t now_nanos, uint64_t* left_out);

 private:
  int64_t next_nanos_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace sluice

#define SLUICE_LOG(level)                                 \
  if (!::sluice::LogEnabled(::sluice::LogLevel::level)) { \
  } else /* NOLINT */                                     \
    ::sluice::LogLine(::sluice::LogLevel::level)
