#!/bin/bash
# In the guest: what verbs and rdma_cm promise, asked of the kernel's device.
#
#   lab run tests/interop/verbs.sh [rxe|siw] [flags of the suite]
#
# VERBS is the suite's program (LAB_PASS=VERBS hands it on). One line per test
# goes to $OUT/results, the suite's own output to $OUT/verbs.log.
set -euo pipefail
kind=${1:-rxe}
shift $(($# < 1 ? $# : 1))
suite=${VERBS:-$LAB_ROOT/build/release/bin/verbs_test}
# Emulation is slow, and so are its answers.
slow=${VERBS_SLOW:-4}

if [ ! -x "$suite" ]; then
  fail "verbs-$kind" "no program $suite"
  exit 1
fi

ulimit -n 65536
rdma_up "$kind"
rdma_baseline

code=0
"$suite" --provider system --address 10.9.0.1 --slow "$slow" --results "$OUT/results" "$@" \
  > "$OUT/verbs.log" 2>&1 || code=$?
grep -E '^(FAIL|SKIP)' "$OUT/results" || true
tail -n 3 "$OUT/verbs.log"

# Code 1: tests failed, and have their lines. Else it died, at a test or before.
if [ $code -gt 1 ]; then
  tail -n 20 "$OUT/verbs.log"
  fail "verbs-$kind" "the suite ended with code $code"
fi
if rdma_settled; then pass "verbs-$kind-settled"
else code=1; fail "verbs-$kind-settled" "RDMA objects are left"; fi
exit $code
