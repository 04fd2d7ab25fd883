// TOML values of one key each, as the configuration file writes them. Messages
// say what to write instead; the caller puts the place in front.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice::target {

// "use `wanted`, not a string": what the node is instead.
absl::Status WrongType(const toml::node& node, absl::string_view wanted);

absl::Status ReadString(const toml::node& node, std::string* out);
absl::Status ReadBool(const toml::node& node, bool* out);
absl::Status ReadCount(const toml::node& node, uint32_t* out);
// A number, or a size as text.
absl::Status ReadBytes(const toml::node& node, uint64_t* out);
absl::Status ReadSmallBytes(const toml::node& node, uint32_t* out);
absl::Status ReadMicroseconds(const toml::node& node, absl::Duration* out);
// A number of percent, as a share.
absl::Status ReadPercent(const toml::node& node, double* out);
absl::Status ReadSeconds(const toml::node& node, absl::Duration* out);
// One string or an array of them.
absl::Status ReadStrings(const toml::node& node, std::vector<std::string>* out);
// "0,2-3", or an array of numbers.
absl::Status ReadCores(const toml::node& node, std::vector<int>* out);

}  // namespace sluice::target
