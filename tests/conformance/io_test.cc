// The NVM command set: data that comes back, the ends of a namespace, the
// limits of a transfer, the optional commands, and opcodes, namespaces and
// flags that are not served [spec §7].
#include <algorithm>
#include <initializer_list>

#include "core/status_macros.h"
#include "nvme/io_command.h"
#include "tests/conformance/conformance.h"
#include "tests/conformance/pattern.h"

namespace sluice::conformance {
namespace {

constexpr const char* kGood = "0x000";
constexpr const char* kOpcode = "0x001|DNR";
constexpr const char* kField = "0x002|DNR";
constexpr const char* kNamespace = "0x00B|DNR";
constexpr const char* kLength = "0x00F|DNR";
constexpr const char* kRange = "0x080|DNR";

// ONCS [spec §6.2].
constexpr uint16_t kOncsCompare = 1 << 0;
constexpr uint16_t kOncsDsm = 1 << 2;
constexpr uint16_t kOncsWriteZeroes = 1 << 3;

class IoCommand : public Conformance {
 protected:
  std::string Run(const Io& io, const nvme::Sqe& sqe) {
    return Text(io.queue->Execute(sqe, {}, 4 * kWait));
  }
  std::string Run(const Io& io, nvme::IoOpcode opcode, uint64_t slba,
                  uint32_t block_count = 1) {
    return Run(io, BlockSqe(io, opcode, slba, block_count));
  }
  absl::Span<std::byte> Blocks(const Io& io, uint32_t block_count) const {
    return io.queue->data().bytes(0,
                                  size_t{block_count} * limits().block_bytes);
  }
  void RoundTrip(const Io& io, uint64_t slba, uint32_t block_count,
                 uint64_t seed) {
    FillPattern(seed, Blocks(io, block_count));
    ASSERT_EQ(Run(io, nvme::IoOpcode::kWrite, slba, block_count), kGood);
    ExpectPattern(io, slba, block_count, seed);
  }
  void ExpectPattern(const Io& io, uint64_t slba, uint32_t block_count,
                     uint64_t seed) {
    io.queue->data().Fill(0xEE);
    ASSERT_EQ(Run(io, nvme::IoOpcode::kRead, slba, block_count), kGood);
    EXPECT_EQ(DiffersFromPattern(seed, Blocks(io, block_count)), "")
        << block_count << " blocks at " << slba;
  }
  void ExpectZeroes(const Io& io, uint64_t slba, uint32_t block_count) {
    io.queue->data().Fill(0xEE);
    ASSERT_EQ(Run(io, nvme::IoOpcode::kRead, slba, block_count), kGood);
    EXPECT_EQ(DiffersFrom(0, Blocks(io, block_count)), "");
  }
  uint32_t blocks_max() const {
    return limits().transfer_bytes_max / limits().block_bytes;
  }
  // Without data.
  nvme::Sqe Bare(const Io& io, nvme::IoOpcode opcode, uint64_t slba,
                 uint32_t block_count = 1) const {
    nvme::Sqe sqe = BlockSqe(io, opcode, slba, block_count);
    sqe.sgl = nvme::kNoDataSgl;
    return sqe;
  }
  nvme::Sqe Flush() const {
    nvme::Sqe sqe;
    sqe.opcode = static_cast<uint8_t>(nvme::IoOpcode::kFlush);
    sqe.nsid = limits().nsid;
    return sqe;
  }
  // Deallocates; range 0 is written to the data.
  nvme::Sqe Dsm(const Io& io, const nvme::DsmRange& range, uint32_t bytes,
                bool deallocate = true, uint8_t nr = 0) const {
    nvme::WriteDsmRange(range, 0, io.queue->data().bytes());
    nvme::Sqe sqe;
    nvme::EncodeDsm({.nr = nr, .deallocate = deallocate}, &sqe);
    sqe.nsid = limits().nsid;
    sqe.sgl = io.queue->data().Keyed(0, bytes);
    return sqe;
  }
};

TEST_F(IoCommand, RoundTripsOfAllSizes) {
  const Io io = NewIo(16, limits().transfer_bytes_max);
  ASSERT_TRUE(io);
  uint64_t seed = 1000;
  for (uint32_t count = 1; count < blocks_max(); count *= 2) {
    RoundTrip(io, 3, count, ++seed);
    ++seed;
    RoundTrip(io, 8 * seed, count + 1, seed);
  }
  RoundTrip(io, 0, blocks_max(), ++seed);
}

TEST_F(IoCommand, RoundTripsInCapsule) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint32_t block = limits().block_bytes;
  const uint32_t count_max = limits().in_capsule_bytes / block;
  if (count_max == 0) GTEST_SKIP() << "no room for a block";
  for (uint32_t count = 1; count <= count_max; ++count) {
    nvme::Sqe sqe = BlockSqe(io, nvme::IoOpcode::kWrite, count, count);
    sqe.sgl = nvme::EncodeInCapsule(0, count * block);
    ASSERT_EQ(
        Text(io.queue->Execute(sqe, Pattern(count, size_t{count} * block))),
        kGood);
    ExpectPattern(io, count, count, count);
  }
}

TEST_F(IoCommand, LastBlock) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint64_t end = limits().block_count;
  RoundTrip(io, end - 1, 1, 1);
  RoundTrip(io, end - 8, 8, 2);
}

