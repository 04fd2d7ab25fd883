#include "target/config_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "core/status_macros.h"
#include "core/units.h"
#include "target/flags_values.h"

namespace sluice::target {
namespace {

absl::Status CheckUint32(uint64_t value) {
  if (value <= UINT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(value, " is too large"));
}

absl::optional<double> NumberOf(const toml::node& node) {
  if (const auto* number = node.as_integer()) {
    return static_cast<double>(number->get());
  }
  if (const auto* number = node.as_floating_point()) return number->get();
  return absl::nullopt;
}

}  // namespace

absl::Status WrongType(const toml::node& node, absl::string_view wanted) {
  const char* kind = "something else";
  if (node.is_string()) kind = "a string";
  if (node.is_integer()) kind = "an integer";
  if (node.is_floating_point()) kind = "a float";
  if (node.is_boolean()) kind = "a boolean";
  if (node.is_array()) kind = "an array";
  if (node.is_table()) kind = "a table";
  return absl::InvalidArgumentError(
      absl::StrCat("use ", wanted, ", not ", kind));
}

absl::Status ReadString(const toml::node& node, std::string* out) {
  const toml::value<std::string>* text = node.as_string();
  if (text == nullptr) return WrongType(node, "a string");
  *out = text->get();
  return absl::OkStatus();
}

absl::Status ReadBool(const toml::node& node, bool* out) {
  const toml::value<bool>* flag = node.as_boolean();
  if (flag == nullptr) return WrongType(node, "true or false");
  *out = flag->get();
  return absl::OkStatus();
}

absl::Status ReadBytes(const toml::node& node, uint64_t* out) {
  if (const toml::value<std::string>* text = node.as_string()) {
    SLUICE_ASSIGN_OR_RETURN(*out, ParseBytes(text->get()));
    return absl::OkStatus();
  }
  const toml::value<int64_t>* number = node.as_integer();
  if (number == nullptr) return WrongType(node, "a size, as in \"64M\"");
  if (number->get() < 0) {
    return absl::InvalidArgumentError("use a size of 0 or more");
  }
  *out = static_cast<uint64_t>(number->get());
  return absl::OkStatus();
}

absl::Status ReadSmallBytes(const toml::node& node, uint32_t* out) {
  uint64_t bytes = 0;
  SLUICE_RETURN_IF_ERROR(ReadBytes(node, &bytes));
  SLUICE_RETURN_IF_ERROR(CheckUint32(bytes));
  *out = static_cast<uint32_t>(bytes);
  return absl::OkStatus();
}

absl::Status ReadCount(const toml::node& node, uint32_t* out) {
  const toml::value<int64_t>* number = node.as_integer();
  if (number == nullptr) return WrongType(node, "an integer");
  if (number->get() < 0) {
    return absl::InvalidArgumentError("use a number of 0 or more");
  }
  const auto value = static_cast<uint64_t>(number->get());
  SLUICE_RETURN_IF_ERROR(CheckUint32(value));
  *out = static_cast<uint32_t>(value);
  return absl::OkStatus();
}

absl::Status ReadMicroseconds(const toml::node& node, absl::Duration* out) {
  const absl::optional<double> value = NumberOf(node);
  if (!value.has_value() || !std::isfinite(*value)) {
    return WrongType(node, "a number of microseconds");
  }
  *out = absl::Microseconds(*value);
  return absl::OkStatus();
}

absl::Status ReadPercent(const toml::node& node, double* out) {
  const absl::optional<double> value = NumberOf(node);
  if (!value.has_value()) return WrongType(node, "a number of percent");
  *out = *value / 100;
  return absl::OkStatus();
}

absl::Status ReadSeconds(const toml::node& node, absl::Duration* out) {
  const absl::optional<double> seconds = NumberOf(node);
  if (!seconds.has_value()) return WrongType(node, "a number of seconds");
  SLUICE_ASSIGN_OR_RETURN(*out, CheckSeconds(*seconds));
  return absl::OkStatus();
}

absl::Status ReadStrings(const toml::node& node,
                         std::vector<std::string>* out) {
  out->clear();
  if (const toml::value<std::string>* text = node.as_string()) {
    out->push_back(text->get());
    return absl::OkStatus();
  }
  const toml::array* array = node.as_array();
  if (array == nullptr) return WrongType(node, "an array of strings");
  for (const toml::node& element : *array) {
    const toml::value<std::string>* text = element.as_string();
    if (text == nullptr) return WrongType(element, "strings in the array");
    out->push_back(text->get());
  }
  return absl::OkStatus();
}

absl::Status ReadCores(const toml::node& node, std::vector<int>* out) {
  if (const toml::value<std::string>* text = node.as_string()) {
    SLUICE_ASSIGN_OR_RETURN(*out, ParseCores(text->get()));
    return absl::OkStatus();
  }
  const toml::array* array = node.as_array();
  if (array == nullptr) return WrongType(node, "a string, as in \"0,2-3\"");
  std::vector<std::string> numbers;
  for (const toml::node& element : *array) {
    const toml::value<int64_t>* number = element.as_integer();
    if (number == nullptr) return WrongType(element, "numbers in the array");
    numbers.push_back(absl::StrCat(number->get()));
  }
  out->clear();
  if (numbers.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(*out, ParseCores(absl::StrJoin(numbers, ",")));
  return absl::OkStatus();
}

}  // namespace sluice::target
