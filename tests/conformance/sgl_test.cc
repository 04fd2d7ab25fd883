// SGLs: kinds, lengths, offsets, addresses and keys, right and wrong
// [spec §2.4, §2.6, §2.8, §2.9].
#include <algorithm>
#include <initializer_list>

#include "nvme/wire.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/pattern.h"
#include "tests/conformance/raw_window.h"

namespace sluice::conformance {
namespace {

constexpr const char* kField = "0x002|DNR";
constexpr const char* kLength = "0x00F|DNR";
constexpr const char* kType = "0x011|DNR";
constexpr const char* kOffset = "0x016|DNR";

class Sgl : public Conformance {
 protected:
  nvme::Sqe Block(const Io& io, nvme::IoOpcode opcode,
                  const nvme::SglBytes& sgl, uint32_t block_count = 1) const {
    nvme::Sqe sqe = BlockSqe(io, opcode, 0, block_count);
    sqe.sgl = sgl;
    return sqe;
  }
  std::string Run(const Io& io, nvme::IoOpcode opcode,
                  const nvme::SglBytes& sgl, uint32_t block_count = 1) {
    return Text(io.queue->Execute(Block(io, opcode, sgl, block_count)));
  }
  std::string WriteInCapsule(const Io& io, uint64_t offset, uint32_t length,
                             const Bytes& capsule) {
    return Text(io.queue->Execute(Block(io, nvme::IoOpcode::kWrite,
                                        nvme::EncodeInCapsule(offset, length)),
                                  capsule));
  }
  // Block 0 is this pattern.
  void ExpectOnDisk(const Io& io, uint64_t seed) {
    io.queue->data().Fill(0);
    ASSERT_EQ(Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0))),
              "0x000");
    EXPECT_EQ(DiffersFromPattern(
                  seed, io.queue->data().bytes(0, limits().block_bytes)),
              "");
  }
  // A transfer that breaks the connection: never a status, and never a dead
  // target, which the fixture looks at.
  void ExpectConnectionEnds(const nvme::KeyedDescriptor& wrong,
                            nvme::IoOpcode opcode) {
    const Io io = NewIo();
    ASSERT_TRUE(io);
    Check("", Run(io, opcode, nvme::EncodeKeyed(wrong, false)), {"closed"});
  }
  bool no_in_capsule() const { return limits().in_capsule_bytes == 0; }
};

TEST_F(Sgl, KeyedShort) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  for (const uint32_t bytes : {block, 2 * block - 1, 1u}) {
    const auto sgl = io.queue->data().Keyed(0, bytes);
    Check(absl::StrCat("read ", bytes), Run(io, nvme::IoOpcode::kRead, sgl, 2),
          {kLength});
    Check(absl::StrCat("write ", bytes),
          Run(io, nvme::IoOpcode::kWrite, sgl, 2), {kLength});
  }
}

TEST_F(Sgl, KeyedLong) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  FillPattern(1, io.queue->data().bytes(0, block));
  const auto sgl = io.queue->data().Keyed(0, 3 * block);
  Check("write", Run(io, nvme::IoOpcode::kWrite, sgl), {"0x000"});
  io.queue->data().Fill(0xEE);
  const std::string read = Run(io, nvme::IoOpcode::kRead, sgl);
  Check("read", read, {"0x000"});
  if (read != "0x000") return;
  // Never more than was asked for.
  EXPECT_EQ(DiffersFrom(0xEE, io.queue->data().bytes(block, 2 * block)), "");
}

TEST_F(Sgl, KeyedZeroLength) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const auto sgl = io.queue->data().Keyed(0, 0);
  Check("read", Run(io, nvme::IoOpcode::kRead, sgl), {kLength});
  Check("write", Run(io, nvme::IoOpcode::kWrite, sgl), {kLength});
  Check("no data", Run(io, nvme::IoOpcode::kRead, nvme::kNoDataSgl), {kLength});
}

TEST_F(Sgl, WrongKeyOnRead) {
  ExpectConnectionEnds({.address = 0x1000,
                        .length_bytes = limits().block_bytes,
                        .key = 0xDEADBEEF},
                       nvme::IoOpcode::kRead);
}

TEST_F(Sgl, WrongKeyOnWrite) {
  ExpectConnectionEnds({.address = 0x1000,
                        .length_bytes = limits().block_bytes,
                        .key = 0xDEADBEEF},
                       nvme::IoOpcode::kWrite);
}

