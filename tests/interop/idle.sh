#!/bin/bash
# In the guest: sixteen connected idle queues cost at most 0.3 % of a processor,
# whatever the backend (R82).
#
#   lab run tests/interop/idle.sh [rxe|siw]      LAB_DISK="1G 64M"
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:idle
# Emulation makes a wake-up some fifty times dearer, a busy machine dearer still:
# the quick run allows for that.
seconds=15 limit=1.0
[ "${CHECK_FULL:-0}" = 1 ] && seconds=60 limit=0.3

rdma_up "$kind"
modprobe nvme-rdma
modprobe virtio_blk
wait_for '[ -b /dev/vdb ]' 10
mkdir -p /mnt/t /mnt/ext4
mount -t tmpfs tmpfs /mnt/t
mkfs.ext4 -q /dev/vda
mount /dev/vda /mnt/ext4
truncate -s 64M /mnt/t/disk /mnt/ext4/disk

# Sixteen I/O queues, six of a controller (two processors: two each for reads, for
# writes and for polling), and three admin queues with a Keep Alive each 7.5 s: as
# many as one host with sixteen processors sends. Every backend is in the one
# target: together they cost no more than one may.
idle() {
  local before after share queues
  for queues in 2,nr_write_queues=2,nr_poll_queues=2 2,nr_write_queues=2,nr_poll_queues=2 2,nr_write_queues=2; do
    # The kernel's own interface: nvme-cli connects a host only once.
    echo "transport=rdma,traddr=10.9.0.1,trsvcid=4420,nqn=$nqn,nr_io_queues=$queues,keep_alive_tmo=15,duplicate_connect" \
      > /dev/nvme-fabrics || return
  done
  [ "$(grep -c 'queue up qid=[1-9]' "$OUT/sluiced.log")" = 16 ] || { grep 'queue up' "$OUT/sluiced.log"; return 1; }
  wait_for "[ \$(nvme_devices $nqn | wc -l) = ${#exports[@]} ]" 60 || return
  sleep 5
  before=$(cpu_nanos "$SLUICED_PID")
  sleep $seconds
  after=$(cpu_nanos "$SLUICED_PID")
  [ "$after" -gt "$before" ] || { echo "the clock stands still: $before"; return 1; }
  share=$(awk -v t=$((after - before)) -v s=$seconds 'BEGIN { printf "%.3f", t / s / 1e7 }')
  echo "$kind: $share % of one core over $seconds s with 16 idle I/O queues and ${#exports[@]} backends" |
    tee -a "$OUT/figures"
  nvme_disconnect $nqn
  awk -v p="$share" -v limit=$limit 'BEGIN { exit !(p <= limit) }'
}

exports=(ram:64M null:64M /mnt/t/disk /mnt/ext4/disk /dev/vdb)
# shellcheck disable=SC2046
start_sluiced $(printf -- '--export %s ' "${exports[@]}") --nqn $nqn --listen 10.9.0.1
check "idle-$kind" idle || true
check "stop-idle-$kind" stop_sluiced || true
