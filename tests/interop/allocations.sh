#!/bin/bash
# In the guest: the data path asks for no memory. A preloaded library counts
# what the reactor threads of sluiced allocate; after a warm-up it finds zero
# over 100,000 commands (20,000 without --full), to a file and to memory, small and
# large, in capsules and not.
#
#   lab run tests/interop/allocations.sh [rxe|siw]      LAB_DISK=1G
set -euo pipefail
kind=${1:-rxe}
nqn=nqn.2026-11.io.sluice:allocations
counter=$LAB_ROOT/build/release/lib/liballocation_counter.so
commands=20000
[ "${CHECK_FULL:-0}" = 1 ] && commands=100000
counts=/tmp/counts

if [ ! -e "$counter" ]; then
  fail "allocations-$kind" "no library $counter"
  exit 1
fi
rdma_up "$kind"
modprobe nvme-rdma
modprobe virtio_blk
wait_for '[ -b /dev/vda ]' 10
mkdir -p /mnt/ext4
mkfs.ext4 -q /dev/vda
mount /dev/vda /mnt/ext4
dd if=/dev/zero of=/mnt/ext4/disk bs=1M count=64 status=none

# The library is for sluiced alone.
cat > /tmp/counted <<COUNTED
#!/bin/bash
exec env LD_PRELOAD=$counter ALLOCATION_COUNTS=$counts $SLUICED "\$@"
COUNTED
chmod +x /tmp/counted
SLUICED=/tmp/counted

count() { od -A n -t u8 -j "$1" -N 8 $counts | tr -d ' '; }
# From now on the stacks of those who ask for memory are kept.
tell() { printf '\1' | dd of=$counts bs=1 seek=16 conv=notrunc status=none; }
# The innermost functions of each stack.
culprits() {
  local line
  while read -r line; do
    case $line in
      *sluiced\(+*) line=${line#*+} && addr2line -psfiCe "$LAB_ROOT/build/release/bin/sluiced" "${line%%)*}" ;;
      *) echo "$line" ;;
    esac
  done < $counts.stacks
}

# load DEVICE COMMANDS FACTOR PROCESSORS : mixed reads and writes, then large
# ones and flushes, at 32 and 16 in flight times the factor.
load() {
  fio --name=small --filename="$1" --allow_file_create=0 --direct=1 --ioengine=io_uring --rw=randrw --cpus_allowed="$4" \
    --bs=4k --iodepth=$((32 * $3)) --size=32M --io_size=$(($2 * 36 / 10))k --norandommap=1 \
    --name=large --stonewall --filename="$1" --allow_file_create=0 --direct=1 --ioengine=io_uring --rw=randrw --cpus_allowed="$4" \
    --bsrange=8k-64k --iodepth=$((16 * $3)) --number_ios=$(($2 / 10)) --fsync=100 --time_based=0 --size=32M --io_size=100G \
    --norandommap=1 --output="$OUT/fio.txt"
}

allocations() {
  local device before after served cpu export=$1
  rm -f $counts
  start_sluiced --export "$export" --nqn $nqn --listen 10.9.0.1 || return
  device=$(nvme_connect $nqn) || return
  # Frames are kept for as many commands as a reactor ever had in flight at once:
  # four times as many as later, on the queue of each of the host's processors,
  # lest one reactor has seen little of them.
  for ((cpu = 0; cpu < $(nproc); ++cpu)); do load "$device" $((commands / 8)) 4 $cpu || return; done
  before=$(count 0)
  [ "$before" -gt 0 ] || { echo "nothing was counted at all"; return 1; }
  tell
  load "$device" $commands 1 "0-$(($(nproc) - 1))" || return
  after=$(count 0)
  served=$(grep -o 'issued rwts: total=[0-9,]*' "$OUT/fio.txt" | tr '=,' '  ' | awk '{ sum += $4 + $5 } END { print sum }')
  echo "$kind $export: $((after - before)) allocations by the reactors over $served commands ($before before them)" |
    tee -a "$OUT/figures"
  [ "$after" = "$before" ] || culprits
  nvme_disconnect $nqn
  stop_sluiced || return
  [ "$served" -ge $commands ] && [ "$after" = "$before" ]
}

exports=(/mnt/ext4/disk)
[ "${CHECK_FULL:-0}" = 0 ] || exports+=(ram:64M)
for export in "${exports[@]}"; do
  name=${export##*/}
  check "allocations-$kind-${name%%:*}" allocations "$export" || { nvme disconnect -n $nqn || true; kill -9 "$SLUICED_PID" || true; }
done
cat "$OUT/figures"