TEST_F(Sgl, WrongAddress) {
  for (const auto opcode : {nvme::IoOpcode::kRead, nvme::IoOpcode::kWrite}) {
    const Io io = NewIo();
    ASSERT_TRUE(io);
    // The last block but one byte is inside.
    const RawMemory& memory = io.queue->data();
    const auto sgl = memory.Keyed(memory.size() - limits().block_bytes + 1,
                                  limits().block_bytes);
    Check("", Run(io, opcode, sgl), {"closed"});
  }
}

TEST_F(Sgl, WrongKeyHurtsNoOther) {
  const Io other = NewIo();
  const Io io = NewIo();
  ASSERT_TRUE(other);
  ASSERT_TRUE(io);
  (void)Run(io, nvme::IoOpcode::kRead,
            nvme::EncodeKeyed({.address = 0x1000,
                               .length_bytes = limits().block_bytes,
                               .key = 0xDEADBEEF},
                              false));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(
        Text(other.queue->Execute(BlockSqe(other, nvme::IoOpcode::kRead, 0))),
        "0x000");
  }
}

TEST_F(Sgl, OddAddresses) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  uint64_t seed = 100;
  for (const size_t offset : {1u, 3u, 511u, 4095u, 4097u, 8191u}) {
    FillPattern(++seed, io.queue->data().bytes(offset, 2 * block));
    const auto sgl = io.queue->data().Keyed(offset, 2 * block);
    ASSERT_EQ(Run(io, nvme::IoOpcode::kWrite, sgl, 2), "0x000") << offset;
    io.queue->data().Fill(0xEE);
    ASSERT_EQ(Run(io, nvme::IoOpcode::kRead, sgl, 2), "0x000") << offset;
    EXPECT_EQ(
        DiffersFromPattern(seed, io.queue->data().bytes(offset, 2 * block)),
        "");
    EXPECT_EQ(DiffersFrom(0xEE, io.queue->data().bytes(0, offset)), "");
    EXPECT_EQ(DiffersFrom(0xEE, io.queue->data().bytes(offset + 2 * block, 64)),
              "");
  }
}

TEST_F(Sgl, UnknownTypes) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  nvme::SglDescriptor descriptor{.address = io.queue->data().address(),
                                 .length_bytes = limits().block_bytes,
                                 .key = io.queue->data().rkey()};
  for (const uint8_t id :
       std::initializer_list<uint8_t>{0x00, 0x02, 0x0F, 0x41, 0x42, 0x4E}) {
    descriptor.id = id;
    Check(absl::StrCat("0x", absl::Hex(id, absl::kZeroPad2)),
          Run(io, nvme::IoOpcode::kRead, nvme::EncodeSgl(descriptor)),
          {kField, kType});
  }
  for (const uint8_t id : std::initializer_list<uint8_t>{
           0x10, 0x20, 0x21, 0x30, 0x50, 0x5A, 0x60, 0xF0}) {
    descriptor.id = id;
    Check(absl::StrCat("0x", absl::Hex(id, absl::kZeroPad2)),
          Run(io, nvme::IoOpcode::kRead, nvme::EncodeSgl(descriptor)), {kType});
  }
}

TEST_F(Sgl, InCapsule) {
  if (no_in_capsule()) GTEST_SKIP() << "the target offers none";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  Check("", WriteInCapsule(io, 0, block, Pattern(7, block)), {"0x000"});
  ExpectOnDisk(io, 7);
}

TEST_F(Sgl, InCapsuleOffset) {
  const uint32_t block = limits().block_bytes;
  if (limits().in_capsule_bytes < block + 512) GTEST_SKIP() << "no room";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  uint64_t seed = 200;
  for (const size_t offset : {1u, 13u, 64u, 511u, 512u}) {
    Bytes capsule(offset + block, std::byte{0xEE});
    FillPattern(++seed, absl::MakeSpan(capsule).subspan(offset));
    const std::string answer = WriteInCapsule(io, offset, block, capsule);
    Check(absl::StrCat(offset), answer, {"0x000"});
    if (answer == "0x000") ExpectOnDisk(io, seed);
  }
}

TEST_F(Sgl, InCapsuleFull) {
  const uint32_t bytes = limits().in_capsule_bytes;
  if (bytes < limits().block_bytes) GTEST_SKIP() << "no room";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t count = bytes / limits().block_bytes;
  const uint32_t used = count * limits().block_bytes;
  const auto sqe =
      Block(io, nvme::IoOpcode::kWrite, nvme::EncodeInCapsule(0, used), count);
  ASSERT_EQ(Text(io.queue->Execute(sqe, Pattern(9, used))), "0x000");
  io.queue->data().Fill(0);
  ASSERT_EQ(
      Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0, count))),
      "0x000");
  EXPECT_EQ(DiffersFromPattern(9, io.queue->data().bytes(0, used)), "");
}

