// A call of a VerbsApi table behind a guard, which makes it fail when a fault
// was asked for. Stateless: each is a function of the call's own signature.
//
//   struct Source {  // where faults come from
//     template <typename... Args>
//     static int ErrorOf(const char* name, Args... args);  // errno, or 0
//   };
//   .alloc_pd = &CallGuard<"alloc_pd", Source, kSetsErrno, &AllocPd>::Call,
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <type_traits>

namespace sluice {

// A string literal as a template argument.
template <size_t kSize>
struct CallName {
  consteval CallName(const char (&literal)[kSize]) {  // NOLINT: implicit
    std::copy_n(literal, kSize, text);
  }
  char text[kSize];
};

// How a call reports an errno.
inline constexpr bool kReturnsErrno = true;
inline constexpr bool kSetsErrno = false;  // and returns null or -1

template <CallName kName, typename Source, bool kReturns, auto kCall>
struct CallGuard;

template <CallName kName, typename Source, bool kReturns, typename Result,
          typename... Args, Result (*kCall)(Args...)>
struct CallGuard<kName, Source, kReturns, kCall> {
  static Result Call(Args... args) {
    const int error = Source::ErrorOf(kName.text, args...);
    if (error == 0) return kCall(args...);
    if constexpr (kReturns) return error;
    errno = error;
    if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else {
      return -1;
    }
  }
};

}  // namespace sluice
