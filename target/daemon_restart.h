// Starting anew in the same process: the only way to let go of an RDMA device
// that librdmacm holds on to. The environment carries what the new program
// must know.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "target/options.h"
#include "transport/listen_address.h"

namespace sluice::target {

// Holds the addresses listened on, separated by commas: hosts come back to the
// ports that were chosen.
inline constexpr char kRestartVariable[] = "SLUICED_RESTARTED";

std::string RestartValue(const std::vector<transport::ListenAddress>& listen);

// Applies the variable's value: the same addresses, and waiting for the device,
// which nothing else replaces meanwhile.
void ApplyRestart(absl::string_view value, TargetOptions* options);

// Replaces this program by itself, with the same arguments, closing what it
// has open. Returns only when that failed.
absl::Status RestartSelf(char** argv, const std::string& value);

}  // namespace sluice::target
