#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/processes.sh — worlds of processes that share one GPU, over tcp and over RDMA NICs in software: are they right?
#
# usage: bench/processes.sh BUILD_FOLDER OUTPUT_FOLDER
#
# Writes processes.jsonl and processes.log, prints a line for each operator and way to run it, and exits non-zero if
# anything was wrong.  MPS runs meanwhile, so that the kernels of all processes run at once; it is stopped at the end.
# Without MPS the processes take turns, and the lines say so.
set -uo pipefail
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
most_seconds=120
world=(--nodes 2 --ranks 2)
shape=(--m 2048 --n 512 --k 1024)
failed=0
mps=off

# A folder of its own: the daemon meets its clients there, and paths to sockets are short.
CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY

stop_mps() {
  [[ $mps == off ]] || echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
  mps=off
}
trap 'stop_mps; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT

start_mps() {
  if ! command -v nvidia-cuda-mps-control >/dev/null ||
    ! timeout 20 nvidia-cuda-mps-control -d >>"$out/processes.log" 2>&1; then
    echo "no MPS: the processes take turns on the GPU"
    return
  fi
  mps=on
  # Where a container may not have it, no process finds a GPU any more.
  timeout 60 "$build/mkernel" info | grep -q '^auto *cuda' && return
  echo "MPS was started, but no GPU is found through it: the processes take turns"
  stop_mps
}

# run LAUNCHER NET LAUNCHES: all operators
run() {
  local launcher=$1 net=$2 launches=$3 preload="" starter=() status
  [[ $net == tcp ]] || preload=$build/tests/libmkernel_soft_nic.so
  [[ $launcher == fork ]] || starter=(mpirun -n 4 --oversubscribe)
  local command=(env "LD_PRELOAD=$preload" MKERNEL_SOFT_NIC=seed=0 "$build/mkernel" run all --device cuda
    --launcher "$launcher" --net "$net" "${world[@]}" "${shape[@]}" --launches "$launches"
    --json "$out/processes.jsonl")
  echo "== MPS $mps: ${starter[*]} ${command[*]}" >>"$out/processes.log"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    timeout -k 10 "$most_seconds" "${starter[@]}" "${command[@]}" >"$out/part" 2>&1
  status=$?
  cat "$out/part" >>"$out/processes.log"
  grep -E '^(ag_gemm|gemm_)' "$out/part" | sed "s/^/MPS $mps  $launcher  $net  $launches launches  /"
  if ((status != 0)); then
    failed=1
    echo "MPS $mps  $launcher  $net  $launches launches  FAILED ($status): $(tail -1 "$out/part")"
  fi
  rm "$out/part"
}

run fork tcp 5
start_mps
launches=200
[[ $mps == on ]] || launches=20
for net in tcp verbs efa; do run fork "$net" "$launches"; done
if command -v mpirun >/dev/null; then
  for net in tcp verbs efa; do run env "$net" "$launches"; done
else
  echo "no mpirun: its processes were left out"
fi
exit "$failed"
