#!/bin/bash
# In the guest: sixteen connected idle queues cost next to nothing, whatever the
# backend; and after many connects everything is back where it was.
#
#   lab run tests/interop/idle.sh [rxe|siw]
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:idle
seconds=15
cycles=100
[ "${CHECK_FULL:-0}" = 1 ] && seconds=60 cycles=1000

rdma_up "$kind"
modprobe nvme-rdma
mkdir -p /mnt/t && mount -t tmpfs tmpfs /mnt/t && truncate -s 64M /mnt/t/disk

# ticks PID : processor time in clock ticks, all threads.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

# Emulated processors make a wake-up some ten times dearer than a real one: the
# limit is 0.3 % of a core on hardware, ten times that here.
idle() {
  local before after share i
  for i in 1 2 3 4 5; do
    nvme connect -t rdma -a 10.9.0.1 -s 4420 -n $nqn --duplicate-connect > /dev/null || return
  done
  sleep 5
  before=$(ticks "$SLUICED_PID")
  sleep $seconds
  after=$(ticks "$SLUICED_PID")
  share=$(awk -v t=$((after - before)) -v s=$seconds 'BEGIN { printf "%.2f", t / s }')
  echo "idle: $share % of one core over $seconds s with 15 queues ($kind)" | tee -a "$OUT/figures"
  nvme_disconnect $nqn
  awk -v p="$share" 'BEGIN { exit !(p <= 3.0) }'
}

cycle() {
  local i before after fds
  rdma_baseline > /dev/null
  fds=$(find "/proc/$SLUICED_PID/fd" | wc -l)
  before=$(awk '/VmRSS/ { print $2 }' "/proc/$SLUICED_PID/status")
  for i in $(seq $cycles); do
    nvme discover -t rdma -a 10.9.0.1 -s 4420 > /dev/null || return
  done
  rdma_settled 20 || return
  after=$(awk '/VmRSS/ { print $2 }' "/proc/$SLUICED_PID/status")
  echo "cycles: $cycles, RSS $before -> $after KiB, fds $fds -> $(find "/proc/$SLUICED_PID/fd" | wc -l)" | tee -a "$OUT/figures"
  [ "$(find "/proc/$SLUICED_PID/fd" | wc -l)" -le "$fds" ] || return
  [ $((after - before)) -lt 8192 ]
}

start_sluiced --export ram:64M --export null:64M --export /mnt/t/disk --nqn $nqn --listen 10.9.0.1
check "idle-$kind" idle || true
nvme discover -t rdma -a 10.9.0.1 -s 4420 > /dev/null
check "cycles-$kind" cycle || true
check "stop-idle-$kind" stop_sluiced || true
cat "$OUT/figures"
