#include "target/flags_values.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/status_macros.h"
#include "core/units.h"

namespace sluice::target {
namespace {

// Words longer than this are no slip of the finger.
constexpr size_t kWordMax = 64;

absl::Status Bad(absl::string_view text, absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "': ", advice));
}

// A processor number.
bool ParseCore(absl::string_view text, int* core) {
  return !text.empty() && absl::ascii_isdigit(static_cast<uint8_t>(text[0])) &&
         absl::SimpleAtoi(text, core) && *core < (1 << 20);
}

// Insertions, deletions and replacements that turn `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text) {
  constexpr char kAdvice[] = "use processor numbers and ranges, as in 0,2-3";
  std::vector<int> cores;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    if (!ParseCore(ends.first, &first)) return Bad(text, kAdvice);
    int last = first;
    if (absl::StrContains(part, '-') && !ParseCore(ends.second, &last)) {
      return Bad(text, kAdvice);
    }
    if (last < first) return Bad(text, "write ranges from low to high");
    if (cores.size() + static_cast<size_t>(last - first) >= kCoresMax) {
      return Bad(text, absl::StrCat("name at most ", kCoresMax, " processors"));
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

absl::StatusOr<PollMode> ParsePollMode(absl::string_view text) {
  if (text == "hybrid") return PollMode::kHybrid;
  if (text == "poll") return PollMode::kPoll;
  if (text == "event") return PollMode::kEvent;
  return Bad(text, "use hybrid, poll or event");
}

absl::StatusOr<Provider> ParseProvider(absl::string_view text) {
  if (text == "auto") return Provider::kAuto;
  if (text == "verbs") return Provider::kVerbs;
  if (text == "iwarp") return Provider::kIwarp;
  return Bad(text, "use auto, verbs or iwarp");
}

absl::StatusOr<IwarpCrc> ParseIwarpCrc(absl::string_view text) {
  if (text == "auto") return IwarpCrc::kAuto;
  if (text == "on") return IwarpCrc::kOn;
  if (text == "off") return IwarpCrc::kOff;
  return Bad(text, "use auto, on or off");
}

absl::StatusOr<absl::Duration> CheckSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kSecondsMax) {
    return absl::InvalidArgumentError("use a number of seconds, 0 or more");
  }
  return absl::Seconds(seconds);
}

absl::StatusOr<absl::Duration> ParseSeconds(absl::string_view text) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !CheckSeconds(seconds).ok()) {
    return Bad(text, "use a number of seconds, as in 5 or 0.5");
  }
  return CheckSeconds(seconds);
}

absl::StatusOr<absl::Duration> ParseMicroseconds(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
    return Bad(text, "use a number of microseconds, as in 50 or 2.5");
  }
  return absl::Microseconds(value);
}

absl::StatusOr<double> ParsePercent(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(absl::StripSuffix(text, "%"), &value) ||
      !std::isfinite(value)) {
    return Bad(text, "use a number of percent, as in 50");
  }
  return value / 100;
}

absl::StatusOr<bool> ParseSwitch(absl::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return Bad(text, "use on or off");
}

absl::StatusOr<uint32_t> ParseCount(absl::string_view text) {
  uint32_t count = 0;
  if (!absl::SimpleAtoi(text, &count)) return Bad(text, "use a whole number");
  return count;
}

absl::StatusOr<uint32_t> ParseSmallBytes(absl::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
  if (bytes > UINT32_MAX) return Bad(text, "is too large");
  return static_cast<uint32_t>(bytes);
}

std::string DidYouMean(absl::string_view word,
                       absl::Span<const std::string> candidates) {
  if (word.size() > kWordMax) return "";
  const std::string* nearest = nullptr;
  size_t distance_min = std::max<size_t>(2, word.size() / 4) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= distance_min) continue;
    distance_min = distance;
    nearest = &candidate;
  }
  for (const std::string& candidate : candidates) {
    if (nearest != nullptr || word.size() < 4) break;
    if (absl::StartsWith(candidate, word)) nearest = &candidate;
  }
  return nearest == nullptr ? ""
                            : absl::StrCat(", did you mean ", *nearest, "?");
}

}  // namespace sluice::target
