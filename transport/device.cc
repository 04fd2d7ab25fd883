#include "transport/device.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/limits.h"

namespace sluice::transport {
namespace {

// Software devices, by the vendor id they report.
constexpr uint32_t kVendorSiw = 0x626d74;
constexpr uint32_t kVendorSluice = 0x51c1ce;

// Where a device differs from the rule of its kind.
struct Quirk {
  uint32_t vendor_id;
  bool private_read_sinks;
  uint32_t signal_writes_from_bytes;
  bool inline_with_invalidate;
  uint32_t two_sges_up_to_bytes;
  bool loses_first_capsule;
};
constexpr Quirk kIwarpQuirks[] = {
    // siw places READ responses by its own bookkeeping; LOCAL_WRITE suffices.
    {kVendorSiw, false, 4096, false, 24, true},
    // So does our own provider, which copies or waits for what it sends.
    {kVendorSluice, false, UINT32_MAX, true, 0, false},
};

}  // namespace

absl::StatusOr<DeviceTraits> QueryTraits(const VerbsApi& api,
                                         ibv_context* context) {
  ibv_device_attr attr{};
  const char* name = api.get_device_name(context->device);
  const int error = api.query_device(context, &attr);
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("ibv_query_device ", name));
  }
  DeviceTraits traits;
  traits.name = name;
  traits.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  traits.cq_entries_max =
      static_cast<uint32_t>(std::clamp(attr.max_cqe, 1, kCqEntriesMax));
  traits.qp_wr_max = static_cast<uint32_t>(std::max(attr.max_qp_wr, 1));
  if (attr.max_srq > 0) {
    traits.srq_wr_max = static_cast<uint32_t>(std::max(attr.max_srq_wr, 0));
  }
  traits.sge_max = static_cast<uint32_t>(std::max(attr.max_sge, 1));
  traits.read_depth_max =
      static_cast<uint32_t>(std::clamp(attr.max_qp_init_rd_atom, 1, 255));
  traits.completion_vectors = std::max(context->num_comp_vectors, 1);
  traits.send_with_invalidate =
      (attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  if (traits.iwarp) {
    traits.private_read_sinks = true;
    for (const Quirk& quirk : kIwarpQuirks) {
      if (quirk.vendor_id != attr.vendor_id) continue;
      traits.private_read_sinks = quirk.private_read_sinks;
      traits.signal_writes_from_bytes = quirk.signal_writes_from_bytes;
      traits.inline_with_invalidate = quirk.inline_with_invalidate;
      traits.two_sges_up_to_bytes = quirk.two_sges_up_to_bytes;
      traits.loses_first_capsule = quirk.loses_first_capsule;
    }
  }
  return traits;
}

}  // namespace sluice::transport
