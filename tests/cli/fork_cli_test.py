#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/fork_cli_test.py — `mkernel run --launcher fork` when the start fails: told at once, no process left
# behind.
import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = None
LONG = 80  # seconds: how long ranks would wait for each other
SOON = LONG / 2
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")
NOBODY_ELSE = 54321  # a user without a name, and without processes


def run(*flags, program=None, **how):
    """Its result, and the seconds it took."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    command = [program or PROGRAM, "run", "ag_gemm", "--device", "cpu", "--launcher", "fork", "--nodes", "2",
               "--m", "64", "--timeout-ms", str(LONG * 1000), *flags]
    begin = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, timeout=LONG + 20, env=environment, **how)
    return result, time.monotonic() - begin


def processes_of(user):
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and owner(entry) == user]


def owner(entry):
    try:
        return entry.stat().st_uid
    except OSError:
        return None


class Fork(unittest.TestCase):
    def assert_told_soon(self, told, code, words):
        result, seconds = told
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual((result.stdout, len(result.stderr.splitlines())), ("", 1), result.stderr)
        self.assertIn(words, result.stderr)
        self.assertLess(seconds, SOON)

    def test_what_only_rank_0_finds_wrong_is_told_before_the_others_give_up(self):
        self.assert_told_soon(run("--ranks", "2", "--json", "/no/such/folder/rows"), 2, "--json")

    def test_where_no_more_processes_can_be_had_those_that_started_are_ended(self):
        if os.getuid() != 0:
            self.skipTest("needs a user of its own")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(PROGRAM, folder)
            limit = lambda: resource.setrlimit(resource.RLIMIT_NPROC, (6, 6))
            told = run("--ranks", "8", program=program, user=NOBODY_ELSE, group=NOBODY_ELSE, extra_groups=[],
                       cwd=folder, preexec_fn=limit)
        self.assert_told_soon(told, 1, "no process could be started for rank")
        self.assertEqual(processes_of(NOBODY_ELSE), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
