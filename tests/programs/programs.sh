#!/bin/bash
# Other people's verbs programs over the iWARP provider: the packages rdmacm-utils,
# ibverbs-utils, perftest and fio, none of which knows of it (LD_PRELOAD).
#
#   programs.sh LIBRARY FOLDER [ADDRESS]         both ends on the provider
#   programs.sh --server kernel LIBRARY FOLDER ADDRESS     servers on an RDMA device
#   programs.sh --client kernel LIBRARY FOLDER ADDRESS     clients on one
#
# Prints PASS, FAIL or SKIP lines; what the programs said is in FOLDER. Every
# pair of programs has half a minute (PROGRAM_SECONDS). PROGRAM_FULL=1: all
# message sizes, longer.
set -uo pipefail
server_lib='' client_lib='' label=native
server_stays=no  # yes: the server serves until it is killed
declare -A on_kernel=([server]=no [client]=no)
while [[ ${1:-} = --* ]]; do
  on_kernel[${1#--}]=yes
  label=${1#--}-on-$2
  shift 2
done
library=$(realpath "$1")
out=$2
address=${3:-127.0.0.1}
limit=${PROGRAM_SECONDS:-30}
full=${PROGRAM_FULL:-0}
[ "${on_kernel[server]}" = yes ] || server_lib=$library
[ "${on_kernel[client]}" = yes ] || client_lib=$library
mkdir -p "$out"
port=$((20000 + $$ % 20000))

# pair NAME SERVER… -- CLIENT… : both end with 0. @ is the port, each time another.
pair() {
  local name=$1 server=() client=() seen=no word
  shift
  port=$((port + 1))
  for word in "$@"; do
    if [ "$word" = -- ]; then seen=yes; continue; fi
    if [ $seen = no ]; then server+=("${word//@/$port}"); else client+=("${word//@/$port}"); fi
  done
  run_pair "$name"
}

# With `server` and `client` of its caller. Where perftest could not measure the
# processor's clock, which it reports times by, the machine was too busy for it:
# it is asked again, on another port.
run_pair() {
  local tries
  for tries in 1 2 3; do
    run_pair_once "$1" > "$out/$1.result"
    grep -q '^FAIL' "$out/$1.result" || break
    grep -qs 'Correlation coefficient' "$out/$1.server" "$out/$1.client" || break
    port=$((port + 1))
    server=("${server[@]//$((port - 1))/$port}")
    client=("${client[@]//$((port - 1))/$port}")
  done
  cat "$out/$1.result"
}

run_pair_once() {
  local name=$label-$1 log=$out/$1 server_pid code=0 server_code=0
  if ! command -v "${server[0]}" > /dev/null; then
    echo "SKIP $name: there is no ${server[0]}"
    return
  fi
  printf '$ %s\n' "${server[*]}" > "$log.server"
  LD_PRELOAD=$server_lib timeout "$limit" "${server[@]}" >> "$log.server" 2>&1 < /dev/null &
  server_pid=$!
  wait_for_listener "$server_pid"
  printf '$ %s\n' "${client[*]}" > "$log.client"
  LD_PRELOAD=$client_lib timeout "$limit" "${client[@]}" >> "$log.client" 2>&1 < /dev/null || code=$?
  if [ $server_stays = yes ]; then kill "$server_pid" && wait "$server_pid"
  else wait "$server_pid" || server_code=$?; fi
  if [ "${client[0]}" = rping ]; then
    server_code=$(rping_code "$server_code" "$log.server" 'wait for RDMA_READ_ADV state 10')
    code=$(rping_code "$code" "$log.client")
  fi
  if [ "$code" = 0 ] && [ "$server_code" = 0 ]; then echo "PASS $name"; return; fi
  tail -n 5 "$log.server" "$log.client" | sed 's/^/  | /'
  echo "FAIL $name: the server ended with $server_code, the client with $code"
}

# rping_code CODE LOG [LINE]: what an end of rping should have ended with, by what
# it said. Its codes say little: an end whose peer leaves early ends with 0, and
# one that did all its work ends with 255 where its thread for events finds the
# channel closed before main has returned (mended after rdma-core 44).
rping_code() {
  local race='rdma_get_cm_event: Bad file descriptor'
  if tail -n +2 "$2" | grep -qvE "^((server|client) DISCONNECT EVENT\.\.\.|$race|${3:-$race})\$"; then
    echo "$1, and more than its usual words"
  elif [ "$1" = 255 ] && grep -qx "$race" "$2"; then echo 0
  else echo "$1"; fi
}

# The port is listened on, by a socket: siw's, too, is one, and an id of the
# kernel's is in state LISTEN before its socket is.
wait_for_listener() {
  local i hex
  hex=$(printf '%04X' "$port")
  for ((i = 0; i < 100; i++)); do
    if grep -qE ":$hex 0+:0000 0A" /proc/net/tcp /proc/net/tcp6; then return; fi
    kill -0 "$1" 2> /dev/null || return 0
    sleep 0.1
  done
}

if [ $label = native ]; then
  if LD_PRELOAD=$library ibv_devinfo -v > "$out/devinfo" 2>&1 &&
    grep -q 'iWARP' "$out/devinfo" && grep -q PORT_ACTIVE "$out/devinfo"; then
    echo "PASS native-ibv_devinfo"
  else
    echo "FAIL native-ibv_devinfo: see $out/devinfo"
  fi
fi

for size in 23 64 4096 65535; do  # rping's limits are the first and the last
  pair rping-$size rping -s -a "$address" -p @ -C 1000 -S $size -V -- \
    rping -c -a "$address" -p @ -C 1000 -S $size -V
done
if [ "${on_kernel[client]}" = yes ]; then
  echo "SKIP $label-rping-own-qp: rdma_establish, which it calls, fails on siw"
else
  pair rping-own-qp rping -s -a "$address" -p @ -C 100 -q -- rping -c -a "$address" -p @ -C 100 -q
fi

# perftest: -a runs every size up to 8 MiB; between two sizes of a latency test
# it measures the processor's clock for a while.
sizes=(-a) latency_sizes=(-s 65536) count=20
if [ "$full" = 1 ]; then count=200 latency_sizes=(-a); fi
[ $label = native ] || sizes=(-s 65536) latency_sizes=(-s 64)
for verb in send write read; do
  pair ib_${verb}_bw ib_${verb}_bw -R -p @ "${sizes[@]}" -n $count -- \
    ib_${verb}_bw -R -p @ "${sizes[@]}" -n $count "$address"
  pair ib_${verb}_bw-8-queues ib_${verb}_bw -R -p @ -q 8 -s 16384 -n 1000 -- \
    ib_${verb}_bw -R -p @ -q 8 -s 16384 -n 1000 "$address"
  pair ib_${verb}_lat ib_${verb}_lat -R -p @ "${latency_sizes[@]}" -n $count -- \
    ib_${verb}_lat -R -p @ "${latency_sizes[@]}" -n $count "$address"
done
# With events. ib_write_* has none; ib_send_bw gets its credits on iWARP by WRITEs,
# which announce nothing, and sleeps for ever over the last one now and then.
pair ib_read_bw-events ib_read_bw -R -p @ -e -s 4096 -n 2000 -- \
  ib_read_bw -R -p @ -e -s 4096 -n 2000 "$address"
for verb in send read; do
  pair ib_${verb}_lat-events ib_${verb}_lat -R -p @ -e -s 64 -n 500 -- \
    ib_${verb}_lat -R -p @ -e -s 64 -n 500 "$address"
done
pair ib_send_bw-both-ways ib_send_bw -R -p @ -b -s 4096 -n 2000 -- \
  ib_send_bw -R -p @ -b -s 4096 -n 2000 "$address"
pair ib_write_bw-both-ways ib_write_bw -R -p @ -b -s 65536 -n 500 -- \
  ib_write_bw -R -p @ -b -s 65536 -n 500 "$address"

[ $label = native ] || exit 0

for verb in write read send; do
  pair fio-$verb \
    fio --name=server --ioengine=rdma --port=@ --rw=read --bs=64k --size=32m --iodepth=16 -- \
    fio --name=client --ioengine=rdma --hostname="$address" --port=@ --verb=$verb --rw=write \
    --bs=64k --size=32m --iodepth=16
done

pair ucmatose ucmatose -b "$address" -p @ -c 4 -C 100 -S 4096 -- \
  ucmatose -s "$address" -p @ -c 4 -C 100 -S 4096
pair ucmatose-migrate ucmatose -b "$address" -p @ -m -- ucmatose -s "$address" -p @ -m
server_stays=yes
pair cmtime cmtime -b "$address" -p @ -c 50 -- cmtime -s "$address" -p @ -c 50
server_stays=no
pair rdma_client rdma_server -p @ -- rdma_client -s "$address" -p @

[ $label = native ] || exit 0
echo "SKIP $label-ib_send_bw-events: it may sleep over a credit that came as a WRITE"
echo "SKIP $label-udaddy: datagrams; iWARP has connections only"
echo "SKIP $label-rstream: rsockets reach into ids of the real librdmacm"
