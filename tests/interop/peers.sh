#!/bin/bash
# In the guest: raw verbs between the iWARP provider and the kernel's siw, both
# ways: rping, perftest and others with one end on each (tests/programs).
#
#   lab run tests/interop/peers.sh iwarp
#
# VERBS_LIBRARY (default: the release build's) is the preload library.
set -uo pipefail
library=${VERBS_LIBRARY:-$LAB_ROOT/build/release/lib/libsluice-verbs.so}
if [ ! -e "$library" ]; then
  fail peers "there is no $library"
  exit 1
fi
rdma_up siw
for side in server client; do
  PROGRAM_SECONDS=60 bash tests/programs/programs.sh --$side kernel "$library" "$OUT/$side" 10.9.0.1 |
    tee -a "$OUT/results"
done
! grep -q ^FAIL "$OUT/results"
