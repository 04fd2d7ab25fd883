#!/bin/bash
# In the guest: fio with crc32c verification through the kernel's host against
# namespaces on a file system, on tmpfs, on a block device and in memory, with
# 512- and 4096-byte blocks; discards read back. Over siw on 6.12 and later also
# with a delay on the link, where a buffer reused too early shows.
#
#   lab run tests/interop/verify.sh [rxe|siw]      LAB_DISK="3G 1G"
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:verify
seconds=5
[ "${CHECK_FULL:-0}" = 1 ] && seconds=30

rdma_up "$kind"
modprobe nvme-rdma
mkdir -p /mnt/ext4 /mnt/tmpfs
modprobe virtio_blk
wait_for '[ -b /dev/vdb ]' 10
mkfs.ext4 -q /dev/vda
mount /dev/vda /mnt/ext4
mount -t tmpfs -o size=1G tmpfs /mnt/tmpfs
truncate -s 512M /mnt/ext4/a /mnt/ext4/b /mnt/tmpfs/c

# fio_verify NAME DEVICE BLOCK : random mixed sizes, read back and checked.
fio_verify() {
  fio --name="$1" --filename="$2" --direct=1 --ioengine=io_uring --rw=randrw \
    --bsrange="$3-1M" --bs_unaligned=0 --blockalign="$3" --iodepth=32 --numjobs=4 \
    --size=96M --offset_increment=96M --verify=crc32c --verify_fatal=1 \
    --do_verify=1 --time_based=1 --runtime=$seconds --group_reporting \
    --verify_backlog=64 --output="$OUT/fio-$1.txt"
}

# after WANTED DEVICE COMMAND… : fills 8 MiB and runs the command on it; the same
# 8 MiB must then read as zeroes, or as any bytes, and the next must be untouched.
after() {
  local wanted=$1 device=$2
  shift 2
  dd if=/dev/urandom of=/tmp/next bs=1M count=1 status=none
  dd if=/tmp/next of="$device" bs=1M seek=8 oflag=direct conv=nocreat status=none
  dd if=/dev/urandom of="$device" bs=1M count=8 oflag=direct conv=nocreat status=none
  "$@" "$device" || return
  [ "$wanted" = any ] || cmp -n $((8 << 20)) "$device" /dev/zero || return
  dd if="$device" bs=1M skip=8 count=1 iflag=direct status=none | cmp - /tmp/next
}

# Deallocated blocks read as zeroes where DLFEAT says so; a disk may ignore them.
discards() {
  local device=$1 wanted=any dlfeat
  after zeroes "$device" blkdiscard -z -o 0 -l $((8 << 20)) || return
  [ "$(cat "/sys/block/${device##*/}/queue/discard_max_bytes")" -gt 0 ] || { echo "no discard here"; return 1; }
  dlfeat=$(nvme id-ns "$device" | awk '$1 == "dlfeat" { print $3 }')
  [ $((dlfeat & 7)) != 1 ] || wanted=zeroes
  echo "dlfeat $dlfeat: $wanted"
  after $wanted "$device" blkdiscard -o 0 -l $((8 << 20))
}

trims() {
  local device=$1
  mkfs.ext4 -q "$device" && mkdir -p /mnt/t && mount "$device" /mnt/t || return
  dd if=/dev/urandom of=/mnt/t/x bs=1M count=32 status=none && sync
  rm /mnt/t/x && sync && fstrim -v /mnt/t || return
  umount /mnt/t && fsck.ext4 -fn "$device"
}

# all_of BLOCK EXPORT… : one target with these namespaces, every job on each.
all_of() {
  local block=$1 device exports=() path
  shift
  for path in "$@"; do exports+=(--export "$path"); done
  start_sluiced "${exports[@]}" --block-size "$block" --nqn $nqn --listen 10.9.0.1
  nvme_connect $nqn > /dev/null
  wait_for "[ \$(nvme_devices $nqn | wc -l) = $# ]" 30
  for device in $(nvme_devices $nqn); do
    check "verify-$kind-$block-${device##*n}" fio_verify "$block-${device##*n}" "$device" "$block" || true
    check "discard-$kind-$block-${device##*n}" discards "$device" || true
    check "fstrim-$kind-$block-${device##*n}" trims "$device" || true
  done
  nvme_disconnect $nqn
  check "stop-$kind-$block" stop_sluiced || true
}

all_of 512 /mnt/ext4/a /mnt/tmpfs/c /dev/vdb ram:512M
if [ "$kind" = siw ] && [ "$(uname -r | cut -d. -f2)" -ge 12 ]; then
  tc qdisc add dev lo root netem delay 20ms
  start_sluiced --export ram:512M --nqn $nqn --listen 10.9.0.1
  device=$(nvme_connect $nqn)
  check "verify-siw-delay" fio_verify delay "$device" 4096 || true
  nvme_disconnect $nqn
  stop_sluiced
  tc qdisc del dev lo root
fi
all_of 4096 /mnt/ext4/b
