#!/bin/bash
# sluice-cqbench for a moment, three loads in all four modes: what it prints,
# writes and plots, that nobody loses a completion or spins while idle, and its
# exit codes.
#
#   cqbench.sh SLUICE_CQBENCH
# shellcheck source=tests/programs/scratch.sh
. "$(dirname "$0")/scratch.sh" cqbench
bench=$1
short=(--seconds 0.2 --repeats 1)

[ "$(code "$bench" "${short[@]}" --loads 0,10,100 --waves 1 --json "$folder/cells.json" \
  --plots "$folder/plots")" != 1 ] || fail "the table failed"
grep -q '^load %' "$folder/bench.out" || fail "there is no table"
holds cells.json '[(c["load"], c["mode"]) for c in it] == [(load, mode) for load in ("0", "10", "100", "wave-1ms")
  for mode in ("poll", "event", "fixed", "hybrid")]'
holds cells.json 'all(c["provider"] == "iwarp" and len(c["repeats"]) == 1 for c in it)'
holds cells.json 'all(c["msgs_per_s"] > 0 and c["cpu_us_per_msg"] > 0 for c in it if c["load"] != "0")'
holds cells.json 'all(0 < c["p50_us"] <= c["p99_us"] <= c["p999_us"] for c in it if c["load"] != "0")'
holds cells.json 'all(r["rescued"] == 0 for c in it for r in c["repeats"])'
holds cells.json 'all(c["cpu_share"] < 0.05 for c in it if c["load"] == "0" and c["mode"] != "poll")'
holds cells.json 'all(r["sleeps_per_s"] == 0 for c in it if c["mode"] == "poll" for r in c["repeats"])'
for file in loads.dat waves.dat plots.gnuplot; do [ -s "$folder/plots/$file" ] || fail "no $file"; done
if command -v gnuplot > /dev/null; then
  for plot in p99 cpu wave-p99 wave-cpu; do grep -q '<svg' "$folder/plots/$plot.svg" || fail "no $plot.svg"; done
fi

# Two programs, as on two machines; one message at a time.
"$bench" --serve 127.0.0.1:0 --once > "$folder/serve.out" 2>&1 &
pid=$!
for _ in {1..100}; do grep -q listening "$folder/serve.out" && break; sleep 0.1; done
port=$(sed -n 's/^listening //p' "$folder/serve.out")
[ -n "$port" ] || fail "the other end does not listen"
[ "$(code "$bench" --connect "127.0.0.1:$port" "${short[@]}" --loads 100 --waves 0 --modes hybrid --depth 1 \
  --queue-pairs 1 --size 64 --json "$folder/cells.json")" = 0 ] || fail "a run on the other end failed"
holds cells.json 'len(it) == 1 and it[0]["msgs_per_s"] > 100'
wait $pid || fail "the other end ends with $?"
pid=

# Nothing is lost: CQBENCH_SOAK messages in each mode.
[ "$(code "$bench" --soak "${CQBENCH_SOAK:-20000}" --depth 1 --queue-pairs 1)" = 0 ] || fail "a completion was lost"
cat "$folder/bench.out"
[ "$(grep -c ' messages, .* 0 rescued' "$folder/bench.out")" = 4 ] || fail "not four modes"

# What cannot work, and says why.
[ "$(code "$bench" --connect 127.0.0.1:1 "${short[@]}")" = 2 ] || fail "nobody listens there"
grep -q '^sluice-cqbench: .*127.0.0.1:1' "$folder/bench.out" || fail "it does not say where"
[ "$(code "$bench" --queue-pairs 256 --depth 1024 "${short[@]}")" = 2 ] || fail "so many do not fit a CQ"
wrong=$(code "$bench" --modes sleepy)
[ "$wrong" != 0 ] && [ "$wrong" != 2 ] || fail "a wrong option ends with $wrong"
echo "cqbench: passed"
