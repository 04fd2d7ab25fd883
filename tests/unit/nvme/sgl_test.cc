#include "nvme/sgl.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nvme/wire.h"

namespace sluice::nvme {
namespace {

constexpr uint32_t kTransferMax = 1 << 20;

Sqe Command(IoOpcode opcode, const SglBytes& sgl) {
  Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(opcode);
  sqe.sgl = sgl;
  return sqe;
}

TEST(EncodeSgl, PutsKeyedFieldsAtTheirOffsets) {
  const SglBytes bytes = EncodeKeyed({.address = 0x0807060504030201,
                                      .length_bytes = 0x0B0A09,
                                      .key = 0x0F0E0D0C},
                                     /*invalidate=*/true);

  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(bytes[i], std::byte(i + 1)) << i;
  EXPECT_EQ(bytes[15], std::byte{0x4F});
}

TEST(EncodeSgl, PutsUnkeyedFieldsAtTheirOffsets) {
  const SglBytes bytes = EncodeInCapsule(0x0807060504030201, 0x0C0B0A09);

  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(bytes[i], std::byte(i + 1)) << i;
  EXPECT_EQ(bytes[12], std::byte{0});
  EXPECT_EQ(bytes[14], std::byte{0});
  EXPECT_EQ(bytes[15], std::byte{0x01});
}

TEST(DecodeDataPointer, ReadsAKeyedDescriptor) {
  const KeyedDescriptor sent{
      .address = 0xFFFF888812340000, .length_bytes = 8192, .key = 0xDEADBE01};
  const Sqe sqe = Command(IoOpcode::kRead, EncodeKeyed(sent, false));
  DataPointer data;

  ASSERT_EQ(DecodeDataPointer(sqe, {}, kTransferMax, &data), kSuccess);

  EXPECT_EQ(data.kind, DataKind::kKeyed);
  EXPECT_FALSE(data.invalidate);
  EXPECT_EQ(data.total_bytes(), 8192u);
  ASSERT_EQ(data.descriptors().size(), 1u);
  EXPECT_EQ(data.descriptors()[0].address, sent.address);
  EXPECT_EQ(data.descriptors()[0].length_bytes, sent.length_bytes);
  EXPECT_EQ(data.descriptors()[0].key, sent.key);
}

TEST(DecodeDataPointer, RemembersTheKeyToInvalidate) {
  const Sqe sqe = Command(
      IoOpcode::kWrite,
      EncodeKeyed({.address = 1, .length_bytes = 512, .key = 77}, true));
  DataPointer data;

  ASSERT_EQ(DecodeDataPointer(sqe, {}, kTransferMax, &data), kSuccess);

  EXPECT_TRUE(data.invalidate);
  EXPECT_EQ(data.invalidate_key, 77u);
}

TEST(DecodeDataPointer, TakesLengthZeroAsNoData) {
  const SglBytes cases[] = {
      kNoDataSgl,
      EncodeKeyed({.address = 5, .length_bytes = 0, .key = 6}, false),
      EncodeKeyed({.address = 5, .length_bytes = 0, .key = 6}, true),
  };
  for (const SglBytes& sgl : cases) {
    DataPointer data;
    const Sqe sqe = Command(IoOpcode::kFlush, sgl);
    EXPECT_EQ(DecodeDataPointer(sqe, {}, kTransferMax, &data), kSuccess);
    EXPECT_EQ(data.kind, DataKind::kNone);
    EXPECT_EQ(data.total_bytes(), 0u);
    EXPECT_FALSE(data.invalidate);
  }
}

TEST(DecodeDataPointer, FindsDataInTheCapsule) {
  const std::vector<std::byte> in_capsule(4096);
  const Sqe sqe = Command(IoOpcode::kWrite, EncodeInCapsule(1024, 3072));
  DataPointer data;

  ASSERT_EQ(DecodeDataPointer(sqe, in_capsule, kTransferMax, &data), kSuccess);

  EXPECT_EQ(data.kind, DataKind::kInCapsule);
  EXPECT_EQ(data.offset_bytes, 1024u);
  EXPECT_EQ(data.total_bytes(), 3072u);
  EXPECT_TRUE(data.descriptors().empty());
}

TEST(DecodeDataPointer, ReadsSixteenDescriptorsFromTheCapsule) {
  std::vector<KeyedDescriptor> sent;
  for (uint32_t i = 0; i < kKeyedDescriptorsMax; ++i) {
    sent.push_back({.address = i * 4096, .length_bytes = 512 + i, .key = i});
  }
  std::vector<std::byte> in_capsule(16 + sent.size() * kSglDescriptorBytes);
  EncodeKeyedList(sent, absl::MakeSpan(in_capsule).subspan(16));
  const Sqe sqe = Command(IoOpcode::kRead, EncodeLastSegment(16, 256));
  DataPointer data;

  ASSERT_EQ(DecodeDataPointer(sqe, in_capsule, kTransferMax, &data), kSuccess);

  EXPECT_EQ(data.kind, DataKind::kKeyed);
  EXPECT_EQ(data.total_bytes(), 16u * 512 + 120);
  ASSERT_EQ(data.descriptors().size(), 16u);
  EXPECT_EQ(data.descriptors()[15].address, 15u * 4096);
  EXPECT_EQ(data.descriptors()[15].length_bytes, 527u);
  EXPECT_EQ(data.descriptors()[15].key, 15u);
}

TEST(DecodeDataPointer, SkipsEmptyDescriptorsOfASegment) {
  const KeyedDescriptor sent[] = {{.address = 1, .length_bytes = 0, .key = 1},
                                  {.address = 2, .length_bytes = 9, .key = 2}};
  std::vector<std::byte> in_capsule(32);
  EncodeKeyedList(sent, absl::MakeSpan(in_capsule));
  const Sqe sqe = Command(IoOpcode::kRead, EncodeLastSegment(0, 32));
  DataPointer data;

  ASSERT_EQ(DecodeDataPointer(sqe, in_capsule, kTransferMax, &data), kSuccess);

  ASSERT_EQ(data.descriptors().size(), 1u);
  EXPECT_EQ(data.descriptors()[0].key, 2u);
}

struct RejectCase {
  std::string name;
  IoOpcode opcode;
  SglBytes sgl;
  size_t in_capsule_bytes;
  Status expected;
};

SglBytes WithId(uint8_t id) {
  return EncodeSgl({.id = id, .address = 0, .length_bytes = 512, .key = 1});
}

// Every row of spec §2.9, and the hostile inputs below it. The capsule holds
// 40h descriptors of 64 KiB.
TEST(DecodeDataPointer, RejectsWithTheStatusOfTheTable) {
  constexpr auto kRead = IoOpcode::kRead;
  constexpr auto kWrite = IoOpcode::kWrite;
  const Status invalid_field = kInvalidField.WithDnr();
  const Status bad_type = kSglTypeInvalid.WithDnr();
  const Status bad_offset = kSglOffsetInvalid.WithDnr();
  const Status bad_segment = kInvalidSglSegment.WithDnr();
  const Status bad_length = kDataSglLengthInvalid.WithDnr();
  const RejectCase cases[] = {
      {"in capsule for a read", kRead, EncodeInCapsule(0, 512), 512,
       invalid_field},
      {"in capsule for a flush", IoOpcode::kFlush, EncodeInCapsule(0, 512), 512,
       invalid_field},
      {"in capsule, nothing received", kWrite, EncodeInCapsule(0, 512), 0,
       bad_offset},
      {"in capsule, one byte short", kWrite, EncodeInCapsule(0, 513), 512,
       bad_offset},
      {"in capsule, offset past the end", kWrite, EncodeInCapsule(513, 0), 512,
       bad_offset},
      {"in capsule, offset and length past the end", kWrite,
       EncodeInCapsule(256, 257), 512, bad_offset},
      {"in capsule, sum overflows 64 bits", kWrite,
       EncodeInCapsule(UINT64_MAX, 2), 512, bad_offset},
      {"in capsule, sum overflows 32 bits", kWrite,
       EncodeInCapsule(2, UINT32_MAX), 512, bad_offset},
      {"in capsule, above the transfer limit", kWrite,
       EncodeInCapsule(0, kTransferMax + 1), kTransferMax + 1, bad_length},
      {"data block by address", kRead, WithId(0x00), 0, invalid_field},
      {"data block, subtype 2", kRead, WithId(0x02), 0, invalid_field},
      {"keyed, subtype 1", kRead, WithId(0x41), 0, invalid_field},
      {"keyed, subtype Eh", kRead, WithId(0x4E), 0, invalid_field},
      {"bit bucket", kRead, WithId(0x10), 0, bad_type},
      {"segment by address", kRead, WithId(0x20), 0, bad_type},
      {"segment by offset", kRead, WithId(0x21), 512, bad_type},
      {"last segment by address", kRead, WithId(0x30), 512, bad_type},
      {"transport data block", kRead, WithId(0x5A), 0, bad_type},
      {"vendor type", kRead, WithId(0xF0), 0, bad_type},
      {"keyed, above the transfer limit", kRead,
       EncodeKeyed({.address = 0, .length_bytes = kTransferMax + 1, .key = 1},
                   false),
       0, bad_length},
      {"segment of length 0", kRead, EncodeLastSegment(0, 0), 512, bad_segment},
      {"segment of 15 bytes", kRead, EncodeLastSegment(0, 15), 512,
       bad_segment},
      {"segment of 17 bytes", kRead, EncodeLastSegment(0, 17), 512,
       bad_segment},
      {"segment beyond the capsule", kRead, EncodeLastSegment(0, 32), 31,
       bad_offset},
      {"segment offset beyond the capsule", kRead, EncodeLastSegment(512, 16),
       512, bad_offset},
      {"segment sum overflows", kRead, EncodeLastSegment(UINT64_MAX - 7, 16),
       512, bad_offset},
      {"17 descriptors", kRead, EncodeLastSegment(0, 17 * 16), 512,
       kInvalidSglCount.WithDnr()},
      {"segment above the transfer limit", kRead, EncodeLastSegment(0, 16 * 16),
       512, bad_length},
      {"segment not aligned to its descriptors", kRead,
       EncodeLastSegment(8, 16), 512, bad_type},
  };
  for (const RejectCase& c : cases) {
    std::vector<std::byte> in_capsule(c.in_capsule_bytes);
    const std::vector<KeyedDescriptor> filler(
        c.in_capsule_bytes / kSglDescriptorBytes,
        {.address = 0, .length_bytes = kTransferMax / 16 + 1, .key = 9});
    EncodeKeyedList(filler, absl::MakeSpan(in_capsule));
    DataPointer data;

    const Status status = DecodeDataPointer(Command(c.opcode, c.sgl),
                                            in_capsule, kTransferMax, &data);

    EXPECT_EQ(status, c.expected) << c.name << ": " << StatusName(status);
    EXPECT_EQ(data.kind, DataKind::kNone) << c.name;
    EXPECT_EQ(data.total_bytes(), 0u) << c.name;
  }
}

TEST(DecodeDataPointer, RejectsAnInnerDescriptorThatIsNot40h) {
  for (const int id : {0x00, 0x01, 0x31, 0x41, 0x4F, 0x5A}) {
    std::vector<std::byte> in_capsule(32);
    const KeyedDescriptor good{.address = 1, .length_bytes = 1, .key = 1};
    EncodeKeyedList({good, good}, absl::MakeSpan(in_capsule));
    in_capsule[31] = static_cast<std::byte>(id);
    DataPointer data;

    const Status status =
        DecodeDataPointer(Command(IoOpcode::kRead, EncodeLastSegment(0, 32)),
                          in_capsule, kTransferMax, &data);

    EXPECT_EQ(status, kSglTypeInvalid.WithDnr()) << id;
    EXPECT_EQ(data.keyed_count, 0u) << id;
  }
}

TEST(DecodeDataPointer, TakesTheLargestSum) {
  const std::vector<KeyedDescriptor> sent(
      kKeyedDescriptorsMax,
      {.address = 0, .length_bytes = kKeyedLengthBytesMax, .key = 1});
  std::vector<std::byte> in_capsule(256);
  EncodeKeyedList(sent, absl::MakeSpan(in_capsule));
  DataPointer data;

  const Status status =
      DecodeDataPointer(Command(IoOpcode::kRead, EncodeLastSegment(0, 256)),
                        in_capsule, UINT32_MAX, &data);

  EXPECT_EQ(status, kSuccess);
  EXPECT_EQ(data.total_bytes(), 16 * kKeyedLengthBytesMax);
}

TEST(DecodeDataPointer, AcceptsConnectDataInTheCapsule) {
  Sqe sqe;
  sqe.opcode = kFabricsOpcode;
  sqe.set_fctype(static_cast<uint8_t>(FabricsType::kConnect));
  sqe.sgl = EncodeInCapsule(0, 1024);
  const std::vector<std::byte> in_capsule(1024);
  DataPointer data;

  EXPECT_EQ(DecodeDataPointer(sqe, in_capsule, kTransferMax, &data), kSuccess);
  EXPECT_EQ(data.kind, DataKind::kInCapsule);
}

}  // namespace
}  // namespace sluice::nvme
