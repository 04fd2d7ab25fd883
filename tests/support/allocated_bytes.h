// What the heap of this process holds, under a sanitizer, too: for tests that
// nothing is left behind.
#pragma once

#include <cstddef>

namespace sluice {

size_t AllocatedBytes();

}  // namespace sluice
