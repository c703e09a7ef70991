#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/topo_cli_test.py — the contract of `mkernel topo`, on this machine and on a recorded tree.
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
XML = None

# Device, PCI address, state, rate, link layer.
PORTS = [("mlx5_0", "0000:14:00.0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"),
         ("mlx5_1", "0000:94:00.0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"),
         ("mlx5_2", "0000:99:00.0", "4: ACTIVE", "25 Gb/sec (1X EDR)", "Ethernet")]

# What is wrong, and the words its one line must have.
WRONG_USAGE = [
    (["--xml", "/no/such/file"], ["--xml", "/no/such/file"]),
    (["--xml", ""], ["--xml is ''"]),
    (["--xml", "/tmp"], ["--xml is '/tmp'", "a folder"]),
    (["--xml", "/dev/zero"], ["--xml is '/dev/zero'", "no regular file"]),
    (["--sysfs", "/no/such/folder"], ["--sysfs is '/no/such/folder'", "class"]),
    (["--sysfs", "/dev"], ["--sysfs is '/dev'", "class"]),
    (["--sysfs", "/dev/null"], ["--sysfs is '/dev/null'"]),
    (["--sysfs", ""], ["--sysfs is ''"]),
    (["--nics"], ["--nics"]),
    (["--nics", "mlx5_7"], ["--nics", "mlx5_7", "mlx5_0, mlx5_1, mlx5_2"]),
    (["--nics", "0=mlx5_0"], ["--nics", "GPU 1"]),
    (["--nics", "0=mlx5_0;5=mlx5_1"], ["--nics", "GPU 5"]),
    (["--json", "/no/such/folder/tree"], ["--json"]),
    (["--no-such-flag"], ["--no-such-flag"]),
    (["extra"], ["extra"]),
]


def topo(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MKERNEL_", "HWLOC_"))} | variables
    return subprocess.run([PROGRAM, "topo", *map(str, arguments)], capture_output=True, text=True, timeout=100,
                          env=environment)


class Topo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for device, address, state, rate, link_layer in PORTS:
            port = self.folder / "class/infiniband" / device / "ports/1"
            port.mkdir(parents=True)
            (port.parent.parent / "device").symlink_to(f"../../../{address}")
            for name, text in (("state", state), ("rate", rate), ("link_layer", link_layer)):
                (port / name).write_text(text + "\n")

    def recorded(self, *arguments, **variables):
        return topo("--xml", XML, "--sysfs", self.folder, *arguments, **variables)

    def tree(self, *arguments, **variables):
        result = self.recorded("--json", "-", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_this_machine_is_printed_whatever_it_has(self):
        result = topo()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("NUMA node 0", result.stdout)
        found = json.loads(topo("--json", "-").stdout)
        if not found["gpus"]:
            self.assertIn("There is no GPU here", result.stdout)
        elif not found["nics"]:
            self.assertIn("There is no NIC here", result.stdout)

    def test_the_tree_shows_every_device_once_in_100_columns(self):
        result = self.recorded()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        tree, table = result.stdout.split("\nGPU ")
        for word in ("NUMA node 0, cores 0-1", "NUMA node 1, cores 2-3", "host bridge 0000:90", "switch 0000:91:00.0",
                     "0000:13:00.0", "0000:93:00.0", "NIC mlx5_0", "NIC mlx5_1", "NIC mlx5_2", "400 Gb/s"):
            self.assertEqual(tree.count(word), 2 if word == "400 Gb/s" else 1, word)
        self.assertRegex(tree, "mlx5_0.* serves GPU 0")
        self.assertRegex(tree, "mlx5_2.*Ethernet, 25 Gb/s, active: far slower")
        self.assertRegex(table, r"(?m)^1 +1 +mlx5_1 +400 Gb/s +one switch +2-3$")
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)

    def test_json_says_all_that_the_tree_says(self):
        found = self.tree()
        self.assertEqual([node["cores"] for node in found["numa_nodes"]], [[0, 1], [2, 3]])
        self.assertEqual([gpu["address"] for gpu in found["gpus"]], ["0000:13:00.0", "0000:93:00.0"])
        self.assertEqual(found["gpus"][1]["rails"],
                         [{"rail": 1, "nic": "mlx5_1", "nearest_in_common": "one switch"}])
        self.assertEqual([nic["use"] for nic in found["nics"]], ["serves", "serves", "far slower than the fastest"])
        self.assertEqual([nic["gbps"] for nic in found["nics"]], [400, 400, 25])
        self.assertEqual(found["rails_per_gpu"], 1)
        self.assertTrue(found["commit"])

    def test_json_is_appended_to_a_file_and_the_tree_still_printed(self):
        file = self.folder / "trees"
        for _ in range(2):
            self.assertIn("NUMA node 1", self.recorded("--json", file).stdout)
        self.assertEqual([json.loads(line) for line in file.read_text().splitlines()], 2 * [self.tree()])

    def test_the_flag_and_the_variable_choose_nics_and_the_flag_wins(self):
        served = lambda tree: [gpu["rails"][0]["nic"] for gpu in tree["gpus"]]
        self.assertEqual(served(self.tree("--nics", "0=mlx5_2;1=mlx5_0")), ["mlx5_2", "mlx5_0"])
        self.assertEqual(served(self.tree(MKERNEL_NICS="mlx5_2")), ["mlx5_2", "mlx5_2"])
        self.assertEqual(served(self.tree("--nics", "mlx5_1", MKERNEL_NICS="mlx5_2")), ["mlx5_1", "mlx5_1"])

    def test_without_sysfs_a_recorded_tree_says_what_it_does_not_know(self):
        result = topo("--xml", XML)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("speed unknown", result.stdout)
        self.assertRegex(result.stdout, "mlx5_2.* down: not active")

    def test_a_sysfs_of_a_machine_without_nics_is_taken(self):
        (self.folder / "bare/class").mkdir(parents=True)
        result = topo("--sysfs", self.folder / "bare")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_wrong_usage_is_refused_with_one_line(self):
        for arguments, words in WRONG_USAGE:
            with self.subTest(" ".join(arguments)):
                result = topo(*arguments) if arguments[0] in ("--xml", "--sysfs") else self.recorded(*arguments)
                self.assert_refused(result, words)

    def test_a_variable_that_asks_for_what_is_not_there_is_refused_by_name(self):
        self.assert_refused(self.recorded(MKERNEL_NICS="mlx5_9"), ["MKERNEL_NICS is 'mlx5_9'", "mlx5_0"])

    def assert_refused(self, result, words):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual((len(result.stderr.splitlines()), result.stdout), (1, ""), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_topo_explains_its_flags(self):
        result = topo("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for flag in ("--nics", "--xml", "--sysfs", "--json", "MKERNEL_NICS"):
            self.assertIn(flag, result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--xml", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM, XML = options.program, options.xml
    unittest.main(argv=[sys.argv[0], *rest])