TEST_F(Sgl, InCapsuleShort) {
  if (no_in_capsule()) GTEST_SKIP() << "the target offers none";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  Check("one byte less", WriteInCapsule(io, 0, block - 1, Pattern(1, block)),
        {kLength});
  Check("nothing", WriteInCapsule(io, 0, 0, Pattern(1, block)), {kLength});
}

TEST_F(Sgl, InCapsuleBeyondWhatCame) {
  if (no_in_capsule()) GTEST_SKIP() << "the target offers none";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  Check("one byte short", WriteInCapsule(io, 0, block, Pattern(1, block - 1)),
        {kOffset});
  Check("no byte", WriteInCapsule(io, 0, block, {}), {kOffset});
  Check("offset 1", WriteInCapsule(io, 1, block, Pattern(1, block)), {kOffset});
}

TEST_F(Sgl, InCapsuleBeyondTheCapsule) {
  if (no_in_capsule()) GTEST_SKIP() << "the target offers none";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  const uint64_t size = limits().in_capsule_bytes;
  const Bytes data = Pattern(1, block);
  for (const uint64_t offset :
       {size, size - block + 1, size + 1, uint64_t{1} << 31, uint64_t{1} << 32,
        uint64_t{1} << 63}) {
    Check(absl::StrCat("0x", absl::Hex(offset)),
          WriteInCapsule(io, offset, block, data), {kOffset});
  }
  Check("length", WriteInCapsule(io, 0, 0x7FFFFFFF, data), {kOffset, kLength});
}

TEST_F(Sgl, InCapsuleOffsetOverflow) {
  if (no_in_capsule()) GTEST_SKIP() << "the target offers none";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  const Bytes data = Pattern(1, block);
  Check("sum 0", WriteInCapsule(io, -uint64_t{block}, block, data), {kOffset});
  Check("sum 1", WriteInCapsule(io, 1 - uint64_t{block}, block, data),
        {kOffset});
}

TEST_F(Sgl, InCapsuleWhereNoneBelongs) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  const auto sgl = nvme::EncodeInCapsule(0, block);
  Check("read", Run(io, nvme::IoOpcode::kRead, sgl), {kField});
  nvme::Sqe flush;
  flush.opcode = static_cast<uint8_t>(nvme::IoOpcode::kFlush);
  flush.nsid = limits().nsid;
  flush.sgl = sgl;
  Check("flush", Text(io.queue->Execute(flush, Pattern(1, block))), {kField});
}

class SglList : public Sgl {
 protected:
  bool served() const { return limits().keyed_descriptors_max > 1; }

  // `pieces` of one block each, all over the memory, in reverse.
  static Bytes List(const Io& io, uint32_t pieces, uint32_t block) {
    Bytes list(pieces * nvme::kSglDescriptorBytes);
    std::vector<nvme::KeyedDescriptor> descriptors;
    for (uint32_t i = 0; i < pieces; ++i) {
      descriptors.push_back(
          io.queue->data().Piece((pieces - 1 - i) * size_t{2} * block, block));
    }
    nvme::EncodeKeyedList(descriptors, absl::MakeSpan(list));
    return list;
  }
  std::string RunList(const Io& io, nvme::IoOpcode opcode, uint64_t offset,
                      uint32_t length, uint32_t block_count,
                      const Bytes& capsule) {
    return Text(io.queue->Execute(
        Block(io, opcode, nvme::EncodeLastSegment(offset, length), block_count),
        capsule));
  }
};

TEST_F(SglList, RoundTrip) {
  if (!served()) GTEST_SKIP() << "MSDBD is 1";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  for (const uint32_t pieces :
       {1u, 2u, 3u, std::min(16u, limits().keyed_descriptors_max)}) {
    const Bytes list = List(io, pieces, block);
    const auto list_bytes = static_cast<uint32_t>(list.size());
    const auto at = [&](uint32_t piece) {
      return io.queue->data().bytes((pieces - 1 - piece) * size_t{2} * block,
                                    block);
    };
    for (uint32_t i = 0; i < pieces; ++i) FillPattern(300 + i, at(i));
    ASSERT_EQ(RunList(io, nvme::IoOpcode::kWrite, 0, list_bytes, pieces, list),
              "0x000");
    io.queue->data().Fill(0);
    ASSERT_EQ(RunList(io, nvme::IoOpcode::kRead, 0, list_bytes, pieces, list),
              "0x000");
    for (uint32_t i = 0; i < pieces; ++i) {
      EXPECT_EQ(DiffersFromPattern(300 + i, at(i)), "") << i << "/" << pieces;
    }
  }
}

