#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/batches_cli_test.py — more launches than memory holds at once run in batches, and every one is checked.
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar")
LIMIT_BYTES = 4 << 30  # of the CPU, see tools/request.h
MOST_IN_BATCH = 1024   # see tools/batches.h
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")


def run(op, *flags):
    """Its result and its rows."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows"
        result = subprocess.run([PROGRAM, "run", op, "--device", "cpu", *map(str, flags), "--json", file],
                                capture_output=True, text=True, timeout=250, env=environment)
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return result, rows


class Batches(unittest.TestCase):
    def test_launches_that_take_more_than_the_limit_run_within_it(self):
        m, n, ranks, launches = 4096, 8192, 2, 16
        result, rows = run("ag_gemm", "--nodes", 1, "--ranks", ranks, "--m", m, "--n", n, "--k", 1, "--dtype", "fp32",
                           "--launches", launches)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([(row["correct"], row["launches"]) for row in rows], [(True, launches)])
        taken = launches * ranks * m * n * 4
        self.assertGreaterEqual(taken, LIMIT_BYTES)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, 0.75 * taken)

    def test_one_launch_that_takes_more_than_the_limit_is_refused(self):
        for op in OPERATORS:
            result, _ = run(op, "--nodes", 1, "--ranks", 2, "--m", 40960, "--n", 40960, "--k", 8, "--launches", 1)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertRegex(result.stderr, "--m is 40960; .* a launch of .* GiB, and at most 4 GiB are taken on cpu")

    # In a world of processes, too, whose batches must be the same.
    def test_bytes_and_errors_are_those_of_one_launch_however_many_batches(self):
        shape = ("--nodes", 2, "--ranks", 1, "--m", 4, "--n", 3, "--k", 2, "--tokens", 8, "--hidden", 8, "--inter", 8,
                 "--seq", 8, "--heads", 2, "--head-dim", 4, "--mask", "full")
        for launcher in ("thread", "fork"):
            with self.subTest(launcher):
                _, few = run("all", *shape, "--launcher", launcher, "--launches", 2)
                result, many = run("all", *shape, "--launcher", launcher, "--launches", MOST_IN_BATCH + 1)
                self.assertEqual(result.returncode, 0, result.stderr)
                for one, other in zip(few, many, strict=True):
                    self.assertIs(other["correct"], True)
                    if one["op"].startswith("moe"):
                        continue  # routing, and what it moves, is new in each launch
                    for key in ("op", "nvlink_bytes", "network_bytes", "workspace_bytes"):
                        self.assertEqual(one[key], other[key])
                    self.assertEqual(other["proxies"]["bytes"], other["network_bytes"] * 2 * (MOST_IN_BATCH + 1))
                    self.assertGreaterEqual(other["error"], one["error"])  # the worst of more


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
