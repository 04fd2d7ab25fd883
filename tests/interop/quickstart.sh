#!/bin/bash
# In the guest: the main job on real files. A file is exported by sluiced, the
# kernel's host connects to it, makes a file system, fills it, and finds every
# byte again after sluiced was restarted.
#
#   lab run tests/interop/quickstart.sh [rxe|siw] [ext4|xfs]
set -euo pipefail
kind=${1:-rxe}
file_system=${2:-ext4}
nqn=nqn.2026-11.io.sluice:quickstart
backing=/mnt/backing/disk.img
tree=/usr/include/linux
mount_point=/mnt/sluice

current='the start'
step() { current=$*; printf '\n== %s\n' "$*"; }
finish() {
  local code=$?
  trap - EXIT
  if [ $code != 0 ]; then
    fail "quickstart-$kind-$file_system" "exit code $code at: $current"
    tail -n 20 "$OUT/sluiced.log" 2>/dev/null || true
  fi
  exit $code
}
trap finish EXIT

step "An RDMA device, $kind, on the interface with the address 10.9.0.1"
rdma_up "$kind"
rdma link show

step "A file of 1 GiB to export, on a disk of the guest's"
mkdir -p "${backing%/*}" $mount_point
modprobe virtio_blk 2>/dev/null || true
wait_for '[ -b /dev/vda ]' 5 2>/dev/null || true
if [ -b /dev/vda ]; then
  mkfs.ext4 -q /dev/vda
  mount /dev/vda "${backing%/*}"
fi
truncate -s 1G $backing

step "The target: sluiced --export $backing --nqn $nqn --listen 10.9.0.1"
start_sluiced --export $backing --nqn $nqn --listen 10.9.0.1
tail -n 2 "$OUT/sluiced.log"

step "nvme discover -t rdma -a 10.9.0.1 -s 4420"
modprobe nvme-rdma
nvme discover -t rdma -a 10.9.0.1 -s 4420 > "$OUT/discover.txt"
grep -E 'trtype|traddr|trsvcid|subnqn' "$OUT/discover.txt"
grep -q "$nqn" "$OUT/discover.txt"

step "nvme connect -t rdma -a 10.9.0.1 -s 4420 -n $nqn"
device=$(nvme_connect $nqn)
uuid=$(cat "/sys/block/${device##*/}/uuid" 2>/dev/null || true)
lsblk -o NAME,SIZE,MODEL,SERIAL "$device"
nvme list
nvme id-ctrl "$device" > "$OUT/id-ctrl.txt"
[ "$(blockdev --getsize64 "$device")" = $((1 << 30)) ]

step "mkfs.$file_system, mount, copy $tree"
"mkfs.$file_system" -q "$device"
mount "$device" $mount_point
cp -a $tree $mount_point/tree
files=$(find $mount_point/tree -type f | wc -l)
kib=$(du -sk $mount_point/tree | cut -f1)
umount $mount_point
echo "$files files, $kib KiB"

step "fsck"
case $file_system in
  ext4) fsck.ext4 -fn "$device" ;;
  xfs) xfs_repair -n "$device" ;;
esac > "$OUT/fsck.txt" 2>&1
tail -n 1 "$OUT/fsck.txt"

step "nvme disconnect; sluiced stopped with SIGTERM and started again"
nvme_disconnect $nqn
stop_sluiced
start_sluiced --export $backing --nqn $nqn --listen 10.9.0.1
device=$(nvme_connect $nqn)
if [ -n "$uuid" ] && [ "$uuid" != "$(cat "/sys/block/${device##*/}/uuid")" ]; then
  echo "the namespace's UUID was $uuid and is $(cat "/sys/block/${device##*/}/uuid")"
  false
fi

step "mount, diff -r $tree"
mount "$device" $mount_point
diff -r --no-dereference $tree $mount_point/tree
umount $mount_point
nvme_disconnect $nqn
stop_sluiced

printf '\n'
pass "quickstart-$kind-$file_system"
cat <<SUMMARY
kernel $(uname -r), $kind: $files files ($kib KiB) on $file_system went through
sluiced over RDMA; fsck was clean, and after a restart of sluiced every byte was there.
SUMMARY
