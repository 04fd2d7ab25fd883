// Runs a program as in a plain container:
//   plain_container [--root] PROGRAM ARGUMENT...
// An ordinary user with 8 MiB of locked memory (unless --root), and io_uring
// refused.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/support/plain_container.h"

int main(int argc, char** argv) {
  const bool as_root = argc > 1 && std::strcmp(argv[1], "--root") == 0;
  char** program = argv + (as_root ? 2 : 1);
  if (argc < (as_root ? 3 : 2)) {
    std::fprintf(stderr, "plain_container [--root] PROGRAM ARGUMENT...\n");
    return 2;
  }
  if (!as_root) sluice::BecomeOrdinaryUser();
  sluice::RefuseIoUring(EPERM);
  execv(*program, program);
  std::fprintf(stderr, "%s: %s\n", *program, std::strerror(errno));
  return 2;
}
