#!/bin/bash
# In the guest, with LAB_NET=user: a stock kernel's host over siw reaches a
# sluiced that runs on the host machine, on its loopback, over the provider in
# sluiced itself: no RDMA device and no module there. A file system, files, fio's
# verification, discards, and every byte again after a reconnect.
#
#   LAB_NET=user LAB_PASS="NAT_PORT NAT_NQN" lab run tests/interop/nat.sh siw [ext4|xfs]
#
# NAT_PORT is the port of 127.0.0.1 there, NAT_NQN the subsystem; its namespace is
# of 1 GiB.
set -euo pipefail
file_system=${2:-ext4}
tree=/usr/include/linux
mount_point=/mnt/sluice
name=nat-$file_system

current='the start'
step() { current=$*; printf '\n== %s\n' "$*"; }
finish() {
  local code=$?
  trap - EXIT
  [ $code = 0 ] || fail "$name" "exit code $code at: $current"
  exit $code
}
trap finish EXIT

step "An siw device on the card behind NAT"
nat_up
modprobe ib_uverbs
modprobe rdma_ucm
modprobe siw
rdma link add siw0 type siw netdev eth0
wait_for '[ -e /sys/class/infiniband/siw0 ]' 5

step "nvme connect -t rdma -a 10.0.2.2 -s $NAT_PORT -n $NAT_NQN"
connect() {
  modprobe nvme-rdma
  nvme connect -t rdma -a 10.0.2.2 -s "$NAT_PORT" -n "$NAT_NQN" >&2
  wait_for "[ -n \"\$(nvme_devices '$NAT_NQN')\" ]" 60
  nvme_devices "$NAT_NQN" | sed -n 1p
}
device=$(connect)
lsblk -o NAME,SIZE,MODEL,SERIAL "$device"
[ "$(blockdev --getsize64 "$device")" = $((1 << 30)) ]

step "fio writes and verifies"
fio --name=verify --filename="$device" --rw=randwrite --bs=4k-64k --size=64m --io_size=64m \
  --ioengine=libaio --iodepth=16 --direct=1 --verify=crc32c --do_verify=1 --verify_fatal=1 \
  --norandommap=0 > "$OUT/fio.log" 2>&1
grep -E 'err= *0' "$OUT/fio.log" > /dev/null

step "blkdiscard, and what was discarded reads as zeroes"
blkdiscard -o 0 -l 64M "$device"
cmp -n $((64 << 20)) "$device" /dev/zero

step "mkfs.$file_system, mount, copy $tree, fsck"
mkdir -p $mount_point
"mkfs.$file_system" -q "$device"
mount "$device" $mount_point
cp -a $tree $mount_point/tree
files=$(find $mount_point/tree -type f | wc -l)
umount $mount_point
case $file_system in
  ext4) fsck.ext4 -fn "$device" ;;
  xfs) xfs_repair -n "$device" ;;
esac > "$OUT/fsck.txt" 2>&1

step "nvme disconnect, connect, diff -r"
nvme_disconnect "$NAT_NQN"
device=$(connect)
mount "$device" $mount_point
diff -r --no-dereference $tree $mount_point/tree
umount $mount_point
nvme_disconnect "$NAT_NQN"

printf '\n'
pass "$name"
echo "kernel $(uname -r), siw: $files files on $file_system went through NAT to a sluiced"
echo "without an RDMA device; fsck was clean, and every byte was there."
