// The configuration file, and the values that flags share with it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/check.h"
#include "core/units.h"
#include "target/config.h"
#include "target/flags_values.h"

namespace sluice::target {
namespace {

void FuzzConfig(absl::string_view text) {
  const auto parsed = ParseConfig(text, "fuzz.toml");
  if (!parsed.ok()) {
    SLUICE_CHECK(absl::IsInvalidArgument(parsed.status()));
    SLUICE_CHECK(absl::StartsWith(parsed.status().message(), "fuzz.toml:"));
    return;
  }
  // What was taken is in range, one value at a time.
  SLUICE_CHECK(parsed->queue_depth >= 2);
  SLUICE_CHECK(parsed->queue_depth <= 1024);
  SLUICE_CHECK(parsed->in_capsule_bytes % 16 == 0);
  SLUICE_CHECK(parsed->drain_timeout >= absl::ZeroDuration());
  for (const SubsystemOptions& subsystem : parsed->subsystems) {
    for (const NamespaceOptions& space : subsystem.namespaces) {
      SLUICE_CHECK(!space.path.empty());
      SLUICE_CHECK(space.block_bytes == 512 || space.block_bytes == 4096);
    }
  }
  static_cast<void>(parsed->Validate().ok());
}

void FuzzValues(absl::string_view text) {
  const auto cores = ParseCores(text);
  SLUICE_CHECK(!cores.ok() || cores->size() <= kCoresMax);
  static_cast<void>(ParseSeconds(text).ok());
  static_cast<void>(ParseCount(text).ok());
  static_cast<void>(ParseSmallBytes(text).ok());
  const auto bytes = ParseBytes(text);
  if (bytes.ok()) SLUICE_CHECK(!FormatBytes(*bytes).empty());
  static_cast<void>(DidYouMean(text, {"--export", "queue-depth"}));
}

}  // namespace
}  // namespace sluice::target

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::target::FuzzConfig(text);
  sluice::target::FuzzValues(text.substr(0, 256));
  return 0;
}
