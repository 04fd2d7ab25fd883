// Runs a program that is refused io_uring, as in a plain container:
//   without_io_uring PROGRAM ARGUMENT...
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/support/plain_container.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "without_io_uring PROGRAM ARGUMENT...\n");
    return 2;
  }
  sluice::RefuseIoUring(EPERM);
  execv(argv[1], argv + 1);
  std::fprintf(stderr, "%s: %s\n", argv[1], std::strerror(errno));
  return 2;
}
