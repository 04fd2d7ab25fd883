// For LD_PRELOAD: counts the memory that the reactor threads of a program ask
// for. malloc and its kin are glibc's own, called by their internal names;
// operator new comes here through malloc. The counts are in the file that
// ALLOCATION_COUNTS names, mapped, so that a script reads them while the
// program runs: two native uint64_t, calls by threads named "reactor-…" and by
// all.
//
// Once the third uint64_t of the file is not 0, the next call by a reactor
// thread aborts: the backtrace of the core names the culprit.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
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
  std::atomic<uint64_t> trap{0};
};

Counts unmapped;
std::atomic<Counts*> counts{&unmapped};

__attribute__((constructor)) void Map() {
  const char* const path = getenv("ALLOCATION_COUNTS");
  if (path == nullptr) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Counts)) != 0) abort();
  void* const mapped =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  counts = new (mapped) Counts;
  close(fd);
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
  if (to->trap.load(std::memory_order_relaxed) != 0) abort();
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
