#!/bin/bash
# nvmf_bench for a moment: it reads, says what that cost, and its exit codes are
# 0, 2 for a target that cannot be reached, another one for a wrong option.
#
#   bench.sh NVMF_BENCH SLUICED
# shellcheck source=tests/programs/scratch.sh
. "$(dirname "$0")/scratch.sh" bench
bench=$1 sluiced=$2
nqn=nqn.2026-11.io.sluice:bench-test
short=(--seconds 0.2 --warmup 0.05 --idle 0.2)

# Its own sluiced; who waits for events waits on both sides.
[ "$(code "$bench" --sluiced "$sluiced" "${short[@]}" --repeats 1 --depths 1,8 --poll-modes hybrid,event \
  --json "$folder/table.json")" = 0 ] || fail "the table failed"
holds table.json '[(row["poll_mode"], row["depth"]) for row in it if "depth" in row] ==
  [("hybrid", 1), ("hybrid", 8), ("event", 1), ("event", 8)]'
holds table.json 'all(row[key][0] > 0 for row in it if "depth" in row
  for key in ("iops", "tcp_iops", "p50_us", "client_cpu_us_per_1000", "server_cpu_us_per_1000"))'
holds table.json 'all(row["p50_us"][0] <= row["p99_us"][0] <= row["p999_us"][0] for row in it if "depth" in row)'
holds table.json 'all(0 <= row["idle_share"] < 0.5 for row in it if "idle_share" in row)'

# A queue beside a full one. What it gets is not judged: this machine may have
# other things to do.
[ "$(code "$bench" --sluiced "$sluiced" --fairness --seconds 0.2 --repeats 3 --depth 64 --json "$folder/fair.json")" = 0 ] ||
  fail "the table of fairness failed"
holds fair.json 'it["ratio"] > 0 and all(len(it[load]["p99_us"]) == 3 for load in ("alone", "shared", "greedy"))'
holds fair.json 'all(min(it[load]["admin_max_us"]) > 0 for load in ("alone", "shared", "greedy"))'
[ "$(code "$bench" --fairness --port 1 --nqn $nqn)" != 0 ] || fail "--fairness without a sluiced of its own"

# One that is there.
"$sluiced" --provider iwarp --export ram:16M --nqn $nqn --listen 127.0.0.1:0 --block-size 4096 \
  > "$folder/sluiced.out" 2> "$folder/sluiced.log" &
pid=$!
port=$(sluiced_port "$folder/sluiced.out" $pid)
[ -n "$port" ] || fail "sluiced did not get ready"
run=("$bench" --port "$port" --nqn $nqn "${short[@]}")
[ "$(code "${run[@]}" --depth 32 --queues 2 --bytes 8192 --sequential --server-pid $pid --json "$folder/run.json")" = 0 ] ||
  fail "a run failed"
holds run.json 'it["count"] > 64 and it["mean_us"] > 0 and it["server_cpu_us_per_1000"] > 0'
[ "$(code "${run[@]}" --depth 64 --sleeping --json "$folder/run.json")" = 0 ] || fail "a sleeping run failed"
holds run.json 'it["count"] > 64'

# What cannot work, and says why.
[ "$(code "${run[@]}" --bytes 5000)" = 2 ] || fail "5000 bytes are not blocks"
[ "$(code "${run[@]}" --bytes 8388608 --depth 2)" = 2 ] || fail "8 MiB is beyond what sluiced takes"
grep -q 'status 0x' "$folder/bench.out" || fail "a command's status is not told"
[ "$(code "$bench" --port "$port" --nqn $nqn-other)" = 2 ] || fail "there is no such subsystem"
wrong=$(code "${run[@]}" --dept 3)
[ "$wrong" != 0 ] && [ "$wrong" != 2 ] || fail "a wrong option ends with $wrong"
wrong=$(code "$bench")
[ "$wrong" != 0 ] && [ "$wrong" != 2 ] || fail "no target at all ends with $wrong"
[ "$(code "$bench" --sluiced "$folder/none")" = 2 ] || fail "there is no such program"
kill $pid
wait $pid || fail "sluiced ended with $?"
pid=
[ "$(code "${run[@]}")" = 2 ] || fail "nobody listens there"
grep -q '^nvmf_bench: ' "$folder/bench.out" || fail "it does not say why"
echo "bench: passed"
