#!/bin/bash
# Proves the lab: kernel host against kernel target over the RDMA kind named.
set -euo pipefail
nqn=nqn.2026-11.lab:kernel
rdma_up "${1:-rxe}"
rdma_baseline
modprobe brd rd_nr=1 rd_size=262144
kernel_target $nqn /dev/ram0
device=$(nvme_connect $nqn)
mkfs.ext4 -q "$device"
mkdir -p /mnt/x
mount "$device" /mnt/x
cp -r /usr/share/doc/bash /mnt/x/
umount /mnt/x
mount "$device" /mnt/x
diff -r /usr/share/doc/bash /mnt/x/bash
fio --name=a --size=64m --filename=/mnt/x/f --rw=randrw --bs=4k --iodepth=16 --ioengine=io_uring \
  --direct=1 --runtime=3 --time_based --output-format=terse | cut -d';' -f8,49 | tee "$OUT/iops"
umount /mnt/x
nvme_disconnect $nqn
pass "smoke-${1:-rxe}"
