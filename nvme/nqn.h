// Nqn: an NVMe Qualified Name in a value of fixed size, 1..223 bytes of text
// [spec §3.2]. Names are compared as bytes and are UTF-8 only by convention: a
// peer's NQN may hold any byte but NUL, so a log escapes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nvme/limits.h"

namespace sluice::nvme {

// Every port answers to it [spec §5.1].
inline constexpr absl::string_view kDiscoveryNqn =
    "nqn.2014-08.org.nvmexpress.discovery";

class Nqn {
 public:
  // Empty: the one Nqn that is not valid().
  Nqn() = default;

  // False, and *out empty, unless `text` has 1..223 bytes and no NUL.
  static bool FromText(absl::string_view text, Nqn* out);

  // From a NUL-terminated field of the wire, usually 256 bytes; bytes behind
  // the NUL do not matter. False, and *out empty, if there is no NUL, or the
  // text before it is empty or too long.
  static bool FromField(absl::Span<const std::byte> field, Nqn* out);

  bool valid() const { return length_bytes_ != 0; }
  // Valid as long as this Nqn.
  absl::string_view view() const {
    return absl::string_view(text_.data(), length_bytes_);
  }

  // Writes the text and fills the rest of `field` (at least 224 bytes) with
  // NULs.
  void WriteField(absl::Span<std::byte> field) const;

  friend bool operator==(const Nqn& a, const Nqn& b) {
    return a.view() == b.view();
  }

 private:
  uint8_t length_bytes_ = 0;
  std::array<char, kNqnLengthMax> text_{};
};

}  // namespace sluice::nvme
