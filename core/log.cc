#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/types/span.h"
#include "core/clock.h"

namespace sluice {
namespace {

spdlog::logger& Logger() {
  // Never destroyed: threads may log while the process exits.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger(
        "sluice", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return absl::InvalidArgumentError(absl::StrCat(
      "log level '", name, "': use debug, info, warning, error or off"));
}

void LogLine::Append(const absl::AlphaNum& piece) {
  if (long_text_.empty() && piece.size() <= text_.size() - used_) {
    std::copy_n(piece.data(), piece.size(), text_.data() + used_);
    used_ += piece.size();
    return;
  }
  if (long_text_.empty()) long_text_.assign(text_.data(), used_);
  absl::StrAppend(&long_text_, piece);
}

LogLine::~LogLine() {
  const absl::Span<char> text = long_text_.empty()
                                    ? absl::MakeSpan(text_.data(), used_)
                                    : absl::MakeSpan(long_text_);
  // Values may be a peer's: no line breaks, no terminal sequences.
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  Logger().log(ToSpdlog(level_),
               spdlog::string_view_t(text.data(), text.size()));
}

bool LogLimiter::Allow(int64_t now_nanos, uint64_t* left_out) {
  if (now_nanos < next_nanos_) {
    ++left_out_;
    return false;
  }
  next_nanos_ = now_nanos + kNanosPerSecond;
  *left_out = left_out_;
  left_out_ = 0;
  return true;
}

}  // namespace sluice
