#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/softroce/run_guest.sh — runs a command in the guest: run_guest.sh GUEST OUT SECONDS COMMAND…
#
# GUEST is the folder that make_guest.sh made.  OUT is a folder that the guest sees as /out and may write to.  The
# command sees the host's files and has the same current folder.  The exit status is the command's, or 125 if the guest
# did not finish within SECONDS.  The processor is emulated: about 20 times slower, but it runs on every machine.
set -uo pipefail
guest=$1 out=$2 seconds=$3
shift 3
rm -f "$out/status"
printf 'cd %q || exit 126\n%s\n' "$PWD" "$(printf '%q ' "$@")" >"$out/command"
timeout -k 5 "$seconds" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 2048 -M q35,hpet=off \
  -nodefaults -no-user-config -display none -no-reboot -serial stdio -device virtio-rng-pci \
  -kernel "$guest/vmlinuz" -initrd "$guest/initrd.gz" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on tsc=reliable" \
  -virtfs "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap" \
  -virtfs "local,path=$out,mount_tag=hostout,security_model=none" </dev/null
ended=$?
[[ -s "$out/status" ]] || { echo "the guest did not finish (qemu ended with $ended)" >&2; exit 125; }
exit "$(<"$out/status")"
