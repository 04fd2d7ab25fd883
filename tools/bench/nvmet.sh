#!/bin/bash
# In the guest: sluiced beside the kernel's nvmet-rdma. One boot, both in memory,
# the kernel's host connected to both at once, jobs in turn (kernel, sluice,
# kernel, sluice, …; the first pair is dropped: the emulator warms up). Prints
# each job's medians, the median of the pairs' ratios, and the processor time of
# the whole guest and of sluiced while it ran.
#
#   tools/lab/lab run tools/bench/nvmet.sh [rxe|siw]        LAB_SECONDS=1200
#
# BENCH_PAIRS (5, the first not counted), BENCH_SECONDS (4) a job, BENCH_JOBS (a
# part of the names below), BENCH_SLUICED (flags): LAB_PASS hands them on.
set -euo pipefail
kind=${1:-rxe}
pairs=${BENCH_PAIRS:-5}
seconds=${BENCH_SECONDS:-4}
read -ra flags <<< "${BENCH_SLUICED:-}"

rdma_up "$kind"
modprobe brd rd_nr=1 rd_size=262144
kernel_target nqn.2026-11.io.sluice:kernel /dev/ram0
start_sluiced --export ram:256M --nqn nqn.2026-11.io.sluice:user --listen 10.9.0.1:4421 "${flags[@]}"
kernel=$(nvme_connect nqn.2026-11.io.sluice:kernel)
sluice=$(nvme_connect nqn.2026-11.io.sluice:user -s 4421)
for device in "$kernel" "$sluice"; do
  dd if=/dev/urandom of="$device" bs=1M count=256 oflag=direct conv=nocreat status=none
done

# busy : jiffies of the guest that were not idle.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }

# one NAME TARGET DEVICE PAIR FIO_ARGS…
one() {
  local name=$1 target=$2 device=$3 pair=$4 json busy_before nanos_before
  shift 4
  json=$OUT/$name-$target-$pair.json
  busy_before=$(busy) nanos_before=$(cpu_nanos "$SLUICED_PID")
  fio --name="$name" --filename="$device" --allow_file_create=0 --direct=1 --ioengine=io_uring --time_based=1 \
    --runtime="$seconds" --size=256M --norandommap=1 --output-format=json --output="$json" "$@"
  echo "$name $target $pair $(($(busy) - busy_before)) $(($(cpu_nanos "$SLUICED_PID") - nanos_before)) $json" >> "$OUT/jobs"
}

job() {  # job NAME FIO_ARGS…
  local name=$1 pair
  shift
  case $name in *"${BENCH_JOBS:-}"*) ;; *) return 0 ;; esac
  for pair in $(seq "$pairs"); do
    one "$name" kernel "$kernel" "$pair" "$@"
    one "$name" sluice "$sluice" "$pair" "$@"
  done
}

job randread-4k-qd1 --rw=randread --bs=4k --iodepth=1
job randread-4k-qd16 --rw=randread --bs=4k --iodepth=16
job read-128k-qd8 --rw=read --bs=128k --iodepth=8
job write-128k-qd8 --rw=write --bs=128k --iodepth=8

python3 - "$OUT/jobs" "$kind" "$seconds" <<'PYTHON' | tee "$OUT/figures"
import json, os, statistics, sys

hertz = os.sysconf("SC_CLK_TCK")
runs = {}
for line in open(sys.argv[1]):
    name, target, pair, busy, nanos, path = line.split()
    text = open(path).read()
    result = json.loads(text[text.index("{"):])["jobs"][0]
    side = result["read"] if result["read"]["total_ios"] else result["write"]
    runs.setdefault(name, {}).setdefault(target, []).append({
        "iops": side["iops"],
        "p50": side["clat_ns"]["percentile"]["50.000000"] / 1000,
        "p99": side["clat_ns"]["percentile"]["99.000000"] / 1000,
        "busy": int(busy) / hertz / side["total_ios"] * 1e6,
        "own": int(nanos) / side["total_ios"] / 1000,
    })
print(f"{sys.argv[2]}, {os.uname().release}, {sys.argv[3]} s a job; medians, the first pair dropped")
print(f"{'job':18} {'ratio':>6}   {'kernel':>8} {'sluice':>8} IOPS   {'kernel':>7} {'sluice':>7} p50 us"
      f"   {'kernel':>7} {'sluice':>7} p99 us   {'kernel':>7} {'sluice':>7} CPU us per I/O   of it sluiced")
for name, targets in runs.items():
    kernel, sluice = targets["kernel"], targets["sluice"]
    if len(kernel) > 1:
        kernel, sluice = kernel[1:], sluice[1:]
    ratio = statistics.median(s["iops"] / k["iops"] for s, k in zip(sluice, kernel))
    middle = lambda side, key: statistics.median(one[key] for one in side)
    print(f"{name:18} {ratio:6.2f}   {middle(kernel, 'iops'):8.0f} {middle(sluice, 'iops'):8.0f}        "
          f"{middle(kernel, 'p50'):7.0f} {middle(sluice, 'p50'):7.0f}          "
          f"{middle(kernel, 'p99'):7.0f} {middle(sluice, 'p99'):7.0f}          "
          f"{middle(kernel, 'busy'):7.0f} {middle(sluice, 'busy'):7.0f}                  {middle(sluice, 'own'):7.0f}")
PYTHON
nvme_disconnect nqn.2026-11.io.sluice:kernel
nvme_disconnect nqn.2026-11.io.sluice:user
stop_sluiced
