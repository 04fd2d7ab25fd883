// Writes the seed corpora of the fuzzers but toml_fuzz from the encoders:
//   fuzz/make_seeds tests/fuzz/corpus
// Run again when a format gains a field; the files are committed.

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/check.h"
#include "nvme/admin_command.h"
#include "nvme/connect.h"
#include "nvme/discovery_log.h"
#include "nvme/io_command.h"
#include "nvme/private_data.h"
#include "nvme/property.h"
#include "nvme/sgl.h"
#include "tests/fuzz/iwarp_input.h"
#include "tests/support/raw_stream.h"

namespace sluice::nvme {
namespace {

void Save(const std::string& path, absl::Span<const std::byte> bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  SLUICE_CHECK(file != nullptr);
  SLUICE_CHECK(std::fwrite(bytes.data(), 1, bytes.size(), file) ==
               bytes.size());
  SLUICE_CHECK(std::fclose(file) == 0);
}

std::vector<std::byte> Capsule(const Sqe& sqe, size_t in_capsule_bytes) {
  std::vector<std::byte> capsule(kSqeBytes + in_capsule_bytes);
  WriteSqe(sqe, absl::MakeSpan(capsule));
  return capsule;
}

void SaveCapsules(const std::string& folder) {
  const KeyedDescriptor keyed{
      .address = 0x7F0000001000, .length_bytes = 4096, .key = 0x1234};
  Sqe sqe{.cid = 1, .nsid = 1, .mptr = 1 << 20};
  sqe.sgl = EncodeKeyed(keyed, /*invalidate=*/true);
  EncodeBlock(IoOpcode::kRead, {.slba = 8, .nlb = 7}, &sqe);
  Save(folder + "/read_keyed", Capsule(sqe, 0));

  sqe.sgl = EncodeInCapsule(0, 512);
  EncodeBlock(IoOpcode::kWrite, {.slba = 8, .fua = true}, &sqe);
  Save(folder + "/write_in_capsule", Capsule(sqe, 512));

  sqe.sgl = EncodeLastSegment(0, 32);
  EncodeBlock(IoOpcode::kWrite, {.slba = 8, .nlb = 15}, &sqe);
  std::vector<std::byte> capsule = Capsule(sqe, 32);
  EncodeKeyedList({keyed, keyed}, absl::MakeSpan(capsule).subspan(kSqeBytes));
  Save(folder + "/write_two_descriptors", capsule);

  Sqe dsm{.cid = 2, .nsid = 1};
  dsm.sgl = EncodeInCapsule(0, 32);
  EncodeDsm({.nr = 1, .deallocate = true}, &dsm);
  capsule = Capsule(dsm, 32);
  const auto ranges = absl::MakeSpan(capsule).subspan(kSqeBytes);
  WriteDsmRange({.block_count = 8, .slba = 64}, 0, ranges);
  WriteDsmRange({.block_count = 8, .slba = 128}, 1, ranges);
  Save(folder + "/dsm", capsule);

  Sqe log{.cid = 3};
  log.sgl = EncodeKeyed(keyed, /*invalidate=*/false);
  EncodeGetLogPage({.lid = 0x70, .length_bytes = 20, .offset_bytes = 8}, &log);
  Save(folder + "/get_log_page", Capsule(log, 16));

  Sqe property{.cid = 4};
  EncodePropertySet({.offset_bytes = 0x14, .value = 0x00460001}, &property);
  Save(folder + "/property_set", Capsule(property, 0));
}

void SaveConnects(const std::string& folder) {
  Save(folder + "/request",
       EncodeConnectRequest({.qid = 1, .hrqsize = 128, .hsqsize = 127}));
  Save(folder + "/reject",
       EncodeConnectReject({.reason = RejectReason::kNoResources}));

  Sqe sqe;
  EncodeConnectCommand({.qid = 5, .sqsize = 127, .kato_ms = 5000}, &sqe);
  Save(folder + "/command", Capsule(sqe, 0));

  ConnectData data;
  SLUICE_CHECK(Nqn::FromText("nqn.2026-01.io.sluice:disk", &data.subnqn));
  SLUICE_CHECK(
      Nqn::FromText("nqn.2014-08.org.nvmexpress:uuid:0", &data.hostnqn));
  Save(folder + "/data", EncodeConnectData(data));

  DiscoveryEntry entry;
  entry.service = "4420";
  entry.subnqn = "nqn.2026-01.io.sluice:disk";
  entry.address = "192.0.2.1";
  const std::vector<std::byte> log = BuildDiscoveryLog(1, {entry});
  const auto bytes = absl::MakeConstSpan(log);
  Save(folder + "/discovery_header", bytes.first(20));
  Save(folder + "/discovery_entry", bytes.subspan(kDiscoveryHeaderBytes));
}

}  // namespace
}  // namespace sluice::nvme

