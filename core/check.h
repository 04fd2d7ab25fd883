// Checks for our own bugs (style.md §6). SLUICE_CHECK is always on: use it for
// what would corrupt data or memory. SLUICE_DCHECK is compiled out of release
// builds. Bytes from a peer never reach either: they end in a status.
#pragma once

namespace sluice {

// Prints "file:line: CHECK failed: what" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

}  // namespace sluice

#define SLUICE_CHECK(condition)       \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::sluice::CheckFailed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define SLUICE_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define SLUICE_DCHECK(condition) SLUICE_CHECK(condition)
#endif
