// The configuration file: TOML that says everything the flags can, and several
// subsystems. Keys are the flags' names without the dashes in front; an example
// with all of them is docs/config.example.toml.
//
// Bound: files of at most kConfigBytesMax, nested at most kConfigDepthMax deep.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "target/options.h"

namespace sluice::target {

inline constexpr size_t kConfigBytesMax = size_t{1} << 20;
inline constexpr int kConfigDepthMax = 16;  // of brackets
inline constexpr int kConfigDotsMax = 64;   // outside strings, on one line

// Options as `text` says, defaults elsewhere. What it leaves out (even every
// subsystem) flags may add: the caller validates the whole.
// InvalidArgument: one line, "SOURCE:LINE:COLUMN: what to do".
absl::StatusOr<TargetOptions> ParseConfig(absl::string_view text,
                                          absl::string_view source);

// The same for a file, whose path is the source. May block.
absl::StatusOr<TargetOptions> LoadConfig(const std::string& path);

}  // namespace sluice::target
