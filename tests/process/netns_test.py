#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/process/netns_test.py — two nodes in two network namespaces, with a slow link between them and nothing else.
#
# Needs the right to make namespaces, and is skipped where that is not given.
import os
import subprocess
import sys

import launched
from launched import Launched, torchrun

NODES, RANKS, LAUNCHES = 2, 2, 5
SPEED = "200mbit"


class Link:
    """Two namespaces, a pair of interfaces, a token bucket at both ends."""

    def __init__(self):
        self.names = [f"mkernel{os.getpid()}{end}" for end in "ab"]
        self.hosts = ["198.51.100.1", "198.51.100.2"]

    def __enter__(self):
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            self.ip("-n", self.names[0], "link", "add", "wire", "type", "veth",
                    "peer", "name", "wire", "netns", self.names[1])
            for name, host in zip(self.names, self.hosts):
                self.ip("-n", name, "address", "add", host + "/24", "dev", "wire")
                for device in ("lo", "wire"):
                    self.ip("-n", name, "link", "set", device, "up")
                self.run("tc", "-n", name, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", SPEED, "burst", "64kb",
                         "latency", "50ms")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    @staticmethod
    def run(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout

    def ip(self, *arguments):
        return self.run("ip", *arguments)

    def inside(self, node):
        return ["ip", "netns", "exec", self.names[node]]

    def sent_bytes(self, node):
        return int(self.run(*self.inside(node), "cat", "/sys/class/net/wire/statistics/tx_bytes"))


class TwoNamespaces(Launched):
    def test_every_operator_is_right_over_a_slow_link_and_its_bytes_go_there(self):
        with Link() as link:
            variables = [torchrun(rank, NODES, RANKS, 29500) | {"MASTER_ADDR": link.hosts[0], "MKERNEL_NET": "tcp"}
                         for rank in range(NODES * RANKS)]
            before = [link.sent_bytes(node) for node in range(NODES)]
            results = self.run_all(variables, "--device", "cpu", "--m", 33 * NODES * RANKS, "--n", 256, "--k", 256,
                                   "--launches", LAUNCHES, "--json", self.json,
                                   prefix=lambda rank: link.inside(rank // RANKS))
            self.assert_rank_0_alone_prints(results)
            self.assert_rows(NODES, RANKS, "tcp")
            network = sum(row["network_bytes"] for row in self.rows()) * LAUNCHES * RANKS
            for node in range(NODES):
                self.assertGreaterEqual(link.sent_bytes(node) - before[node], network)

    def test_a_link_that_breaks_fails_both_nodes_in_time(self):
        with Link() as link:
            link.ip("-n", link.names[1], "link", "set", "wire", "down")
            variables = [torchrun(rank, NODES, 1, 29500) | {"MASTER_ADDR": link.hosts[0]} for rank in range(NODES)]
            results = self.run_all(variables, "ag_gemm", "--device", "cpu", "--m", 64, "--timeout-ms", 1000,
                                   prefix=link.inside)
            self.assertEqual([code for code, _, _ in results], [1, 1])
            self.assertIn("ranks 1 of 2", results[0][2])
            self.assertIn("rank 1 could not reach rank 0", results[1][2])


def why_not():
    try:
        with Link():
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return getattr(error, "stderr", None) or error


if __name__ == "__main__":
    if trouble := why_not():
        print(f"skipped: no network namespaces here: {trouble}")
        sys.exit(launched.SKIPPED)
    launched.main()
