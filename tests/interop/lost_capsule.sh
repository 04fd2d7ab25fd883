#!/bin/bash
# In the guest: siw loses sight of a first capsule that comes before the connection
# is accepted (tools/lab/README.md). sluiced looks for it, and the host is served.
#
#   lab run tests/interop/lost_capsule.sh siw
set -euo pipefail
kind=${1:-siw}
nqn=nqn.2026-11.io.sluice:lost

if [ "$kind" != siw ]; then
  skip lost-capsule-"$kind" "only siw loses capsules"
  exit 0
fi
rdma_up siw
start_sluiced --export ram:64M --nqn $nqn --listen 10.9.0.1
check lost-capsule-siw timeout 30 python3 tests/interop/lost_capsule.py 10.9.0.1 4420 $nqn "$SLUICED_PID" || true
check stop-lost-capsule-siw stop_sluiced || true