TEST_F(IoCommand, PastTheEnd) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint64_t end = limits().block_count;
  for (const auto opcode : {nvme::IoOpcode::kRead, nvme::IoOpcode::kWrite}) {
    const std::string name = opcode == nvme::IoOpcode::kRead ? "read" : "write";
    Check(name + " at", Run(io, opcode, end), {kRange});
    Check(name + " across", Run(io, opcode, end - 1, 2), {kRange});
    Check(name + " beyond", Run(io, opcode, end + 1000), {kRange});
    Check(name + " overflow", Run(io, opcode, ~uint64_t{0}), {kRange});
    Check(name + " overflow to 0", Run(io, opcode, ~uint64_t{0}, 2), {kRange});
    Check(name + " bytes overflow", Run(io, opcode, uint64_t{1} << 55),
          {kRange});
  }
}

// R53
TEST_F(IoCommand, LargestTransferAndOneBlockMore) {
  const uint32_t block = limits().block_bytes;
  const Io io = NewIo(16, size_t{limits().transfer_bytes_max} + block);
  ASSERT_TRUE(io);
  for (const auto opcode : {nvme::IoOpcode::kWrite, nvme::IoOpcode::kRead}) {
    const std::string name = opcode == nvme::IoOpcode::kRead ? "read" : "write";
    Check(name, Run(io, opcode, 0, blocks_max()), {kGood});
    Check(name + " more", Run(io, opcode, 0, blocks_max() + 1), {kField});
  }
}

TEST_F(IoCommand, ForceUnitAccess) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const auto opcode : {nvme::IoOpcode::kWrite, nvme::IoOpcode::kRead}) {
    nvme::BlockCommand command;
    command.slba = 5;
    command.fua = true;
    nvme::Sqe sqe = BlockSqe(io, opcode, 5);
    nvme::EncodeBlock(opcode, command, &sqe);
    EXPECT_EQ(Run(io, sqe), kGood);
  }
}

TEST_F(IoCommand, Flush) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  EXPECT_EQ(Run(io, Flush()), kGood);
  nvme::Sqe all = Flush();
  all.nsid = nvme::kNsidBroadcast;
  const bool flushes_all = (limits().vwc >> 1 & 3) == 3;
  Check("broadcast", Run(io, all), {flushes_all ? kGood : kNamespace});
  nvme::Sqe none = Flush();
  none.nsid = 0;
  Check("nsid 0", Run(io, none), {kNamespace});
}

TEST_F(IoCommand, WriteZeroes) {
  if ((limits().oncs & kOncsWriteZeroes) == 0) GTEST_SKIP() << "not offered";
  const Io io = NewIo(16, limits().transfer_bytes_max);
  ASSERT_TRUE(io);
  const auto zeroes = nvme::IoOpcode::kWriteZeroes;
  RoundTrip(io, 0, 16, 1);
  EXPECT_EQ(Run(io, Bare(io, zeroes, 4, 8)), kGood);
  ExpectZeroes(io, 4, 8);
  io.queue->data().Fill(0);
  ASSERT_EQ(Run(io, nvme::IoOpcode::kRead, 0, 4), kGood);
  EXPECT_EQ(DiffersFromPattern(1, Blocks(io, 4)), "") << "the neighbours";

  // MDTS does not bind it.
  const auto most = static_cast<uint32_t>(
      std::min<uint64_t>(nvme::kBlocksPerCommandMax, limits().block_count));
  Check("most", Run(io, Bare(io, zeroes, 0, most)), {kGood});
  const uint64_t end = limits().block_count;
  Check("at the end", Run(io, Bare(io, zeroes, end)), {kRange});
  Check("across the end", Run(io, Bare(io, zeroes, end - 1, 2)), {kRange});
  Check("overflow", Run(io, Bare(io, zeroes, ~uint64_t{0}, 2)), {kRange});
  nvme::Sqe none = Bare(io, zeroes, 0);
  none.nsid = 0;
  Check("nsid 0", Run(io, none), {kNamespace});
}

