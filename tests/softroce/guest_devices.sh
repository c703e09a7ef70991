#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/softroce/guest_devices.sh — inside the guest: two soft-RoCE devices with a wire between them.
#
# soft_0 is at wire0 (198.51.100.1), soft_1 at wire1 (198.51.100.2), the two ends of one veth pair.  They have the names
# of the software NIC's, so that the same tests find them.  All in one network namespace: the driver listens in the
# first one only, so rules send what is for the other end over the wire and not the short way.
set -euo pipefail
address() { echo "198.51.100.$(($1 + 1))"; }
set_for() { echo "$3" >"/proc/sys/net/ipv4/conf/$1/$2"; }

ip link add wire0 type veth peer name wire1
set_for all rp_filter 0
for end in 0 1; do
  set_for wire$end accept_local 1
  set_for wire$end rp_filter 0
  set_for wire$end arp_ignore 1
  set_for wire$end arp_announce 2
  ip address add "$(address $end)/24" dev "wire$end"
  ip link set "wire$end" mtu 4200 up  # room for RoCE's 4096 and headers
done
for end in 0 1; do
  other=$((1 - end)) table=$((101 + end))
  ip rule add pref $((10 + end)) from "$(address $end)" to "$(address $other)" iif lo lookup $table
  ip route add "$(address $other)" dev "wire$end" src "$(address $end)" table $table
done
ip rule add pref 100 lookup local
ip rule del pref 0 lookup local
for end in 0 1; do rdma link add "soft_$end" type rxe netdev "wire$end"; done
