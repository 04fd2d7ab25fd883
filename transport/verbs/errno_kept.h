// A call of the system's verbs that fails and leaves errno alone (libsiw does
// where mmap's offset is one that it takes for none) would be reported with the
// errno of an older call, or as a success.
#pragma once

#include <cerrno>

namespace sluice {

// ErrnoKept<&ibv_create_cq>::Call is ibv_create_cq whose errno is of this call,
// EIO where the call gave no reason. For functions that return a pointer or 0.
template <auto function>
struct ErrnoKept;

template <typename Result, typename... Args, Result (*function)(Args...)>
struct ErrnoKept<function> {
  static bool Failed(const void* made) { return made == nullptr; }
  static bool Failed(int returned) { return returned != 0; }

  static Result Call(Args... args) {
    errno = 0;
    const Result result = function(args...);
    if (Failed(result) && errno == 0) errno = EIO;
    return result;
  }
};

}  // namespace sluice
