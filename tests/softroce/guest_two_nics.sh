#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/softroce/guest_two_nics.sh — inside the guest: a world of 2x2 processes whose nodes have a device each.
#
# guest_two_nics.sh COUNTS PROGRAM [flags]: starts PROGRAM once per rank, with torchrun's variables.  Writes one line to
# the file COUNTS: the bytes that each end of the wire sent meanwhile.
set -uo pipefail
counts=$1
shift
sent() { cat "/sys/class/net/wire$1/statistics/tx_bytes"; }

before=("$(sent 0)" "$(sent 1)")
ranks=()
for rank in 0 1 2 3; do
  env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 \
    MKERNEL_NICS=soft_$((rank / 2)) "$@" &
  ranks+=($!)
done
failed=0
for rank in "${ranks[@]}"; do wait "$rank" || failed=1; done
echo "$(($(sent 0) - before[0])) $(($(sent 1) - before[1]))" >"$counts"
exit $failed
