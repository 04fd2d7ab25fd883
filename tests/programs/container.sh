#!/bin/bash
# sluiced itself in a plain container: uid 65534, no capabilities, 8 MiB of locked
# memory, io_uring refused. It takes its own iWARP provider, says once what it
# does without, passes the protocol suite's I/O, and ends with 0.
#
#   container.sh PLAIN_CONTAINER SLUICED CONFORMANCE_TEST
# shellcheck source=tests/programs/scratch.sh
. "$(dirname "$0")/scratch.sh" container

# The tree may be where an ordinary user cannot go; nor may he write where this
# run's own tests report.
unset "${!GTEST_@}"
chmod 755 "$folder"
cp "$1" "$folder/plain_container"
cp "$2" "$folder/sluiced"
cp "$3" "$folder/conformance_test"
truncate -s 64M "$folder/disk.img"
[ "$(id -u)" != 0 ] || chown 65534:65534 "$folder/disk.img"
: > "$folder/sluiced.out"
nqn=nqn.2026-11.io.sluice:container

"$folder/plain_container" "$folder/sluiced" --export "$folder/disk.img" --nqn $nqn --listen 127.0.0.1:0 \
  > "$folder/sluiced.out" 2> "$folder/sluiced.log" &
pid=$!
port=$(sluiced_port "$folder/sluiced.out" $pid)
[ -n "$port" ] || fail "sluiced did not get ready"
if [ "$(id -u)" = 0 ]; then
  [ "$(awk '/^Uid:/ { print $3 }' /proc/$pid/status)" = 65534 ] || fail "it is not an ordinary user"
fi
[ "$(awk '/^CapEff:/ { print $2 }' /proc/$pid/status)" = 0000000000000000 ] || fail "it has capabilities"
[ "$(awk '/^Seccomp:/ { print $2 }' /proc/$pid/status)" = 2 ] || fail "it has no seccomp filter"

"$folder/plain_container" "$folder/conformance_test" --provider iwarp --address 127.0.0.1 --port "$port" \
  --nqn $nqn --gtest_filter='IoCommand.*:Depth.*:Vanish.*' > "$folder/suite.log" 2>&1 ||
  fail "the protocol suite failed"
grep -q '^\[  PASSED  \] [1-9]' "$folder/suite.log" || fail "the protocol suite ran nothing"

kill $pid
wait $pid || fail "sluiced ended with $?"
pid=
warnings=$(grep -c ' warning .*io_uring' "$folder/sluiced.log" || true)
[ "$warnings" = 1 ] || fail "$warnings warnings about io_uring"
echo "container: passed"
