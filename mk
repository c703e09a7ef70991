#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mk — installs what is missing, builds, and runs or tests mKernel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage="usage: ./mk run [flags]    install what is missing, build, run and check the GEMM operators
       ./mk test           install what is missing, build, run all tests
       ./mk build          install what is missing, build
       ./mk WORD [flags]   hand any other word to the program, e.g. ./mk info"

# All chatter goes to stderr: stdout belongs to the program and the tests.
say() { echo "mk: $*" >&2; }

# A tool or library counts as present wherever it comes from.
has_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null
}
has_package() { [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

missing_packages() {
  local tool header
  for tool in cmake:cmake ninja:ninja-build g++:g++ git:git python3:python3; do
    command -v "${tool%%:*}" >/dev/null || echo "${tool##*:}"
  done
  for header in gtest/gtest.h:libgtest-dev CLI/CLI.hpp:libcli11-dev fmt/format.h:libfmt-dev \
    nlohmann/json.hpp:nlohmann-json3-dev openssl/evp.h:libssl-dev; do
    has_header "${header%%:*}" || has_package "${header##*:}" || echo "${header##*:}"
  done
}

# How to become root without a question, or nothing.
as_root=()
may_install() {
  ((EUID != 0)) || return 0
  as_root=(sudo -n)
  sudo -n true 2>/dev/null
}

lists_are_new=0  # those of packages
install() {
  say "installing $*"
  ((lists_are_new)) || "${as_root[@]}" apt-get -qq update || return
  lists_are_new=1
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# try_once PACKAGE TEST…: if the test fails, tries once to install the package, and goes on without it if that fails.
try_once() {
  local package=$1
  shift
  if ! "$@" && [[ ! -e "build/$package-tried" ]]; then
    mkdir -p build && touch "build/$package-tried"
    if ! may_install || ! install "$package" 2>/dev/null; then say "$package cannot be had here"; fi
  fi
}
has_tool() { command -v "$1" >/dev/null; }
has_gpu() { [[ -e /dev/nvidiactl || -e /dev/dxg ]]; }

install_missing() {
  local missing
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]})); then
    if ! may_install; then
      say "these packages are missing; install them with"
      missing+=(libboost-context-dev libhwloc-dev libibverbs-dev)
      say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
      exit 1
    fi
    install "${missing[@]}"
  fi
  # Boost.Context is for the simulator alone, hwloc for `mkernel topo`, libibverbs for the fabrics verbs and efa.
  try_once libboost-context-dev has_header boost/context/fiber.hpp
  try_once libhwloc-dev has_header hwloc.h
  try_once libibverbs-dev has_header infiniband/verbs.h
}

# What some tests need, and are skipped without: mpirun, links between network namespaces, and pkg-config.
install_for_tests() {
  try_once openmpi-bin has_tool mpirun
  try_once iproute2 has_tool tc
  try_once pkg-config has_tool pkg-config
}

# Makes the virtual machine in which tests have real RDMA devices (tests/softroce).  This is tried once.  `install` also
# updates the package lists, in which the guest's kernel is found.
make_guest() {
  [[ ! -e build/softroce-tried ]] || return 0
  mkdir -p build && touch build/softroce-tried
  say "making a guest with soft-RoCE devices"
  {
    may_install && install qemu-system-x86 busybox-static cpio kmod xz-utils ibverbs-providers iproute2 &&
      tests/softroce/make_guest.sh build/softroce
  } >build/softroce.log 2>&1 || say "the guest cannot be made here, see build/softroce.log"
}

