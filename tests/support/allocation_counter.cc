// For LD_PRELOAD: counts the memory that the reactor threads of a program ask
// for. malloc and its kin are glibc's own, called by their internal names;
// operator new comes here through malloc. The counts are in the file that
// ALLOCATION_COUNTS names, mapped, so that a script reads them while the
// program runs: two native uint64_t, calls by threads named "reactor-…" and by
// all.
//
// While the third uint64_t of the file is not 0, the stack of each call by a
// reactor thread, up to kStacksMax of them, goes to that file's name with
// ".stacks" behind it, as backtrace_symbols_fd writes it: addr2line names the
// culprit.
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
// glibc's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}

namespace {

struct Counts {
  std::atomic<uint64_t> reactors{0};
  std::atomic<uint64_t> all{0};
  std::atomic<uint64_t> tell{0};
};

constexpr int kStacksMax = 32;

Counts unmapped;
std::atomic<Counts*> counts{&unmapped};
int stacks_fd = -1;
std::atomic<int> stacks{0};

__attribute__((constructor)) void Map() {
  const char* const path = getenv("ALLOCATION_COUNTS");
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Counts)) != 0) abort();
  void* const mapped =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  close(fd);
  std::array<char, PATH_MAX> stacks_path;
  snprintf(stacks_path.data(), stacks_path.size(), "%s.stacks", path);
  stacks_fd = open(stacks_path.data(),
                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (stacks_fd < 0) abort();
  // The first call allocates.
  std::array<void*, 1> frames;
  backtrace(frames.data(), 1);
  counts = new (mapped) Counts;
}

void TellStack() {
  if (stacks.fetch_add(1, std::memory_order_relaxed) >= kStacksMax) return;
  std::array<void*, 24> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, stacks_fd);
  if (write(stacks_fd, "\n", 1) != 1) abort();
}

// The name is asked for at each call: a thread gets it after its first ones.
bool OnReactor() {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return strncmp(name, "reactor-", 8) == 0;
}

void Count() {
  Counts* const to = counts.load(std::memory_order_relaxed);
  to->all.fetch_add(1, std::memory_order_relaxed);
  if (!OnReactor()) return;
  to->reactors.fetch_add(1, std::memory_order_relaxed);
  if (to->tell.load(std::memory_order_relaxed) != 0) TellStack();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void* calloc(size_t count,
                                                    size_t bytes) {
  Count();
  return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void* realloc(void* old, size_t bytes) {
  Count();
  return __libc_realloc(old, bytes);
}

__attribute__((visibility("default"))) void* memalign(size_t alignment,
                                                      size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment,
                                                           size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int posix_memalign(void** out,
                                                          size_t alignment,
                                                          size_t bytes) {
  Count();
  void* const memory = __libc_memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}

}  // extern "C"
