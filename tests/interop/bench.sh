#!/bin/bash
# In the guest: the iWARP provider beside the kernel's device. The same program
# on both in turns, in one boot; prints each case's medians, the median of the
# pairs' ratios, and each one's beside plain TCP in the same turn. Rates: more is
# better; latencies (us): less.
#
#   tools/lab/lab run tests/interop/bench.sh [siw|rxe]      LAB_SECONDS=600
#
# BENCH_PAIRS (3), BENCH_SECONDS (1) of each run, BENCH_CASES (a part), IWARP_BENCH
# (the program): LAB_PASS hands them on. The emulator has two processors, one for each side;
# what counts is the ratio.
set -euo pipefail
kind=${1:-siw}
pairs=${BENCH_PAIRS:-3}
seconds=${BENCH_SECONDS:-1}
bench=${IWARP_BENCH:-$LAB_ROOT/build/release/bin/iwarp_bench}
cases=${BENCH_CASES:-write-64k read-64k latency-polling latency-sleeping messages-64}

if [ ! -x "$bench" ]; then
  fail "bench-$kind" "no program $bench"
  exit 1
fi
rdma_up "$kind"
mkdir -p "$OUT/bench"

# A case each: one that does not end is known by its name. On siw a first message
# that comes early may be lost (tools/lab/README.md), and with it a ping-pong:
# then anew.
one() {
  local attempt
  for attempt in 1 2 3; do
    timeout 40 "$bench" "$@" && return
    echo "attempt $attempt ended with $?: $*"
  done
  return 1
}
pair() {
  local name=$1 number=$2 provider
  for provider in verbs iwarp; do
    one --provider $provider --address 10.9.0.1 --repeats 1 --seconds "$seconds" --cases "$name" \
      --json "$OUT/bench/$name-$number-$provider" || return
  done
}
run() {
  local number
  for number in $(seq "$pairs"); do pair "$1" "$number" || return; done
}
for name in $cases; do check "bench-$kind-$name" run "$name" || true; done

python3 - "$OUT/bench" "$kind" "$seconds" "$pairs" $cases <<'PYTHON' | tee "$OUT/figures"
import json, os, statistics, sys

folder, kind, seconds, pairs, cases = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5:]
print(f"{kind}, {os.uname().release}, {pairs} pairs of {seconds} s; medians")
print(f"{'case':17} {kind:>9} {'provider':>9} {'unit':5} {'ratio':>6}   to TCP: {kind} {'provider':>9}")
for name in cases:
    try:
        read = lambda provider: [json.load(open(f"{folder}/{name}-{i + 1}-{provider}"))[0] for i in range(pairs)]
        device, ours = read("verbs"), read("iwarp")
    except OSError as error:
        print(f"{name:17} {error}")
        continue
    median = lambda runs, key: statistics.median(run[key][0] if isinstance(run[key], list) else run[key] for run in runs)
    ratio = statistics.median(o["verbs"][0] / d["verbs"][0] for d, o in zip(device, ours))
    print(f"{name:17} {median(device, 'verbs'):9.4f} {median(ours, 'verbs'):9.4f} {ours[0]['unit']:5} {ratio:6.2f}"
          f"   {median(device, 'ratio'):11.2f} {median(ours, 'ratio'):9.2f}")
PYTHON