TEST_F(IoCommand, DatasetManagement) {
  if ((limits().oncs & kOncsDsm) == 0) GTEST_SKIP() << "not offered";
  const Io io = NewIo();
  ASSERT_TRUE(io);
  const uint64_t end = limits().block_count;
  const nvme::DsmRange range{.block_count = 64, .slba = 0};
  // Linux always sends 4096 bytes.
  Check("4096 bytes", Run(io, Dsm(io, range, 4096)), {kGood});
  Check("16 bytes", Run(io, Dsm(io, range, 16)), {kGood});
  Check("not to deallocate", Run(io, Dsm(io, range, 4096, false)), {kGood});
  Check("no blocks", Run(io, Dsm(io, {.block_count = 0, .slba = 0}, 4096)),
        {kGood});
  Check("past the end", Run(io, Dsm(io, {.block_count = 1, .slba = end}, 4096)),
        {kRange});
  Check("across the end",
        Run(io, Dsm(io, {.block_count = 2, .slba = end - 1}, 4096)), {kRange});
  Check("overflow",
        Run(io, Dsm(io, {.block_count = 8, .slba = ~uint64_t{0} - 3}, 4096)),
        {kRange});
  Check("short data", Run(io, Dsm(io, range, 16, true, 1)), {kLength});
  Check("no data", Run(io, Dsm(io, range, 0)), {kLength});
  if ((limits().dlfeat & 7) != 1) return;
  RoundTrip(io, 0, 64, 5);
  ASSERT_EQ(Run(io, Dsm(io, range, 4096)), kGood);
  ExpectZeroes(io, 0, 64);
}

TEST_F(IoCommand, Compare) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  if ((limits().oncs & kOncsCompare) == 0) {
    Check("not offered", Run(io, nvme::IoOpcode::kCompare, 0), {kOpcode});
    return;
  }
  RoundTrip(io, 0, 8, 6);
  Check("equal", Run(io, nvme::IoOpcode::kCompare, 0, 8), {kGood});
  io.queue->data().bytes()[8 * limits().block_bytes - 1] ^= std::byte{1};
  Check("not equal", Run(io, nvme::IoOpcode::kCompare, 0, 8),
        {"0x285", "0x285|DNR"});
  Check("past the end", Run(io, nvme::IoOpcode::kCompare, limits().block_count),
        {kRange});
}

TEST_F(IoCommand, UnknownOpcodes) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const uint8_t opcode : std::initializer_list<uint8_t>{
           0x03, 0x06, 0x07, 0x0A, 0x0B, 0x10, 0x3F, 0x7E, 0x80, 0xC1, 0xFF}) {
    nvme::Sqe sqe;
    sqe.opcode = opcode;
    sqe.nsid = limits().nsid;
    Check(absl::StrCat("0x", absl::Hex(opcode, absl::kZeroPad2)), Run(io, sqe),
          {kOpcode});
    // With data, which must not be moved either.
    sqe.sgl = io.queue->data().Keyed(0, 4096);
    Check(absl::StrCat("0x", absl::Hex(opcode, absl::kZeroPad2), " with data"),
          Run(io, sqe), {kOpcode});
  }
}

TEST_F(IoCommand, Namespaces) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const auto opcode : {nvme::IoOpcode::kRead, nvme::IoOpcode::kWrite}) {
    for (const uint32_t nsid :
         {0u, limits().absent_nsid, 0xFFFFFFFEu, nvme::kNsidBroadcast}) {
      nvme::Sqe sqe = BlockSqe(io, opcode, 0);
      sqe.nsid = nsid;
      Check(absl::StrCat("0x", absl::Hex(nsid)), Run(io, sqe), {kNamespace});
    }
  }
}