TEST_F(SglList, NotServed) {
  if (served()) GTEST_SKIP() << "MSDBD is " << limits().keyed_descriptors_max;
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const Bytes list = List(io, 2, limits().block_bytes);
  Check("", RunList(io, nvme::IoOpcode::kRead, 0, 32, 2, list), {kType});
}

TEST_F(SglList, Wrong) {
  if (!served()) GTEST_SKIP() << "MSDBD is 1";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  const auto read = nvme::IoOpcode::kRead;
  const Bytes list = List(io, 2, block);
  Check("length 0", RunList(io, read, 0, 0, 2, list),
        {"0x00D|DNR", kLength, kType});
  Check("length 17", RunList(io, read, 0, 17, 1, list),
        {"0x00D|DNR", kLength, kType});
  Check("length beyond what came", RunList(io, read, 0, 48, 2, list),
        {kOffset, "0x00D|DNR"});
  Check("offset beyond what came", RunList(io, read, 16, 32, 2, list),
        {kOffset, "0x00D|DNR"});
  Check("offset overflow", RunList(io, read, -uint64_t{16}, 32, 2, list),
        {kOffset, "0x00D|DNR"});
  Check("sum too short", RunList(io, read, 0, 32, 3, list), {kLength});

  const Bytes many = List(io, 17, block);
  Check("17 descriptors", RunList(io, read, 0, 17 * 16, 17, many),
        {"0x00E|DNR"});

  Bytes inner = list;
  for (const uint8_t id :
       std::initializer_list<uint8_t>{0x01, 0x00, 0x31, 0x5A}) {
    inner[15] = std::byte{id};
    Check(absl::StrCat("inner 0x", absl::Hex(id, absl::kZeroPad2)),
          RunList(io, read, 0, 32, 2, inner), {kType});
  }
}

class Invalidate : public Sgl {};

TEST_F(Invalidate, OnlyWhenAsked) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const auto opcode : {nvme::IoOpcode::kRead, nvme::IoOpcode::kWrite}) {
    const auto response = io.queue->Execute(BlockSqe(io, opcode, 0));
    ASSERT_EQ(Text(response), "0x000");
    EXPECT_FALSE(response->with_invalidate);
  }
  // The key still lives: the same memory once more.
  EXPECT_EQ(Text(io.queue->Execute(BlockSqe(io, nvme::IoOpcode::kRead, 0))),
            "0x000");
}

TEST_F(Invalidate, TheRightKey) {
  for (const auto opcode : {nvme::IoOpcode::kRead, nvme::IoOpcode::kWrite}) {
    const Io io = NewIo();
    ASSERT_TRUE(io);
    auto memory = io.queue->connection().CreateMemory(limits().block_bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    auto window = RawWindow::Create(&io.queue->connection(), memory->get());
    if (!window.ok()) GTEST_SKIP() << window.status();
    const auto response = io.queue->Execute(
        Block(io, opcode, (*window)->Keyed(0, limits().block_bytes)));
    ASSERT_EQ(Text(response), "0x000");
    // Optional for the target, but then the right one.
    if (!response->with_invalidate) continue;
    EXPECT_EQ(response->invalidated_key, (*window)->rkey());
  }
}

TEST_F(Invalidate, OnErrorsTheRightKeyOrNone) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  auto memory = io.queue->connection().CreateMemory(limits().block_bytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  auto window = RawWindow::Create(&io.queue->connection(), memory->get());
  if (!window.ok()) GTEST_SKIP() << window.status();
  nvme::Sqe sqe = BlockSqe(io, nvme::IoOpcode::kRead, limits().block_count);
  sqe.sgl = (*window)->Keyed(0, limits().block_bytes);
  const auto response = io.queue->Execute(sqe);
  Check("", Text(response), {"0x080|DNR"});
  ASSERT_TRUE(response.ok());
  if (response->with_invalidate) {
    EXPECT_EQ(response->invalidated_key, (*window)->rkey());
  }
}

}  // namespace
}  // namespace sluice::conformance
