#include "nvme/nqn.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace sluice::nvme {

static_assert(kNqnLengthMax <= UINT8_MAX);

bool Nqn::FromText(absl::string_view text, Nqn* out) {
  *out = Nqn();
  if (text.empty()) return false;
  if (text.size() > kNqnLengthMax) return false;
  if (text.find('\0') != absl::string_view::npos) return false;
  std::memcpy(out->text_.data(), text.data(), text.size());
  out->length_bytes_ = static_cast<uint8_t>(text.size());
  return true;
}

bool Nqn::FromField(absl::Span<const std::byte> field, Nqn* out) {
  *out = Nqn();
  const auto nul = std::find(field.begin(), field.end(), std::byte{0});
  if (nul == field.end()) return false;
  const auto length_bytes = static_cast<size_t>(nul - field.begin());
  if (length_bytes == 0) return false;
  if (length_bytes > kNqnLengthMax) return false;
  std::memcpy(out->text_.data(), field.data(), length_bytes);
  out->length_bytes_ = static_cast<uint8_t>(length_bytes);
  return true;
}

void Nqn::WriteField(absl::Span<std::byte> field) const {
  SLUICE_CHECK(field.size() > kNqnLengthMax);
  std::fill(field.begin(), field.end(), std::byte{0});
  std::memcpy(field.data(), text_.data(), length_bytes_);
}

}  // namespace sluice::nvme
