#!/bin/bash
# In the guest: several scripts one after the other in one boot, each with a
# folder of its own under $OUT, and what it may have left behind cleared away.
#
#   lab run tools/lab/several.sh KIND NAME:SECONDS:SCRIPT[:ARG]…
#
# Each is run as `SCRIPT KIND [ARG]`, for at most so many seconds. Its console is
# $OUT/NAME/console, its exit code $OUT/NAME/rc, and the time it took in
# $OUT/NAME/seconds. Ends with 0 when every script did.
set -uo pipefail
kind=$1
shift

clear_away() {
  local pid target
  for pid in $(pgrep '^(fio|sluiced|conformance_tes|verbs_test)'); do kill -9 "$pid"; done
  timeout 60 nvme disconnect-all
  kernel_target_gone
  for target in $(findmnt -rno TARGET | grep '^/mnt/' | tac); do umount "$target" || umount -l "$target"; done
  tc qdisc del dev lo root
  if [ -d /sys/kernel/config/nullb/nullb0 ]; then rmdir /sys/kernel/config/nullb/nullb0; fi
} > /dev/null 2>&1

all=0
for one in "$@"; do
  IFS=: read -r name seconds script argument <<< "$one"
  mkdir -p "$OUT/$name"
  started=$SECONDS code=0
  # shellcheck disable=SC2086
  OUT=$OUT/$name timeout -k 10 "$seconds" bash "$script" "$kind" $argument > "$OUT/$name/console" 2>&1 || code=$?
  dmesg > "$OUT/$name/dmesg"
  echo $((SECONDS - started)) > "$OUT/$name/seconds"
  echo $code > "$OUT/$name/rc"
  [ $code = 0 ] || all=1
  clear_away
done
exit $all
