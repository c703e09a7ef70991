#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/reliability/kills_test.py — kills.py passes a program that fails well, and finds each bad habit.
import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import verdict

HERE = Path(__file__).parent
# What the program does when a rank is gone, and what is said of it.
HABITS = [
    ("is slow", "at most 1.2 s are allowed"),
    ("is silent", "not named in []"),
    ("names another", "not named in ['mkernel: rank"),
    ("exits with 0", "exit code 0"),
    ("leaves a file", "left behind files: ['home/left']"),
    ("leaves shared memory", "left behind shm: ['mkernel."),
    ("leaves a process", "left behind processes: ["),
    ("leaves zombies", "left behind zombies: 3"),
]


def kills(habit, *flags):
    """Its result, and its records.  Without a delay the signal comes as soon as there is a rank to send it to."""
    with tempfile.TemporaryDirectory() as folder:
        program, records = Path(folder, "program"), Path(folder, "records")
        fake = shlex.join([sys.executable, "-B", str(HERE / "fake_program.py"), habit])
        program.write_text(f'#!/bin/sh\nexec {fake} "$@"\n')
        program.chmod(0o755)
        command = [sys.executable, "-B", HERE / "kills.py", "--program", program, "--launchers", "fork", "--fabrics",
                   "tcp", "--timeout-ms", 200, "--launches", 30, "--delay", 0, "--json", records, *flags]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)
        lines = records.read_text().splitlines() if records.exists() else []
        return result, [json.loads(line) for line in lines]


class Kills(unittest.TestCase):
    def test_a_program_that_fails_well_passes(self):
        result, records = kills("none", "--cases", 2)
        self.assertEqual((result.returncode, [record["wrong"] for record in records]), (0, [[], []]), result.stderr)
        self.assertEqual({record["signal"] for record in records}, {"KILL", "STOP"})
        self.assertRegex(result.stdout, r"\| all \|  \|  \|  \| 2 \| 0 \| 2 \| \d\.\d\d \| 2 of 2 \| 0 \|")

    def test_each_bad_habit_is_found(self):
        with ThreadPoolExecutor() as pool:  # they sleep for most of the time
            found = list(pool.map(lambda habit: kills(habit[0], "--cases", 1, "--signals", "KILL"), HABITS))
        for (habit, words), (result, (record,)) in zip(HABITS, found):
            with self.subTest(habit):
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(words, "; ".join(record["wrong"]))
                self.assertIn("add --case 0", result.stdout)

    def test_a_case_is_the_same_when_it_is_run_alone(self):
        def what(record):
            return {name: record[name] for name in ("case", "signal", "moment", "operator", "victims")}

        _, all_of_them = kills("none", "--cases", 3, "--seed", 7)
        _, alone = kills("none", "--case", 2, "--seed", 7)
        self.assertEqual(list(map(what, alone)), [what(all_of_them[2])])

    def test_the_launcher_itself_may_be_the_victim(self):
        _, (record,) = kills("none", "--cases", 1, "--victim", "launcher", "--launches", 150, "--delay", 1)
        self.assertIn("at most 1.0 s are allowed", "; ".join(record["wrong"]))  # ranks of this program outlive it

    def test_a_run_that_fails_unharmed_is_no_case(self):
        result, records = kills("fails unharmed", "--cases", 1)
        self.assertEqual((result.returncode, records), (1, []))
        self.assertIn("kills: an unharmed run fails: ", result.stderr)


class RanksNamed(unittest.TestCase):
    def test_the_rank_that_prints_a_line_is_not_the_one_it_is_about(self):
        for line, ranks in (("mkernel: rank 1: rank 2 is gone", {2}), ("mkernel: ranks 1, 3 of 4 did not come", {1, 3}),
                            ("mkernel: rank 12 was killed", {12}), ("mkernel: rank 2: out of memory", set()),
                            ("mpirun noticed that process rank 3 with PID 7 on node a exited on signal 9", {3})):
            self.assertEqual(verdict.ranks_named(line), ranks, line)

    def test_a_stopped_rank_that_mpirun_lets_continue_does_not_have_the_last_word(self):
        others, own = "mkernel: rank 3: rank 1 is gone", "mkernel: rank 1: rank 3 is gone"
        self.assertEqual(verdict.last_words(f"{others}\n{own}\n-----\n", "mpirun", [1]), [others])
        self.assertEqual(verdict.last_words("mkernel: rank 3 is gone\n", "mpirun", [0]), [])  # rank 0 gives no rank


if __name__ == "__main__":
    unittest.main()
