#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/softroce/make_guest.sh — makes the kernel and the initramfs of a guest with soft-RoCE devices.
#
# make_guest.sh FOLDER: writes FOLDER/vmlinuz and FOLDER/initrd.gz.  The kernel is Debian's: its package is downloaded
# and unpacked, never installed.  initrd.gz is written last, and only if the guest has run here with its devices: where
# that file exists, the guest works.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
modules=(virtio_pci 9p 9pnet_virtio overlay veth ib_uverbs rdma_rxe crc32_generic crc32c_generic)
# All that the guest's init calls before it has the host's tools.
tools=(sh mount mkdir insmod ip env chroot poweroff)

# linux-image-amd64 has rdma_rxe; the smaller linux-image-cloud-amd64 has not.
[[ "$(dpkg --print-architecture)" == amd64 ]] || { echo "the guest is for amd64" >&2; exit 1; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d "$folder/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

package=$(apt-cache depends linux-image-amd64 | sed -n '0,/Depends: /s/.*Depends: //p')
[[ -n "$package" ]] || { echo "there is no package linux-image-amd64" >&2; exit 1; }
apt-get -qq download "$package"
dpkg -x "$package"_*.deb unpacked
# Newer packages have their modules in usr/lib, where depmod and modprobe do not look under another root.
[[ -d unpacked/lib/modules ]] || { mkdir -p unpacked/lib && ln -s ../usr/lib/modules unpacked/lib/modules; }
version=$(basename unpacked/lib/modules/*)
PATH=$PATH:/usr/sbin
depmod -b "$work/unpacked" "$version"

mkdir -p root/{bin,proc,sys,dev,mods,upper,host,out,newroot}
cp "$(command -v busybox)" root/bin/busybox
for tool in "${tools[@]}"; do ln -s busybox "root/bin/$tool"; done
# Kernels differ in what they have built in, or no more.
for module in "${modules[@]}"; do
  modprobe -d "$work/unpacked" -S "$version" --show-depends "$module" || true
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
  name=$(basename "${file%.xz}")
  if [[ "$file" == *.xz ]]; then xz -dc "$file" >"root/mods/$name"; else cp "$file" "root/mods/$name"; fi
  echo "$name" >>root/mods/order
done
[[ -e root/mods/rdma_rxe.ko ]] || { echo "$package has no rdma_rxe" >&2; exit 1; }
install -m 755 "$here/guest_init.sh" root/init

cp "unpacked/boot/vmlinuz-$version" vmlinuz
(cd root && find . | cpio --quiet -o -H newc) | gzip -1 >initrd.gz
mkdir out
"$here/run_guest.sh" . out 120 "$here/guest_devices.sh"
mv vmlinuz initrd.gz "$folder"
