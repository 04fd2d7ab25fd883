#include "core/units.h"

#include <array>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr absl::string_view kPrefixes = "KMGTPE";

// The power of 1024 a unit stands for, -1 when it is none.
int UnitPower(absl::string_view unit) {
  if (unit.empty() || absl::EqualsIgnoreCase(unit, "B")) return 0;
  const size_t power =
      kPrefixes.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0])));
  if (power == absl::string_view::npos) return -1;
  const absl::string_view rest = unit.substr(1);
  if (!rest.empty() && !absl::EqualsIgnoreCase(rest, "B") &&
      !absl::EqualsIgnoreCase(rest, "iB")) {
    return -1;
  }
  return static_cast<int>(power) + 1;
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  const auto bad = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("size '", text, "': use a number with K, M, G or T"));
  };
  const size_t digits_end = text.find_first_not_of("0123456789.");
  const absl::string_view number = text.substr(0, digits_end);
  const absl::string_view unit =
      digits_end == absl::string_view::npos
          ? absl::string_view()
          : absl::StripAsciiWhitespace(text.substr(digits_end));
  const int power = UnitPower(unit);
  if (power < 0) return bad();
  const uint64_t factor = uint64_t{1} << (10 * power);
  uint64_t whole;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > UINT64_MAX / factor) return bad();
    return whole * factor;
  }
  double value;
  if (!absl::SimpleAtod(number, &value) || value < 0 || value > 1e15 ||
      power == 0) {
    return bad();
  }
  const double bytes = value * static_cast<double>(factor);
  if (bytes > 9e18) return bad();
  return static_cast<uint64_t>(bytes);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < kKiB) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t power = 0;
  while (value >= 1024 && power < kPrefixes.size()) {
    value /= 1024;
    ++power;
  }
  return absl::StrFormat("%.4g %ciB", value, kPrefixes[power - 1]);
}

}  // namespace sluice
