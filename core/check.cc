#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice {

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, what);
  std::fflush(nullptr);
  std::abort();
}

}  // namespace sluice
