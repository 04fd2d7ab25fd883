// A real reactor driven by hand, files to stand on, and buffers with patterns.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "blockdev/block_device.h"
#include "blockdev/io_result.h"
#include "core/blocking_pool.h"
#include "core/check.h"
#include "core/reactor.h"

namespace sluice::blockdev {

inline void PrintTo(IoResult result, std::ostream* out) {
  const absl::string_view name = IoResultName(result);
  out->write(name.data(), static_cast<std::streamsize>(name.size()));
}

inline constexpr uint64_t kMeg = uint64_t{1} << 20;

// One reactor on this thread, with a pool. Destroy the devices first.
class TestReactor {
 public:
  explicit TestReactor(const RingOptions& ring = RingOptions()) {
    ReactorOptions options;
    options.ring = ring;
    auto created = Reactor::Create(options);
    SLUICE_CHECK(created.ok());
    reactor_ = *std::move(created);
  }

  Reactor* get() { return reactor_.get(); }
  Reactor* operator->() { return reactor_.get(); }
  BlockingPool* pool() { return &pool_; }

  // Ticks until it holds; sleeps in between. False after about 100 s: a flush
  // on a busy disk may take tens of seconds.
  template <typename Predicate>
  bool RunUntil(Predicate predicate) {
    const int64_t deadline_nanos =
        Clock::Real()->NowNanos() + 100 * kNanosPerSecond;
    while (!predicate()) {
      if (Clock::Real()->NowNanos() > deadline_nanos) return false;
      if (reactor_->Tick() == 0 && !predicate()) {
        reactor_->Sleep(absl::Milliseconds(20));
      }
    }
    return true;
  }

  // A few ticks, for what must not happen.
  void RunTicks(int count) {
    for (int i = 0; i < count; ++i) reactor_->Tick();
  }

  template <typename T>
  T Run(Task<T> task) {
    const bool done = RunUntil([&task] { return task.done(); });
    SLUICE_CHECK(done);
    return task.await_resume();
  }

 private:
  std::unique_ptr<Reactor> reactor_;
  BlockingPool pool_;
};

inline std::string TempFolder() {
  const char* const folder = getenv("TMPDIR");
  return folder != nullptr ? folder : "/tmp";
}

// A path of this process alone: two runs of one test do not meet.
inline std::string UniquePath(const char* name) {
  return absl::StrCat(TempFolder(), "/sluice_", name, "_", getpid());
}

// A file of `size_bytes` zeroes (a hole), removed at the end.
class TempFile {
 public:
  explicit TempFile(uint64_t size_bytes,
                    const std::string& folder = TempFolder()) {
    path_ = folder + "/sluice_blockdev_XXXXXX";
    const int fd = mkstemp(path_.data());
    SLUICE_CHECK(fd >= 0);
    SLUICE_CHECK(ftruncate(fd, static_cast<off_t>(size_bytes)) == 0);
    close(fd);
  }
  ~TempFile() { unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }
  void Resize(uint64_t size_bytes) {
    SLUICE_CHECK(truncate(path_.c_str(), static_cast<off_t>(size_bytes)) == 0);
  }
  uint64_t allocated_bytes() const {
    struct stat info {};
    SLUICE_CHECK(stat(path_.c_str(), &info) == 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }

 private:
  std::string path_;
};

// Memory aligned to 4096, `odd_bytes` past it when told.
class Buffer {
 public:
  explicit Buffer(size_t length_bytes, size_t odd_bytes = 0)
      : length_bytes_(length_bytes), odd_bytes_(odd_bytes) {
    const size_t room_bytes = (length_bytes + odd_bytes + 4095) / 4096 * 4096;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, room_bytes));
    std::memset(memory_, 0xee, room_bytes);
  }
  ~Buffer() { std::free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return memory_ + odd_bytes_; }
  size_t length_bytes() const { return length_bytes_; }
  IoBuffer io(int ring_buffer = -1) const {
    IoBuffer buffer;
    buffer.data = data();
    buffer.length_bytes = static_cast<uint32_t>(length_bytes_);
    buffer.ring_buffer = ring_buffer;
    return buffer;
  }

  Buffer& Fill(uint32_t seed) {
    for (size_t i = 0; i < length_bytes_; ++i) {
      data()[i] = static_cast<std::byte>((i * 131 + i / 512 + seed) & 0xff);
    }
    return *this;
  }
  bool Equals(const Buffer& other) const {
    return length_bytes_ == other.length_bytes_ &&
           std::memcmp(data(), other.data(), length_bytes_) == 0;
  }
  bool IsZero() const { return IsZero(0, length_bytes_); }
  bool IsZero(size_t from, size_t length) const {
    for (size_t i = from; i < from + length; ++i) {
      if (data()[i] != std::byte{0}) return false;
    }
    return true;
  }

 private:
  size_t length_bytes_;
  size_t odd_bytes_;
  std::byte* memory_;
};

inline BackingOptions At(const std::string& path, uint32_t block_bytes = 512) {
  BackingOptions options;
  options.path = path;
  options.block_bytes = block_bytes;
  return options;
}

}  // namespace sluice::blockdev
