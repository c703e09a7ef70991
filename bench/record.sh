#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/record.sh — runs on a Hopper GPU what docs/performance.md and the README's status table claim.
#
# usage: bench/record.sh BUILD_FOLDER OUTPUT_FOLDER [tests|worlds|sanitizers|gemm|scale|processes|net ...]
# Writes worlds.jsonl, gemm.jsonl, scale.jsonl, processes.jsonl, net.jsonl, checks.jsonl and log.txt; exits non-zero if
# anything was wrong.
set -uo pipefail
build=$1 out=$2
shift 2
mkdir -p "$out"
failed=0

step() {
  echo "== $*" | tee -a "$out/log.txt"
  "$@" 2>&1 | tee -a "$out/log.txt" | grep -vE '^\[( RUN|-----| *OK)' | tail -12
  local status=${PIPESTATUS[0]}
  ((status == 0)) || { echo "FAILED ($status)" | tee -a "$out/log.txt"; failed=1; }
  return "$status"
}

# A step whose verdict is its exit status, as a JSON line.
check() {
  local what=$1 passed=true
  shift
  step "$@" || passed=false
  printf '{"check":"%s","passed":%s,"device_name":"%s","commit":"%s"}\n' \
    "$what" "$passed" "$gpu" "$commit" >>"$out/checks.jsonl"
}

gpu=$("$build/mkernel" info | sed -n 's/^gpu *//p')
commit=$("$build/mkernel" info | sed -n 's/^commit *//p')

run() { step "$build/mkernel" run all --device cuda --json "$1" "${@:2}"; }

# Tails in M-per-rank, N and K, of one world: processes that share the GPU, because most of their time is their start.
tails() {
  local nodes=$1 ranks=$2 dtype shape rows n k part pids=()
  for dtype in bf16 fp16; do
    for shape in "1 8 8" "37 264 72" "129 520 264"; do
      read -r rows n k <<<"$shape"
      run "$out/part.${#pids[@]}" --nodes "$nodes" --ranks "$ranks" --m $((rows * nodes * ranks)) --n "$n" --k "$k" \
        --dtype "$dtype" --launches 5 &
      pids+=($!)
    done
  done
  for part in "${!pids[@]}"; do
    wait "${pids[part]}" || failed=1
    cat "$out/part.$part" >>"$out/worlds.jsonl"
    rm "$out/part.$part"
  done
}

# Every world, with tails and at the default size; and many launches in a row.
worlds() {
  local world nodes ranks
  for world in "1 1" "1 2" "1 8" "2 1" "2 3" "2 8" "3 4" "4 2"; do
    read -r nodes ranks <<<"$world"
    tails "$nodes" "$ranks"
    run "$out/worlds.jsonl" --nodes "$nodes" --ranks "$ranks"
  done
  run "$out/worlds.jsonl" --nodes 2 --ranks 2 --m 512 --n 264 --k 136 --launches 1000
}

# Graphs, streams, a rank that never starts, refused input: the tests that need a GPU.
tests() {
  check gpu_test "$build/tests/gpu_test" --gtest_brief=1
  check gpu_bench_test "$build/tests/gpu_bench_test" --gtest_brief=1
  check gpu_process_test "$build/tests/gpu_process_test" --gtest_brief=1
}

sanitizers() {
  local tool
  for tool in memcheck racecheck; do
    check "$tool" compute-sanitizer --error-exitcode 9 --tool "$tool" "$build/mkernel" run all --device cuda \
      --nodes 2 --ranks 2 --m 520 --n 264 --k 136 --launches 2 --timeout-ms 120000
  done
}

gemm() {
  step "$build/bench/gemm_vs_cublas" 8192 8192 8192 4096 4096 4096 2048 2048 2048 16384 16384 16384 8192 1024 8192 \
    16384 2048 8192 8192 3584 8192 16384 1792 14336 8192 8192 1024 16384 8192 512 4096 3584 8192 512 4096 7168 \
    --json "$out/gemm.jsonl"
}

scale() {
  local world
  for world in "1 2" "2 2"; do
    step "$build/mkernel" bench all --nodes ${world% *} --ranks ${world#* } --fixed-cost --json "$out/scale.jsonl"
  done
  step "$build/mkernel" bench all --nodes 2 --ranks 2 --repetitions 8 --json "$out/scale.jsonl"
}

# Ranks that are processes and share the GPU through MPS.
processes() { step "$(dirname "$0")/processes.sh" "$build" "$out"; }

# From the GPU to its proxy and back, and commands through ring and proxy.
net() { step "$build/mkernel" netbench --net loopback --sizes 8 --json "$out/net.jsonl"; }

(($#)) || set -- tests worlds sanitizers gemm scale processes net
for part in "$@"; do "$part"; done

((failed == 0)) && echo "all right" || echo "something failed: see $out/log.txt"
exit "$failed"
