#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/softroce/guest_init.sh — the guest's init: loads modules, runs /out/command in the host's tree, powers off.
#
# The host's tree is read-only below a layer in memory, so that the command may write anywhere and change nothing.
# Its exit status is left in /out/status, which the host sees; without that file the guest did not come so far.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/mods/$module" || echo "guest: the kernel does not take $module"
done </mods/order

root=/newroot
mount_host() {
  over=trans=virtio,version=9p2000.L,msize=512000
  mount -t 9p -o "ro,cache=loose,$over" hostroot /host &&
    mount -t 9p -o "rw,cache=none,$over" hostout /out &&
    mount -t tmpfs tmpfs /upper && mkdir /upper/files /upper/work &&
    mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work overlay "$root"
}
if ! mount_host; then
  echo "guest: the host's tree cannot be mounted"
  poweroff -f
fi
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devtmpfs dev "$root/dev"
mkdir -p "$root/dev/shm" "$root/out"
mount -t tmpfs shm "$root/dev/shm"
mount -t tmpfs run "$root/run"
mount -o bind /out "$root/out"
ip link set lo up

chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  /bin/bash /out/command
echo $? >/out/status
poweroff -f
