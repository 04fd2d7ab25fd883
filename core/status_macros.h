// Early return for absl::Status and absl::StatusOr, which Debian's Abseil does
// not supply itself.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SLUICE_RETURN_IF_ERROR(expression)           \
  do {                                               \
    ::absl::Status sluice_status_ = (expression);    \
    if (!sluice_status_.ok()) return sluice_status_; \
  } while (false)

#define SLUICE_CONCAT_ARGUMENTS(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_ARGUMENTS(a, b)

// SLUICE_ASSIGN_OR_RETURN(auto value, Function()): declares or assigns the
// value, or returns the error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration has none.
#define SLUICE_ASSIGN_OR_RETURN(declaration, expression)            \
  auto SLUICE_CONCAT(sluice_or_, __LINE__) = (expression);          \
  if (!SLUICE_CONCAT(sluice_or_, __LINE__).ok())                    \
    return std::move(SLUICE_CONCAT(sluice_or_, __LINE__)).status(); \
  declaration = *std::move(SLUICE_CONCAT(sluice_or_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