# ninja's output: a line of progress every few seconds, unless it is built aside, and whatever is no progress.
show_progress() {
  local line shown=$SECONDS
  while IFS= read -r line; do
    case "$line" in
      \[*/*\]*) ((is_aside || SECONDS - shown < 5)) || { shown=$SECONDS; say "$line"; } ;;
      "ninja: no work to do.") ;;
      *) echo "$line" >&2 ;;
    esac
  done
}

# With ccache what was compiled before, in whatever folder, is not compiled again.  CCACHE_DISABLE=1 to time a build.
launchers() {
  has_tool ccache || return 0
  echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache
}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# build TREE TARGET [cmake flags]
build() {
  local tree=$1 target=$2 log
  shift 2
  mkdir -p "$tree"
  log="$tree/configure.log"
  "${in_tree[@]}" cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release $(launchers) "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
  ((is_aside)) || sed -n 's/^-- mKernel: /mk: /p' "$log" >&2
  "${in_tree[@]}" cmake --build "$tree" --target "$target" 2>&1 | show_progress || {
    say "the build in $tree failed"
    exit 1
  }
}

passed=0 failed=0 skipped=0
times=() # of each stage, for people who wait

# timed NAME COMMAND…
timed() {
  local name=$1 began=$SECONDS
  shift
  "$@"
  times+=("$name $((SECONDS - began)) s")
}

# run_tests MORE TREE [ctest flags]: runs them all and adds to the counts above, MORE at once than there are cores, as
# many tests wait for a deadline.  That no test ran is a failure.
run_tests() {
  local more=$1 tree=$2 last="$2/Testing/Temporary/LastTest.log" good bad idle
  shift 2
  rm -f "$last"
  "${in_tree[@]}" ctest --test-dir "$tree" -j "$(($(nproc) + more))" --output-on-failure --timeout 300 "$@" 2>&1 |
    tee "$tree/ctest.log" || true
  python3 tests/support/sum_up.py "$tree/ctest.log" "$last" >"$tree/summary.log"
  read -r good bad idle <"$tree/summary.log"
  passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + idle))
}

# Trees with sanitizers: only the tests are built, with little optimisation, which halves the time to build them.
sanitized=(tests/all -DMKERNEL_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1)
build_tsan() { build build/tsan "${sanitized[@]}" -DMKERNEL_SANITIZE=thread; }
build_asan() { build build/asan "${sanitized[@]}" -DMKERNEL_SANITIZE=address,undefined; }

# aside [--after PROCESS] COMMAND: a build in the background, which only gets the cores that nothing else wants: tests
# often wait for a deadline.  It begins when PROCESS has ended.  Sets `aside`, the process to wait for.
is_aside=0
aside() {
  local idle=() after=
  if chrt --idle 0 true 2>/dev/null; then idle=(chrt --idle 0); else idle=(nice -n 19); fi
  if [[ "$1" == --after ]]; then after=$2; shift 2; fi
  set -m  # a process group of its own, which `end_aside` ends
  (
    is_aside=1 in_tree=("${idle[@]}" "${in_tree[@]}")
    [[ -z "$after" ]] || tail --pid="$after" -f /dev/null
    "$@"
  ) &
  set +m
  aside=$!
  all_aside+=("$aside")
}
all_aside=()
# wait_for PROCESS: waits for a build aside, which is not aside any more.
wait_for() {
  local stat line group
  for stat in /proc/[0-9]*/stat; do
    line=$(cat "$stat" 2>/dev/null) || continue
    read -r _ _ group _ <<<"${line##*) }"
    [[ "$group" != "$1" ]] || chrt --other --pid 0 "$(basename "${stat%/stat}")" 2>/dev/null || true
  done
  wait "$1" || exit 1
}
end_aside() {
  local group
  for group in "${all_aside[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}

run_all_tests() {
  local tree for_tests=$1 tsan asan fixed=()
  # ThreadSanitizer's shadow memory needs known addresses: no randomisation where that is allowed.
  ! setarch "$(uname -m)" -R true 2>/dev/null || fixed=(setarch "$(uname -m)" -R)
  trap end_aside EXIT
  in_tree=("${fixed[@]}")
  aside build_tsan; tsan=$aside
  in_tree=()
  aside --after "$tsan" build_asan; asan=$aside
  timed build build build all
  wait "$for_tests" || true
  timed tests run_tests 1 build
  timed "rest of tsan build" wait_for "$tsan"
  in_tree=("${fixed[@]}")
  timed "tsan tests" run_tests 2 build/tsan -L race
  in_tree=()
  timed "rest of asan build" wait_for "$asan"
  timed "asan tests" run_tests 2 build/asan -L asan
  if ((failed)); then
    say "what failed, once more:"
    for tree in build build/tsan build/asan; do tail -n +2 "$tree/summary.log"; done
  fi
  (IFS=,; say "took: ${times[*]}")
  if ((skipped)); then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  ((failed == 0))
}

in_tree=()  # a command that starts what is built and tested
case "${1:-}" in
  "") echo "$usage" >&2; exit 2 ;;
  test) install_missing; try_once ccache has_tool ccache; { install_for_tests; make_guest; } & run_all_tests $! ;;
  build) install_missing; build build all ;;
  *)
    install_missing
    if has_gpu; then
      build build mkernel_program
      exec build/mkernel "$@"
    fi
    say "no GPU here, so the GPU part is left out (./mk build builds all)"
    build build/host mkernel_program -DMKERNEL_CUDA=OFF
    exec build/host/mkernel "$@"
    ;;
esac
