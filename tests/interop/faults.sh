#!/bin/bash
# In the guest: what goes wrong under load. A disconnect, a target killed with
# -9 or stopped, and started again, a full, a growing and a failing backing, a
# device deleted and added.
#
#   lab run tests/interop/faults.sh [rxe|siw]      LAB_DISK=2G
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:faults
backing=/mnt/backing/disk.img
kills=2
[ "${CHECK_FULL:-0}" = 1 ] && kills=10

rdma_up "$kind"
rdma_up rxe d1 2>/dev/null || true   # a second device: librdmacm can let go of the first
modprobe nvme-rdma
mkdir -p /mnt/backing
modprobe virtio_blk
wait_for '[ -b /dev/vda ]' 10
mkfs.ext4 -q /dev/vda
mount /dev/vda /mnt/backing
truncate -s 256M $backing
start() { start_sluiced --export $backing --nqn $nqn --listen 10.9.0.1; }
load() {  # load SECONDS DEVICE : writes with verification in the background
  # Without allow_file_create a disk that has gone comes back as a plain file.
  fio --name=load --filename="$2" --allow_file_create=0 --direct=1 --ioengine=io_uring --rw=randwrite --bs=4k \
    --iodepth=16 --size=64M --time_based=1 --runtime="$1" --output="$OUT/load.txt" "${@:3}" &
  LOAD=$!
}

disconnect_under_load() {
  local device
  device=$(nvme_connect $nqn) || return
  load 30 "$device"
  sleep 2
  nvme_disconnect $nqn || return
  wait $LOAD || true
  kill -0 "$SLUICED_PID"
}

# Every block that was written and flushed before the target ends under load is
# there when it has started again; the host comes back by itself, and whoever
# writes on it meanwhile waits and sees no error.
restarted_target() {  # restarted_target SIGNAL
  local device i
  device=$(nvme_connect $nqn --reconnect-delay=1 --ctrl-loss-tmo=120) || return
  for i in $(seq $kills); do
    fio --name=w$i --filename="$device" --allow_file_create=0 --direct=1 --ioengine=io_uring --rw=randwrite --bs=4k \
      --iodepth=16 --size=32M --io_size=8M --randseed=$i --verify=crc32c --do_verify=0 \
      --fsync_on_close=1 --output="$OUT/w$i.txt" || return
    load 60 "$device" --offset=64M
    sleep 1
    kill "-$1" "$SLUICED_PID"
    # What it was told to do is done without a complaint.
    wait "$SLUICED_PID" 2>/dev/null || [ "$1" = KILL ] || return
    start || return
    wait_for "grep -q live /sys/class/nvme/*/state" 60 || return
    sleep 1
    kill -0 $LOAD || return
    kill $LOAD 2>/dev/null; wait $LOAD 2>/dev/null || true
    fio --name=w$i --filename="$device" --allow_file_create=0 --direct=1 --ioengine=io_uring --rw=randread --bs=4k \
      --iodepth=16 --size=32M --io_size=8M --randseed=$i --verify=crc32c --verify_only=1 \
      --output="$OUT/v$i.txt" || return
  done
  nvme_disconnect $nqn
}
killed_target() { restarted_target KILL; }
# R35
stopped_target() { restarted_target TERM; }

grown_backing() {
  local device
  device=$(nvme_connect $nqn) || return
  truncate -s 320M $backing
  wait_for "[ \$(blockdev --getsize64 $device) = $((320 << 20)) ]" "2" || return
  dd if=/dev/urandom of="$device" bs=1M count=4 seek=300 oflag=direct conv=nocreat status=none
  nvme_disconnect $nqn
}

# A thin file on a file system that fills up: ENOSPC for the host, and nothing
# else breaks.
full_backing() {
  local device message
  mkdir -p /mnt/small
  mount -t tmpfs -o size=16M tmpfs /mnt/small
  truncate -s 64M /mnt/small/disk
  stop_sluiced || return
  start_sluiced --export /mnt/small/disk --nqn $nqn --listen 10.9.0.1 || return
  device=$(nvme_connect $nqn) || return
  message=$(dd if=/dev/urandom of="$device" bs=1M count=32 oflag=direct conv=nocreat 2>&1) && return 1
  echo "$message"
  grep -q 'No space left' <<< "$message" || return
  dd if="$device" of=/dev/null bs=1M count=8 iflag=direct status=none || return
  nvme_disconnect $nqn
  stop_sluiced || return
  start
}

# Bad sectors of the backing are the host's bad sectors, and only those.
failing_backing() {
  local device disk=/sys/kernel/config/nullb/nullb0
  modprobe null_blk nr_devices=0 || return
  mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
  mkdir $disk && echo 1 > $disk/memory_backed && echo 64 > $disk/size || return
  echo 1 > $disk/power && echo "+2048-2055" > $disk/badblocks || return
  stop_sluiced || return
  wait_for "[ -b /dev/nullb0 ]" 10 || return
  start_sluiced --export /dev/nullb0 --nqn $nqn --listen 10.9.0.1 || return
  device=$(nvme_connect $nqn) || return
  dmesg --clear
  ! dd if="$device" of=/dev/null bs=4k skip=256 count=1 iflag=direct status=none || return
  ! dd if=/dev/zero of="$device" bs=4k seek=256 count=1 oflag=direct conv=nocreat status=none || return
  dmesg
  # Unrecovered Read Error (0x281) is what the host calls a medium error.
  dmesg | grep 'critical medium error.*sector 2048 op 0x0:(READ)' || return
  dd if=/dev/urandom of="$device" bs=4k seek=257 count=64 oflag=direct conv=nocreat status=none || return
  dd if="$device" of=/dev/null bs=4k skip=257 count=64 iflag=direct status=none || return
  nvme_disconnect $nqn
  stop_sluiced || return
  start
}

# The device goes under load and comes back, and with it the listener. The
# host is on the same device and drops its controller with it: it connects anew.
deleted_device() {
  local device
  device=$(nvme_connect $nqn --reconnect-delay=1 --ctrl-loss-tmo=120) || return
  load 60 "$device"
  sleep 2
  rdma_down "$kind" d0 30 || return
  rdma_up "$kind" || return
  wait_for "grep -q 'listening again' $OUT/sluiced.log" 30 || return
  kill $LOAD 2>/dev/null; wait $LOAD 2>/dev/null || true
  device=$(nvme_connect $nqn) || return
  dd if="$device" of=/dev/null bs=1M count=8 iflag=direct status=none || return
  nvme_disconnect $nqn
}

start
for case in disconnect_under_load grown_backing full_backing failing_backing killed_target stopped_target deleted_device; do
  check "${case//_/-}-$kind" $case || { nvme disconnect -n $nqn > /dev/null 2>&1 || true; }
done
check "stop-after-faults-$kind" stop_sluiced || true
if grep -E ' (error|critical) ' "$OUT/sluiced.log" > "$OUT/errors.txt"; then
  echo "error lines in the log:"; head -n 5 "$OUT/errors.txt"
fi
