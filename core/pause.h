// A pause of the calling thread, for setup code that says it may block. Never
// on a reactor: there it is SleepFor (core/async.h).
#pragma once

#include <cstdint>

namespace sluice {

void PauseThread(int64_t nanos);

}  // namespace sluice
