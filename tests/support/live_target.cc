#include "tests/support/live_target.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "tests/conformance/patience.h"
#include "transport/iwarp/device.h"

namespace sluice {
namespace {

constexpr const char* kNqn = "nqn.2026-11.io.sluice:live";
constexpr double kSlowness = 12;
constexpr absl::Duration kLimit = absl::Seconds(5);  // times the slowness

size_t CountFileDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Holdings& holdings) {
  const FakeLiveObjects& objects = holdings.objects;
  return out << "PDs " << objects.pds << ", MRs " << objects.mrs
             << ", channels " << objects.comp_channels << ", CQs "
             << objects.cqs << ", QPs " << objects.qps << ", CM channels "
             << objects.event_channels << ", ids " << objects.ids
             << ", unacknowledged events " << objects.unacked_events
             << ", queues " << holdings.queues << ", connections "
             << holdings.connections << ", controllers " << holdings.controllers
             << ", CQ entries reserved " << holdings.cq_reserved
             << ", outstanding " << holdings.cq_outstanding
             << ", pool bytes used " << holdings.pool_used_bytes
             << ", registered " << holdings.registered_bytes
             << ", file descriptors " << holdings.file_descriptors;
}

target::TargetOptions LiveTarget::Options() {
  target::SubsystemOptions subsystem;
  subsystem.nqn = kNqn;
  subsystem.namespaces = {{.path = "ram:64M"}};
  target::TargetOptions options;
  options.subsystems = {subsystem};
  options.listen = {"127.0.0.1:0"};
  options.machine_id = "live";
  options.log_level = LogLevel::kError;
  return options;
}

std::string NameOf(LiveProvider provider) {
  return provider == LiveProvider::kFake ? "Fake" : "BuiltIn";
}

LiveTarget::LiveTarget(const target::TargetOptions& options,
                       std::vector<FakeDeviceOptions> devices)
    : LiveTarget(options, std::make_unique<FakeFabric>(std::move(devices))) {}

LiveTarget::LiveTarget(const target::TargetOptions& options,
                       LiveProvider provider)
    : LiveTarget(options, provider == LiveProvider::kFake
                              ? std::make_unique<FakeFabric>()
                              : nullptr) {}

LiveTarget::LiveTarget(const target::TargetOptions& options,
                       std::unique_ptr<FakeFabric> fabric)
    : fabric_(std::move(fabric)),
      faults_(fabric_ != nullptr ? &fabric_->faults() : nullptr) {
  const VerbsApi& api = fabric_ != nullptr ? fabric_->api() : VerbsApi::Iwarp();
  SetLogLevel(options.log_level);
  conformance::SetSlowness(kSlowness);
  auto started = target::Target::Start(options, api);
  SLUICE_CHECK(started.ok());
  target_ = *std::move(started);
  host_.api = &api;
  host_.address = "127.0.0.1";
  host_.port = target_->addresses().front().port();
  host_.subnqn = options.subsystems.front().nqn;
  host_.hostnqn = "nqn.2026-11.io.sluice:live-host";
  host_.hostid.fill(std::byte{0x51});
}

LiveTarget::~LiveTarget() {
  if (target_ != nullptr) SLUICE_CHECK(Stop());
}

bool LiveTarget::Stop() {
  const bool clean = target_->Stop();
  if (clean) target_ = nullptr;
  return clean;
}

conformance::RawHost LiveTarget::host(size_t listener,
                                      const std::string& address) const {
  conformance::RawHost host = host_;
  host.address = address;
  host.port = target_->addresses()[listener].port();
  return host;
}

LiveHost LiveTarget::Connect(const conformance::RawHost& host, uint32_t depth,
                             uint32_t in_capsule_bytes, size_t data_bytes) {
  LiveHost made;
  auto controller = conformance::RawController::ConnectEnabled(host);
  SLUICE_CHECK(controller.ok());
  made.controller = *std::move(controller);
  SLUICE_CHECK(made.controller->RequestQueues(16).ok());
  auto options =
      conformance::RawQueueOptions::Io(1, depth, made.controller->cntlid());
  options.in_capsule_bytes = in_capsule_bytes;
  options.data_bytes = data_bytes;
  auto queue = made.controller->OpenQueue(options);
  SLUICE_CHECK(queue.ok());
  made.queue = *std::move(queue);
  return made;
}

Holdings LiveTarget::Held() {
  const target::TargetSnapshot snapshot = target_->Snapshot();
  Holdings held;
  if (fabric_ != nullptr) {
    held.objects = fabric_->live_objects();
    held.objects.unacked_events = 0;
  } else {
    held.objects.qps = iwarp::Device::Get().qp_count.load();
  }
  held.connections = snapshot.connections_open;
  held.controllers = snapshot.controllers;
  for (const auto& shard : snapshot.shards) {
    held.queues += shard.queues;
    held.cq_reserved += shard.cq_reserved;
    held.cq_outstanding += shard.cq_outstanding;
    held.pool_used_bytes += shard.pool_used_bytes;
    held.registered_bytes += shard.registered_bytes;
  }
  held.file_descriptors = CountFileDescriptors();
  return held;
}

Holdings LiveTarget::HeldByNobody() {
  Holdings held;
  SLUICE_CHECK(Until([&] {
    held = Held();
    return held.connections == 0 && held.queues == 0 && held.controllers == 0;
  }));
  return held;
}

bool LiveTarget::Until(const std::function<bool()>& reached) {
  conformance::Deadline deadline(kLimit);
  while (!reached()) {
    if (!deadline.Nap()) return false;
  }
  return true;
}

Holdings LiveTarget::UntilHeld(const Holdings& wanted) {
  Holdings held = Held();
  Until([&] {
    held = Held();
    return held == wanted;
  });
  return held;
}

}  // namespace sluice
