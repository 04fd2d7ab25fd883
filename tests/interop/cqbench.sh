#!/bin/bash
# In the guest: the ways of waiting for completions over the kernel's device, in
# one boot (sluice-cqbench), and a soak in each for lost completions.
#
#   tools/lab/lab run tests/interop/cqbench.sh [rxe|siw]      LAB_SECONDS=900
#
# CQ_REPEATS (3), CQ_SECONDS (0.5) of each run, CQ_SOAK (20000) messages,
# CQBENCH (the program): LAB_PASS hands them on. The emulator's two processors
# are the load generator's and the reactor's; what counts are ratios.
set -euo pipefail
kind=${1:-rxe}
bench=${CQBENCH:-$LAB_ROOT/build/release/bin/sluice-cqbench}
common=(--provider verbs --address 10.9.0.1)

if [ ! -x "$bench" ]; then
  fail "cqbench-$kind" "no program $bench"
  exit 1
fi
rdma_up "$kind"

table() {
  "$bench" "${common[@]}" --queue-pairs 2 --depth 16 --repeats "${CQ_REPEATS:-3}" --seconds "${CQ_SECONDS:-0.5}" \
    --loads 0,10,50,75,100 --waves 1,10 --json "$OUT/cqbench.json" | tee "$OUT/figures"
}
# Of all runs of the table: nobody's completion was found by the safety poll, and
# who does not poll is idle when there is nothing to do.
# holds CONDITION : of each run `r` of each cell `c`.
holds() {
  python3 -c 'import json, sys
cells = json.load(open(sys.argv[1]))
sys.exit(not all(eval(sys.argv[2]) for c in cells for r in c["repeats"]))' "$OUT/cqbench.json" "$1"
}
nothing_rescued() { holds 'r["rescued"] == 0'; }
idle_sleeps() { holds 'r["cpu_share"] < 0.02 or c["load"] != "0" or c["mode"] == "poll"'; }
soak() { "$bench" "${common[@]}" --queue-pairs 1 --depth 1 --soak "${CQ_SOAK:-20000}"; }

check "cqbench-$kind-table" table || true
check "cqbench-$kind-nothing-rescued" nothing_rescued || true
check "cqbench-$kind-idle" idle_sleeps || true
check "cqbench-$kind-soak" soak || true
