#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/netbench_cli_test.py — the contract of `mkernel netbench`: flags, rows, JSON, and fabrics that are not here.
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
SOFT_NIC = None  # a library of NICs in software, where there is one

FABRICS = ["loopback", "shm", "tcp", "verbs", "efa"]
QUICK = ["--seconds", "0.02"]

# What is wrong, and the words its one line must have.
WRONG_USAGE = [
    (["--net", "pigeon"], ["--net is 'pigeon'", "loopback", "efa", "all"]),
    (["--sizes", "0"], ["--sizes has '0'", "256MiB"]),
    (["--sizes", "-8"], ["--sizes has '-8'"]),
    (["--sizes", "64KB"], ["--sizes has '64KB'", "KiB"]),
    (["--sizes", "8,,16"], ["--sizes has ''"]),
    (["--sizes", "8,"], ["--sizes is '8,'"]),
    (["--sizes", "257MiB"], ["--sizes has '257MiB'", "256MiB"]),
    (["--sizes", "99999999999999999999"], ["--sizes has '99999999999999999999'"]),
    (["--seconds", "0"], ["--seconds is '0'"]),
    (["--seconds", "nan"], ["--seconds is 'nan'"]),
    (["--seconds", "soon"], ["--seconds is 'soon'"]),
    (["--json", "/no/such/folder/rows"], ["--json"]),
    (["--no-such-flag"], ["--no-such-flag"]),
    (["extra"], ["extra"]),
]


def netbench(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MKERNEL_")} | variables
    return subprocess.run([PROGRAM, "netbench", *map(str, arguments)], capture_output=True, text=True, timeout=100,
                          env=environment)


class Netbench(unittest.TestCase):
    def rows(self, *arguments, **variables):
        """What is printed, and the JSON rows."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows"
            result = netbench(*QUICK, *arguments, "--json", file, **variables)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            return result.stdout, [json.loads(line) for line in file.read_text().splitlines()]

    def test_all_fabrics_have_rows_or_a_reason_for_which_they_are_refused(self):
        text, rows = self.rows("--sizes", "8,3001,64KiB")
        puts = [row for row in rows if row["bench"] == "puts"]
        self.assertEqual(list(dict.fromkeys(row["fabric"] for row in puts)), FABRICS)
        for fabric in FABRICS:
            mine = [row for row in puts if row["fabric"] == fabric]
            if "why_not" in mine[0]:
                self.assertEqual(len(mine), 1)
                self.assertTrue(mine[0]["why_not"])
                self.assertRegex(text, f"(?m)^{fabric} +cannot be used here: .")
                self.assert_refused(netbench("--net", fabric), [f"--net is {fabric}", mine[0]["why_not"]])
                continue
            self.assertEqual([row["bytes"] for row in mine], [8, 3001, 65536])
            for row in mine:
                self.check_figures(row)
            self.assertRegex(text, rf"(?m)^{fabric} +64KiB .* us .* us .* [GM]B/s .*correct$")
        self.assertEqual({"loopback", "shm", "tcp"} - {row["fabric"] for row in puts if "bytes" in row}, set())

    def check_figures(self, row):
        self.assertEqual(row["wrong_bytes"], 0)
        self.assertEqual(row["checked_bytes"], 2 * row["window_puts"] * row["bytes"])
        self.assertEqual(row["ranks_are"], "threads" if row["fabric"] == "loopback" else "processes")
        self.assertGreaterEqual(row["round_trips"], 8)
        self.assertGreater(row["latency_us"], 0)
        self.assertGreaterEqual(row["latency_p99_us"], row["latency_us"])
        self.assertGreater(row["bytes_per_second"], 0)
        self.assertTrue(row["commit"])
        self.assertGreaterEqual(row["cores"], 1)
        if row["fabric"] == "tcp":
            self.assertGreater(row["plain_bytes_per_second"], 0)
            self.assertAlmostEqual(row["ratio"], row["bytes_per_second"] / row["plain_bytes_per_second"])
        else:
            self.assertEqual((row["plain_bytes_per_second"], row["ratio"]), (None, None))

    def test_commands_are_counted_for_one_producer_and_for_four(self):
        text, rows = self.rows("--net", "loopback", "--sizes", "8")
        commands = [row for row in rows if row["bench"] == "commands"]
        self.assertEqual([row["producers"] for row in commands], [1, 4])
        for row in commands:
            self.assertGreater(row["commands_per_second"], 0)
            self.assertGreater(row["commands_per_proxy_second"], 0)
            self.assertEqual(row["commands"] % row["producers"], 0)
            self.assertRegex(text, rf"(?m)^ +{row['producers']} +{row['commands']} +\S+ M/s +\S+ M/s$")

    def test_round_trips_of_a_gpu_are_timed_or_it_is_said_why_not(self):
        text, rows = self.rows("--net", "loopback", "--sizes", "8")
        (row,) = [row for row in rows if row["bench"] == "round_trips"]
        if "why_not" in row:
            self.assertTrue(row["why_not"])
            self.assertRegex(text, r"(?m)^gpu +cannot be used here: .")
            return
        self.assertGreater(row["words_us"], 0)
        self.assertAlmostEqual(row["ratio"], row["through_proxy_us"] / row["words_us"])
        self.assertRegex(text, rf"(?m)^gpu +{row['round_trips']} +\S+ us")

    def test_one_fabric_is_measured_alone(self):
        text, rows = self.rows("--net", "shm", "--sizes", "1KiB,1KiB")
        self.assertEqual([(row["fabric"], row["bytes"]) for row in rows if row["bench"] == "puts"], 2 * [("shm", 1024)])
        self.assertNotIn("tcp", text)

    def test_rdma_fabrics_are_measured_where_there_are_nics(self):
        if SOFT_NIC is None:
            self.skipTest("this build has no NICs in software")
        for fabric in ("verbs", "efa"):
            with self.subTest(fabric):
                _, rows = self.rows("--net", fabric, "--sizes", "8,5000", LD_PRELOAD=SOFT_NIC)
                puts = [row for row in rows if row["bench"] == "puts"]
                self.assertEqual([(row["fabric"], row["bytes"]) for row in puts], [(fabric, 8), (fabric, 5000)])
                for row in puts:
                    self.check_figures(row)

    def test_wrong_usage_is_refused_with_one_line(self):
        for arguments, words in WRONG_USAGE:
            with self.subTest(" ".join(arguments)):
                self.assert_refused(netbench(*arguments), words)

    def assert_refused(self, result, words):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual((len(result.stderr.splitlines()), result.stdout), (1, ""), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_netbench_explains_its_flags(self):
        result = netbench("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for word in ("--net", "--sizes", "--seconds", "--json", "8,1KiB,64KiB,1MiB,16MiB", *FABRICS):
            self.assertIn(word, result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--soft-nic")
    options, rest = parser.parse_known_args()
    PROGRAM, SOFT_NIC = options.program, options.soft_nic
    unittest.main(argv=[sys.argv[0], *rest])
