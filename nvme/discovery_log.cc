#include "nvme/discovery_log.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nvme/nqn.h"
#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

// TSAS [spec §5.2].
constexpr uint8_t kQptypeReliableConnected = 1;
constexpr uint8_t kCmsRdmaCm = 1;

// What a reader needs of the header.
constexpr size_t kHeaderBytesMin = 18;

// `out` is zeroed and keeps a NUL at its end.
void FillText(absl::string_view text, char* out, size_t bytes) {
  std::memcpy(out, text.data(), std::min(text.size(), bytes - 1));
}

// Up to the first NUL, without trailing spaces.
std::string ReadText(const char* text, size_t bytes) {
  absl::string_view view(text, bytes);
  view = view.substr(0, view.find('\0'));
  const size_t last = view.find_last_not_of(' ');
  return std::string(
      view.substr(0, last == absl::string_view::npos ? 0 : last + 1));
}

void BuildEntry(const DiscoveryEntry& entry, nvmf_disc_log_entry* out) {
  std::memset(out, 0, sizeof(*out));
  out->trtype = static_cast<uint8_t>(entry.transport);
  out->adrfam = static_cast<uint8_t>(entry.family);
  out->subtype = static_cast<uint8_t>(entry.subtype);
  out->treq = entry.treq;
  out->portid = entry.port_id;
  out->cntlid = entry.cntlid;
  out->asqsz = entry.admin_depth_max;
  out->eflags = entry.eflags;
  FillText(entry.service, out->trsvcid, sizeof(out->trsvcid));
  FillText(absl::string_view(entry.subnqn).substr(0, kNqnLengthMax),
           out->subnqn, sizeof(out->subnqn));
  FillText(entry.address, out->traddr, sizeof(out->traddr));
  if (entry.transport != TransportType::kRdma) return;
  out->tsas.rdma.qptype = kQptypeReliableConnected;
  out->tsas.rdma.prtype = static_cast<uint8_t>(entry.provider);
  out->tsas.rdma.cms = kCmsRdmaCm;
}

}  // namespace

std::vector<std::byte> BuildDiscoveryLog(
    uint64_t generation, absl::Span<const DiscoveryEntry> entries) {
  std::vector<std::byte> log(kDiscoveryHeaderBytes +
                             entries.size() * kDiscoveryEntryBytes);
  const auto span = absl::MakeSpan(log);
  Store64(span, 0, generation);
  Store64(span, 8, entries.size());
  Store16(span, 16, 0);  // RECFMT
  size_t offset = kDiscoveryHeaderBytes;
  for (const DiscoveryEntry& entry : entries) {
    nvmf_disc_log_entry wire;
    BuildEntry(entry, &wire);
    std::memcpy(log.data() + offset, &wire, sizeof(wire));
    offset += sizeof(wire);
  }
  return log;
}

absl::StatusOr<DiscoveryHeader> DecodeDiscoveryHeader(
    absl::Span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytesMin) {
    return absl::InvalidArgumentError(
        absl::StrCat("discovery log header: ", bytes.size(), " bytes"));
  }
  const uint16_t record_format = Load16(bytes, 16);
  if (record_format != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("discovery log header: record format ", record_format));
  }
  return DiscoveryHeader{.generation = Load64(bytes, 0),
                         .entry_count = Load64(bytes, 8)};
}

absl::StatusOr<DiscoveryEntry> DecodeDiscoveryEntry(
    absl::Span<const std::byte> bytes) {
  if (bytes.size() < kDiscoveryEntryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("discovery log entry: ", bytes.size(), " bytes"));
  }
  nvmf_disc_log_entry wire;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  DiscoveryEntry entry;
  entry.transport = static_cast<TransportType>(wire.trtype);
  entry.family = static_cast<AddressFamily>(wire.adrfam);
  entry.subtype = static_cast<SubsystemType>(wire.subtype);
  entry.treq = wire.treq;
  entry.port_id = wire.portid;
  entry.cntlid = wire.cntlid;
  entry.admin_depth_max = wire.asqsz;
  entry.eflags = wire.eflags;
  entry.service = ReadText(wire.trsvcid, sizeof(wire.trsvcid));
  entry.subnqn = ReadText(wire.subnqn, sizeof(wire.subnqn));
  entry.address = ReadText(wire.traddr, sizeof(wire.traddr));
  entry.provider = static_cast<RdmaProvider>(wire.tsas.rdma.prtype);
  Nqn nqn;
  if (!Nqn::FromText(entry.subnqn, &nqn)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "discovery log entry: SUBNQN of ", entry.subnqn.size(), " bytes"));
  }
  return entry;
}

}  // namespace sluice::nvme
