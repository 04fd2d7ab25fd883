// Values as people write them, for flags and TOML alike. Messages quote what
// was given and say what to give instead; the caller puts the flag, or the
// place in the file, in front.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/reactor.h"
#include "target/options.h"

namespace sluice::target {

// "0,2-3": processor numbers and ranges of them, at most kCoresMax.
absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text);
inline constexpr size_t kCoresMax = 1024;

// "hybrid", "poll", "event".
absl::StatusOr<PollMode> ParsePollMode(absl::string_view text);

// "auto", "verbs", "iwarp".
absl::StatusOr<Provider> ParseProvider(absl::string_view text);
// "auto", "on", "off".
absl::StatusOr<IwarpCrc> ParseIwarpCrc(absl::string_view text);

// A number of seconds, fractions allowed, zero to kSecondsMax.
absl::StatusOr<absl::Duration> ParseSeconds(absl::string_view text);
absl::StatusOr<absl::Duration> CheckSeconds(double seconds);
inline constexpr double kSecondsMax = 1e9;

// Microseconds, fractions allowed.
absl::StatusOr<absl::Duration> ParseMicroseconds(absl::string_view text);
// Percent as a share, "50" or "50%".
absl::StatusOr<double> ParsePercent(absl::string_view text);
// "on", "off".
absl::StatusOr<bool> ParseSwitch(absl::string_view text);

// A whole number.
absl::StatusOr<uint32_t> ParseCount(absl::string_view text);

// As ParseBytes, where 32 bits must hold it.
absl::StatusOr<uint32_t> ParseSmallBytes(absl::string_view text);

// ", did you mean X?" for the candidate nearest to a mistyped word, empty when
// none is near.
std::string DidYouMean(absl::string_view word,
                       absl::Span<const std::string> candidates);

}  // namespace sluice::target
