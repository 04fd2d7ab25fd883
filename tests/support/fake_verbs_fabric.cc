#include "tests/support/fake_verbs_fabric.h"

#include <atomic>
#include <string>

#include "tests/support/fake_verbs.h"

namespace sluice {
namespace {

std::atomic<FakeFabric*> current_fabric = nullptr;
std::atomic<fake::Fabric*> current_inside = nullptr;

}  // namespace

namespace fake {

Fabric::~Fabric() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  delay_wakeup.notify_all();
  if (delay_thread.joinable()) delay_thread.join();
}

Fabric* CurrentFabric() {
  Fabric* fabric = current_inside.load();
  SLUICE_CHECK(fabric != nullptr);
  return fabric;
}

Device* DeviceNamed(const Fabric& fabric, std::string_view name) {
  for (const auto& device : fabric.devices) {
    if (device->name == name) return device.get();
  }
  CheckFailed(__FILE__, __LINE__, "no device of that name");
}

Device* FindDevice(Fabric* fabric, const sockaddr* address) {
  for (const auto& device : fabric->devices) {
    for (const AddressPrefix& prefix : device->prefixes) {
      if (prefix.Contains(address)) return device.get();
    }
  }
  return nullptr;
}

void AddDevice(Fabric* fabric, FakeDeviceOptions options) {
  auto device = std::make_unique<Device>();
  const std::string index = std::to_string(fabric->devices.size());
  device->name = "fake" + index;
  if (options.addresses.empty() && index == "0") {
    options.addresses = {"127.0.0.0/8", "::1"};
  } else if (options.addresses.empty()) {
    options.addresses = {"192.168." + index + ".0/24",
                         "fd00:" + index + "::/64"};
  }
  for (const std::string& address : options.addresses) {
    device->prefixes.emplace_back(address);
  }
  device->options = std::move(options);
  fabric->devices.push_back(std::move(device));
  AddContext(fabric, fabric->devices.back().get());
}

bool IsOn(FakeSide side, const Qp& qp) {
  return side == FakeSide::kBoth ||
         (side == FakeSide::kPassive) == qp.is_passive;
}

}  // namespace fake

FakeDeviceOptions FakeDeviceOptions::Rxe() {
  FakeDeviceOptions options;
  options.exact_cqe = true;
  options.flush_on_peer_disconnect = false;
  options.timewait_exit = true;
  return options;
}

FakeDeviceOptions FakeDeviceOptions::Siw() {
  FakeDeviceOptions options;
  options.vendor_id = 0x626d74;
  options.iwarp = true;
  options.max_sge = 6;
  options.max_sge_rd = 1;
  options.max_inline_bytes = 80;
  options.inline_with_invalidate = false;
  options.two_sges_up_to_bytes = 24;
  options.comp_vectors = 1;
  options.exact_cqe = true;
  options.negative_post_errno = true;
  return options;
}

FakeFabric::FakeFabric() : FakeFabric(std::vector<FakeDeviceOptions>(1)) {}

FakeFabric::FakeFabric(std::vector<FakeDeviceOptions> devices)
    : fabric_(std::make_unique<fake::Fabric>()),
      faults_(fabric_.get()),
      previous_(current_fabric.load()) {
  for (FakeDeviceOptions& options : devices) {
    fake::AddDevice(fabric_.get(), std::move(options));
  }
  current_fabric = this;
  current_inside = fabric_.get();
}

FakeFabric::~FakeFabric() {
  SLUICE_CHECK(current_fabric.load() == this);
  current_fabric = previous_;
  current_inside = previous_ == nullptr ? nullptr : previous_->fabric_.get();

  const FakeLiveObjects live = live_objects();
  SLUICE_CHECK(live.qps == 0);
  SLUICE_CHECK(live.ids == 0);
  SLUICE_CHECK(live.cqs == 0);
  SLUICE_CHECK(live.mrs == 0);
  SLUICE_CHECK(live.pds == 0);
  SLUICE_CHECK(live.comp_channels == 0);
  SLUICE_CHECK(live.event_channels == 0);
  SLUICE_CHECK(live.unacked_events == 0);
}

FakeFabric* FakeFabric::Current() { return current_fabric.load(); }

FakeFaults& FakeFabric::faults() { return faults_; }

FakeLiveObjects FakeFabric::live_objects() const {
  std::lock_guard lock(fabric_->mutex);
  return {.pds = fabric_->pds.size(),
          .mrs = fabric_->mrs.size(),
          .comp_channels = fabric_->comp_channels.size(),
          .cqs = fabric_->cqs.size(),
          .qps = fabric_->qps.size(),
          .event_channels = fabric_->event_channels.size(),
          .ids = fabric_->ids.size(),
          .unacked_events = fabric_->unacked_events};
}

ibv_context* FakeFabric::context(std::string_view device_name) const {
  std::lock_guard lock(fabric_->mutex);
  const fake::Device* device = fake::DeviceNamed(*fabric_, device_name);
  SLUICE_CHECK(device->present != nullptr);
  return device->present->verbs();
}

int FakeFabric::cq_high_water(ibv_cq* cq) const {
  std::lock_guard lock(fabric_->mutex);
  return fake::Cq::From(cq)->high_water;
}

bool FakeFabric::cq_alive(ibv_cq* cq) const {
  std::lock_guard lock(fabric_->mutex);
  return !fake::Cq::From(cq)->dead;
}

ibv_qp_state FakeFabric::qp_state(ibv_qp* qp) const {
  std::lock_guard lock(fabric_->mutex);
  return fake::Qp::From(qp)->live_state;
}

uint32_t FakeFabric::qp_reads_max(ibv_qp* qp) const {
  std::lock_guard lock(fabric_->mutex);
  return fake::Qp::From(qp)->reads_max;
}

uint64_t FakeFabric::rnr_count() const {
  std::lock_guard lock(fabric_->mutex);
  return fabric_->rnr_count;
}

uint64_t FakeFabric::completion_count() const {
  std::lock_guard lock(fabric_->mutex);
  return fabric_->completion_count;
}

uint64_t FakeFabric::overflow_count() const {
  std::lock_guard lock(fabric_->mutex);
  return fabric_->overflow_count;
}

}  // namespace sluice
