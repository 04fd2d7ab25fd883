#include "target/provider.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "nvme/limits.h"
#include "transport/iwarp/options.h"
#include "transport/listen_address.h"

namespace sluice::target {
namespace {

// "", when an RDMA device carries the address; else why not.
std::string WhyNot(const VerbsApi& api, rdma_event_channel* channel,
                   transport::ListenAddress address) {
  rdma_cm_id* id = nullptr;
  if (api.create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    return absl::StrCat("rdma_create_id: ", std::strerror(errno));
  }
  address.set_port(0);
  const bool bound =
      api.bind_addr(id, reinterpret_cast<sockaddr*>(&address.address)) == 0;
  std::string why;
  if (!bound) {
    why = absl::StrCat("no RDMA device carries ",
                       transport::AddressText(address.address));
  } else if (id->verbs == nullptr) {  // every address: any device will do
    int count = 0;
    ibv_context** devices = api.get_devices(&count);
    if (devices != nullptr) api.free_devices(devices);
    if (devices == nullptr || count == 0) why = "there is no RDMA device";
  }
  api.destroy_id(id);
  return why;
}

PickedProvider Verbs(const VerbsApi& system, std::string why) {
  return {&system, std::move(why), /*pins_memory=*/true};
}

PickedProvider Iwarp(const TargetOptions& options, std::string why) {
  iwarp::CrcPolicy* crc = &iwarp::MutableOptions().crc;
  switch (options.iwarp_crc) {
    case IwarpCrc::kAuto:
      *crc = iwarp::CrcPolicy::kAuto;
      break;
    case IwarpCrc::kOn:
      *crc = iwarp::CrcPolicy::kOn;
      break;
    case IwarpCrc::kOff:
      *crc = iwarp::CrcPolicy::kOff;
      break;
  }
  return {&VerbsApi::Iwarp(), std::move(why), /*pins_memory=*/false};
}

absl::StatusOr<PickedProvider> Pick(const TargetOptions& options,
                                    const VerbsApi& system,
                                    rdma_event_channel* channel) {
  std::vector<std::string> texts = options.listen;
  if (texts.empty()) texts.emplace_back();  // every IPv4 address
  std::string carried;
  std::string why;
  for (const std::string& text : texts) {
    SLUICE_ASSIGN_OR_RETURN(
        const transport::ListenAddress address,
        transport::ParseListenAddress(text, nvme::kDefaultPort));
    const std::string why_not = WhyNot(system, channel, address);
    if (why_not.empty()) {
      carried = address.ToString();
    } else {
      why = why_not;
    }
  }
  if (why.empty()) {
    return Verbs(system, absl::StrCat("an RDMA device carries ", carried));
  }
  if (carried.empty()) return Iwarp(options, why);
  return absl::InvalidArgumentError(absl::StrCat(
      "an RDMA device carries ", carried, " but ", why,
      "; listen on addresses of one kind, or say --provider verbs or iwarp"));
}

}  // namespace

absl::StatusOr<PickedProvider> PickProvider(const TargetOptions& options,
                                            const VerbsApi& system) {
  switch (options.provider) {
    case Provider::kVerbs:
      return Verbs(system, "asked for");
    case Provider::kIwarp:
      return Iwarp(options, "asked for");
    case Provider::kAuto:
      break;
  }
  rdma_event_channel* channel = system.create_event_channel();
  if (channel == nullptr) {
    return Iwarp(options, absl::StrCat("there is no RDMA device to use (",
                                       std::strerror(errno), ")"));
  }
  auto picked = Pick(options, system, channel);
  system.destroy_event_channel(channel);
  return picked;
}

}  // namespace sluice::target