namespace sluice::iwarp {
namespace {

// A record of iwarp_fuzz: a segment without its ULPDU_Length.
Bytes Record(const Bytes& fpdu) {
  SLUICE_CHECK(fpdu.size() - 2 <= UINT8_MAX);
  Bytes record = {static_cast<std::byte>(fpdu.size() - 2)};
  record.insert(record.end(), fpdu.begin() + 2, fpdu.end());
  return record;
}

uint64_t Address(uint32_t region, int32_t offset) {
  return uint64_t{kAddressMark | region} << 32 | static_cast<uint32_t>(offset);
}

void SaveStreams(const std::string& folder) {
  const auto save = [&folder](const std::string& name, int flags, int piece,
                              const std::vector<Bytes>& fpdus) {
    Bytes input = {static_cast<std::byte>(flags | kFuzzRecords),
                   static_cast<std::byte>(piece)};
    for (const Bytes& fpdu : fpdus) input = std::move(input) + Record(fpdu);
    nvme::Save(folder + "/" + name, input);
  };
  const Bytes write = Tagged(kWriteLast, kKeyMark | kFuzzWritable,
                             Address(kFuzzWritable, 8), Bytes(40));
  const Bytes read = ReadRequest({.bytes = 300,
                                  .source_stag = kKeyMark | kFuzzReadable,
                                  .source_to = Address(kFuzzReadable, 0)});
  const Bytes first = Untagged(kSendLast & ~kLastBit, 0, 0, 1, 0, Bytes(20));
  const Bytes second = Untagged(kSendLast, 0, 0, 1, 20, Bytes(20));
  const auto response = [](uint16_t control, int offset, size_t bytes) {
    return Tagged(control, kKeyMark | kFuzzSink, Address(kFuzzSink, offset),
                  Bytes(bytes));
  };
  save("mixed", kFuzzPassive, 0, {write, first, second, read});
  save("mixed_crc", kFuzzPassive | kFuzzCrc, 7, {write, first, second, read});
  save("bytewise", kFuzzCrc, 1, {write, read, first, second});
  save("answers", kFuzzReads | kFuzzCrc, 0,
       {response(kReadResponseLast, 0, 96),
        response(kReadResponseLast & ~kLastBit, 0, 40),
        response(kReadResponseLast, 40, 56), first});
  save("answer_too_long", kFuzzReads, 0, {response(kReadResponseLast, 0, 97)});
  save("late_receives", kFuzzNoReceives | kFuzzSends, 0, {first, second});
  save("invalidate", kFuzzSends, 0,
       {Untagged(kSendInvalidateLast, kKeyMark | kFuzzMortal, 0, 1, 0),
        Tagged(kWriteLast, kKeyMark | kFuzzMortal, Address(kFuzzMortal, 0),
               Bytes(8))});
  save("deregister", kFuzzDeregister | kFuzzDisconnect, 16,
       {Tagged(kWriteLast, kKeyMark | kFuzzMortal, Address(kFuzzMortal, 4000),
               Bytes(80)),
        ReadRequest({.bytes = 4096,
                     .source_stag = kKeyMark | kFuzzMortal,
                     .source_to = Address(kFuzzMortal, 0)})});
  save("stranger", 0, 0,
       {Tagged(kWriteLast, kKeyMark | kFuzzStranger, Address(kFuzzStranger, 0),
               Bytes(8))});
  save("terminate", kFuzzReads, 0,
       {Untagged(kTerminateLast, 0, 2, 1, 0, FromHex("1101c000"))});
  // Long segments, which are read to where they belong.
  const Bytes header =
      Tagged(kWriteLast, kKeyMark | kFuzzWritable, Address(kFuzzWritable, 0));
  Bytes large = {std::byte{kFuzzRecords | kFuzzCrc}, std::byte{0}, std::byte{0},
                 std::byte{100}};
  large = std::move(large) + Record(header) + Record(first) + Record(second);
  nvme::Save(folder + "/large", large);
  // As it is.
  nvme::Save(folder + "/raw", Bytes(2) + Seal(write, false) +
                                  Seal(first, false) + Seal(second, false));
}

void SaveFrames(const std::string& folder) {
  nvme::Save(folder + "/request", MpaText({.data = Bytes(32)}));
  nvme::Save(folder + "/reply", MpaText({.reply = true, .crc = true}));
  nvme::Save(folder + "/revision_1",
             MpaText({.revision = 1, .enhanced = false, .data = Bytes(5)}));
  nvme::Save(folder + "/write", Tagged(kWriteLast, 1, 2, Bytes(3)));
  nvme::Save(folder + "/read", ReadRequest({.bytes = 4}));
  nvme::Save(folder + "/send", Untagged(kSendLast, 0, 0, 1, 0, Bytes(5)));
  nvme::Save(folder + "/terminate",
             Untagged(kTerminateLast, 0, 2, 1, 0, FromHex("12020000")));
}

}  // namespace
}  // namespace sluice::iwarp

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds <corpus folder>\n");
    return EXIT_FAILURE;
  }
  const std::string corpus = argv[1];
  sluice::nvme::SaveCapsules(corpus + "/capsule_fuzz");
  sluice::nvme::SaveConnects(corpus + "/connect_fuzz");
  sluice::iwarp::SaveStreams(corpus + "/iwarp_fuzz");
  sluice::iwarp::SaveFrames(corpus + "/mpa_fuzz");
  return EXIT_SUCCESS;
}
