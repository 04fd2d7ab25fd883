#!/bin/bash
# In the guest: the raw protocol suite against a target on the same machine.
#
#   lab run tests/interop/conformance.sh [rxe|siw] [sluice|shared|nvmet] [flags of the suite]
#
# shared: sluice, whose I/O queues share their receives. CONFORMANCE is the suite's
# program (LAB_PASS=CONFORMANCE hands it on). One line per test goes to
# $OUT/results, the suite's own output to $OUT/conformance.log.
set -euo pipefail
kind=${1:-rxe}
peer=${2:-sluice}
label=conformance-$kind-$peer
shift $(($# < 2 ? $# : 2))
nqn=nqn.2026-11.io.sluice:conformance
suite=${CONFORMANCE:-$LAB_ROOT/build/release/bin/conformance_test}
# Emulation is slow, and so are its answers.
slow=${CONFORMANCE_SLOW:-4}

if [ ! -x "$suite" ]; then
  fail "$label" "no program $suite"
  exit 1
fi

ulimit -n 65536
rdma_up "$kind"
rdma_baseline
case $peer in
  nvmet)
    modprobe brd rd_nr=1 rd_size=262144
    kernel_target $nqn /dev/ram0
    ;;
  shared)
    peer=sluice
    start_sluiced --export ram:256M --nqn $nqn --listen 10.9.0.1 --shared-receives 16384
    ;;
  sluice) start_sluiced --export ram:256M --nqn $nqn --listen 10.9.0.1 ;;
  *) echo "conformance: sluice, shared or nvmet, not $peer" >&2; exit 2 ;;
esac

code=0
"$suite" --provider system --address 10.9.0.1 --port 4420 --nqn $nqn --peer "$peer" \
  --slow "$slow" --results "$OUT/results" "$@" > "$OUT/conformance.log" 2>&1 || code=$?
grep -E '^(FAIL|SKIP)' "$OUT/results" || true
grep '^first capsules' "$OUT/conformance.log" | sed "s/^/$kind: /" | tee -a "$OUT/figures" || true
tail -n 3 "$OUT/conformance.log"

# Code 1: tests failed, and have their lines. Else it died, at a test or before.
if [ $code -gt 1 ]; then
  tail -n 20 "$OUT/conformance.log"
  fail "$label" "the suite ended with code $code"
fi

if [ "$peer" = sluice ]; then
  if stop_sluiced; then pass "$label-stop"
  else code=1; fail "$label-stop" "sluiced did not stop cleanly"; fi
  if rdma_settled; then pass "$label-settled"
  else code=1; fail "$label-settled" "RDMA objects are left"; fi
fi
exit $code