TEST_F(IoCommand, FlagsThatAreNotServed) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const auto fuse :
       {nvme::Fuse::kFirst, nvme::Fuse::kSecond, nvme::Fuse::kReserved}) {
    nvme::Sqe sqe = BlockSqe(io, nvme::IoOpcode::kRead, 0);
    sqe.set_fuse(fuse);
    Check(absl::StrCat("FUSE ", static_cast<int>(fuse)), Run(io, sqe),
          {kField});
  }
  for (const uint8_t psdt : std::initializer_list<uint8_t>{0, 2, 3}) {
    nvme::Sqe sqe = BlockSqe(io, nvme::IoOpcode::kRead, 0);
    sqe.set_psdt(psdt);
    Check(absl::StrCat("PSDT ", psdt), Run(io, sqe), {kField});
  }
}

TEST_F(IoCommand, CidsAreEchoed) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  for (const int cid : {0xFFFF, 0, 0x1000, 0xF01F, 0x8000}) {
    nvme::Sqe sqe = BlockSqe(io, nvme::IoOpcode::kRead, 0);
    sqe.cid = static_cast<uint16_t>(cid);
    ASSERT_TRUE(io.queue->connection().SendCommand(sqe).ok());
    EXPECT_EQ(Text(io.queue->connection().WaitResponse(sqe.cid)), kGood);
  }
}

class Capsule : public IoCommand {
 protected:
  // Sends so many bytes of a good command; what comes of it.
  absl::StatusOr<RawResponse> Send(RawQueue* queue, nvme::Sqe sqe,
                                   size_t length_bytes,
                                   absl::Duration wait = kWait) {
    sqe.cid = 77;
    Bytes capsule(std::max(length_bytes, nvme::kSqeBytes));
    nvme::WriteSqe(sqe, absl::MakeSpan(capsule));
    capsule.resize(length_bytes);
    SLUICE_RETURN_IF_ERROR(queue->connection().SendCapsule(capsule));
    return queue->connection().WaitResponse(77, wait);
  }
};

TEST_F(Capsule, TooShort) {
  for (const size_t bytes : {0u, 1u, 16u, 63u}) {
    const Io io = NewIo();
    ASSERT_TRUE(io);
    Check(absl::StrCat(bytes),
          Text(Send(io.queue.get(), BlockSqe(io, nvme::IoOpcode::kRead, 0),
                    bytes)),
          {"closed"});
  }
}

TEST_F(Capsule, TooShortForAdmin) {
  const auto controller = Enabled();
  ASSERT_NE(controller, nullptr);
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kKeepAlive);
  Check("", Text(Send(&controller->admin(), sqe, 63)), {"closed"});
}

TEST_F(Capsule, TooShortBeforeConnect) {
  auto queue = RawQueue::Open(host(), RawQueueOptions::Admin());
  ASSERT_TRUE(queue.ok()) << queue.status();
  ASSERT_TRUE((*queue)->connection().Connect().established());
  const auto response = (*queue)->First(
      [&](absl::Duration wait) { return Send(queue->get(), {}, 8, wait); });
  Check("", Text(response), {"closed"});
}

TEST_F(Capsule, TooLong) {
  const Io io = NewIo();
  ASSERT_TRUE(io);
  Check("",
        Text(Send(io.queue.get(), BlockSqe(io, nvme::IoOpcode::kRead, 0),
                  nvme::kSqeBytes + limits().in_capsule_bytes + 64)),
        {"closed"});
}

TEST_F(Capsule, TooLongForAdmin) {
  RawControllerOptions options;
  options.in_capsule_bytes = limits().in_capsule_bytes + 64;
  const auto controller = Enabled(options);
  ASSERT_NE(controller, nullptr);
  nvme::Sqe sqe;
  sqe.opcode = static_cast<uint8_t>(nvme::AdminOpcode::kKeepAlive);
  Check("",
        Text(Send(&controller->admin(), sqe,
                  nvme::kSqeBytes + limits().in_capsule_bytes + 64)),
        {"closed"});
}

TEST_F(Capsule, DataThatNobodyNeeds) {
  // A keyed read in a long capsule is right: the bytes are just not used.
  const Io io = NewIo();
  ASSERT_TRUE(io);
  Check("",
        Text(Send(io.queue.get(), BlockSqe(io, nvme::IoOpcode::kRead, 0),
                  nvme::kSqeBytes + limits().in_capsule_bytes)),
        {kGood});
}

}  // namespace
}  // namespace sluice::conformance
