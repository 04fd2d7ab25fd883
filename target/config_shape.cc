#include "target/config_shape.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "target/config.h"

namespace sluice::target {
namespace {

// The end of the string that begins at `begin`, behind its closing quotes. A
// string on one line ends with the line at the latest, as does the parser.
size_t SkipString(absl::string_view text, size_t begin) {
  const char quote = text[begin];
  const absl::string_view triple =
      quote == '"' ? absl::string_view("\"\"\"") : absl::string_view("'''");
  const bool multi_line = absl::StartsWith(text.substr(begin), triple);
  size_t i = begin + (multi_line ? 3 : 1);
  while (i < text.size()) {
    if (text[i] == '\\' && quote == '"') {
      i += 2;
    } else if (multi_line && absl::StartsWith(text.substr(i), triple)) {
      i += 3;
      // Up to two more quotes belong to the string.
      for (int more = 0; more < 2 && i < text.size(); ++more) {
        if (text[i] == quote) ++i;
      }
      return i;
    } else if (!multi_line && (text[i] == quote || text[i] == '\n')) {
      return text[i] == quote ? i + 1 : i;
    } else {
      ++i;
    }
  }
  return text.size();
}

}  // namespace

absl::Status CheckConfigShape(absl::string_view text) {
  int depth = 0;
  int dots = 0;
  size_t line = 1;
  size_t line_begin = 0;
  const auto bad = [&](size_t at, absl::string_view advice) {
    return absl::InvalidArgumentError(
        absl::StrCat(line, ":", at - line_begin + 1, ": ", advice));
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const size_t end = SkipString(text, i);
      for (; i < end; ++i) {
        if (text[i] != '\n') continue;
        ++line;
        line_begin = i + 1;
      }
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == '.') ++dots;
    if (depth > kConfigDepthMax) return bad(i, "nested too deeply");
    if (dots > kConfigDotsMax) return bad(i, "too many dots on one line");
    if (c == '\n') {
      dots = 0;
      ++line;
      line_begin = i + 1;
    }
    ++i;
  }
  return absl::OkStatus();
}

}  // namespace sluice::target
