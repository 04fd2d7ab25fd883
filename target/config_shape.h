// Looks at a TOML text before the parser does: that it is not nested so deeply
// that the parser, which recurses, runs out of stack.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice::target {

// InvalidArgument, "LINE:COLUMN: …", when the text exceeds a limit of config.h
// before its first syntax error (of which this says nothing).
absl::Status CheckConfigShape(absl::string_view text);

}  // namespace sluice::target
