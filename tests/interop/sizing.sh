#!/bin/bash
# In the guest: 600 I/O queues of depth 128 over two reactors, every one of them
# full at once; the limit on queues; connects and disconnects by the hundred,
# after which everything is back where it was. Prints the ledger's figures.
# R5: what is accepted has its completions' room. R25: no queue pair stays behind.
#
#   lab run tests/interop/sizing.sh [rxe|siw]      LAB_MEM=8192
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:sizing
suite=${CONFORMANCE:-$LAB_ROOT/build/release/bin/conformance_test}
queues=600 limit=40 cycles=100
[ "${CHECK_FULL:-0}" = 1 ] && cycles=1000

ulimit -n 65536
rdma_up "$kind"
figure() { echo "$kind: $*" | tee -a "$OUT/figures"; }

sizing() {  # sizing FILTER FLAG… : one of the suite's Sizing tests
  "$suite" --provider system --address 10.9.0.1 --port 4420 --nqn $nqn --peer sluice --slow 8 \
    --sizing --gtest_filter="Sizing.$1" "${@:2}"
}

# ledger : the highest of each figure in the counters printed so far.
LEDGER='
import json, sys
lines = [json.loads(line)["reactors"] for line in sys.stdin]
def high(i, name):
    return max(line[i][name] for line in lines)
def cq(i, name):
    return high(i, "sluice_transport_cq_" + name + "_entries")
for i in range(len(lines[0])):
    print("reactor %d: %d queues, %d CQs of %d entries, %d reserved, %d outstanding at most" %
          (i, high(i, "sluice_target_queues"), high(i, "sluice_transport_cqs"), cq(i, "capacity"),
           cq(i, "reserved"), cq(i, "outstanding_max")))
    assert cq(i, "outstanding_max") <= cq(i, "reserved") <= cq(i, "capacity")
    assert high(i, "sluice_core_ring_overflows_total") == 0
'
ledger() { grep '^{' "$OUT/sluiced.log" | python3 -c "$LEDGER"; }
# counters : sluiced's counters, asked for now, as one line.
counters() {
  local before
  before=$(grep -c '^{' "$OUT/sluiced.log" || true)
  kill -USR1 "$SLUICED_PID"
  wait_for "[ \$(grep -c '^{' '$OUT/sluiced.log') -gt $before ]" 20 || return
  grep '^{' "$OUT/sluiced.log" | tail -n 1
}
overflows() { grep -E 'CQ_ERR|overflow|overrun' "$OUT/sluiced.log" | grep -v '^{'; }

burst() {
  start_sluiced --cores 0,1 --export ram:64M --nqn $nqn --listen 10.9.0.1 --stats-interval 1 || return
  sizing Burst --queues $queues --depth 128 --rounds 3 || return
  ledger > "$OUT/ledger" || return
  stop_sluiced || return
  ! overflows || return
  rdma_settled 60
}

# Beyond --max-queues a connect is told so, the others go on.
beyond() {
  start_sluiced --cores 0,1 --export ram:64M --nqn $nqn --listen 10.9.0.1 --max-queues $limit || return
  sizing BeyondTheLimit --max-queues $limit || return
  counters | grep -o '"sluice_transport_connections_total":{[^}]*}' || return
  stop_sluiced
}

# state : what must be the same before and after: the ledger's reservations,
# open files, RDMA objects.
state() {
  counters | python3 -c 'import json, sys
stats = json.load(sys.stdin)
print([r["sluice_transport_cq_reserved_entries"] for r in stats["reactors"]],
      [r["sluice_transport_registered_bytes"] for r in stats["reactors"]],
      stats["sluice_transport_connections"], stats["sluice_target_controllers"])' || return
  echo "descriptors $(find "/proc/$SLUICED_PID/fd" -mindepth 1 | wc -l)"
  rdma_resources
}
resident() { awk '/VmRSS/ { print $2 }' "/proc/$SLUICED_PID/status"; }

# A few first, for what is made once: completion queues, caches, the pools' pages.
cycle() {
  local rss
  start_sluiced --cores 0,1 --export ram:64M --nqn $nqn --listen 10.9.0.1 || return
  sizing Cycles --cycles 20 || return
  wait_for "counters | grep '\"sluice_transport_connections\":0,'" 60 || return
  state > "$OUT/state.before" && rss=$(resident)
  sizing Cycles --cycles $cycles || return
  wait_for "state > '$OUT/state.after' && cmp '$OUT/state.before' '$OUT/state.after'" 60
  cat "$OUT/state.before" "$OUT/state.after"
  cmp "$OUT/state.before" "$OUT/state.after" || return
  figure "$cycles connects and disconnects of two queues: RSS $rss -> $(resident) KiB; ledger, descriptors and RDMA objects as before"
  [ $(($(resident) - rss)) -lt 2048 ] || return
  stop_sluiced
}
export -f counters state

rdma_baseline
check "sizing-$kind" burst || { kill -9 "$SLUICED_PID"; true; }
while read -r line; do figure "$line"; done < "$OUT/ledger" || true
check "max-queues-$kind" beyond || { kill -9 "$SLUICED_PID"; true; }
check "cycles-$kind" cycle || { kill -9 "$SLUICED_PID"; true; }
