#!/bin/sh
# SPDX-License-Identifier: MIT
# cmake/no_serial_wgmma.sh — runs a compiler, and fails if ptxas had to serialize wgmmas, of which it only informs.
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
case "$said" in
  *"wgmma.mma_async instructions are serialized"*) status=1 ;;
esac
if [ "$status" -ne 0 ]; then
  # An object that is there would count as built.
  while [ "$#" -gt 1 ]; do
    [ "$1" != -o ] || rm -f "$2"
    shift
  done
fi
exit "$status"
