#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/streams_cli_test.py — standard streams and files that are closed, full, or read by nobody.
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
RUN = ("run", "ag_gemm", "--device", "cpu", "--nodes", "1", "--ranks", "2", "--m", "64", "--n", "8", "--k", "8")
FORK = ("run", "all", *RUN[2:], "--launcher", "fork")  # rank 0 fails while the others wait in the next world
FUZZ = ("fuzz", "ag_gemm", "--seeds", "1..3")
SIM = ("sim", "ag_gemm", "--m", "4096")
NETBENCH = ("netbench", "--net", "shm", "--sizes", "8", "--seconds", "0.01")
THREADS = ("netbench", "--net", "loopback", "--sizes", "8", "--seconds", "0.01")
COMMANDS = (RUN, FORK, ("info",), ("topo",), FUZZ, SIM, NETBENCH, THREADS, ("--help",), ("--version",))
WITH_JSON = (RUN, FORK, ("topo",), SIM, NETBENCH)
WRONG = ("run", "no_such_operator")
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")
SOON = 30  # seconds


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}


def shell(redirections, *arguments):
    """The program as a shell starts it with these redirections."""
    return subprocess.run(["bash", "-c", f'"$@" {redirections}', "bash", PROGRAM, *map(str, arguments)],
                          capture_output=True, text=True, timeout=SOON, env=environment())


def exists(command):
    """Whether this build has it: some need libraries that may be missing."""
    missing = [line for line in shell("", "info").stdout.splitlines() if line.startswith("missing")]
    return not any(f"{command[0]}:" in line or f"{command[0]}," in line for line in missing)


class Streams(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_said(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def for_each(self, commands, check):
        for command in filter(exists, commands):
            with self.subTest(" ".join(command)):
                check(command)

    def test_closed_streams_change_nothing(self):
        def check(command):
            for redirections in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
                result = shell(redirections, *command)
                self.assertEqual((result.returncode, result.stderr), (0, ""), redirections)
                self.assertEqual(result.stdout == "", ">&-" in redirections.replace("2>&-", ""), redirections)
        self.for_each(COMMANDS, check)

    def test_what_is_printed_to_a_closed_stdout_lands_in_no_file(self):
        def check(command):
            file = self.folder / command[0]
            result = shell("<&- >&-", *command, "--json", file)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for line in file.read_text().splitlines():
                json.loads(line)
        self.for_each(WITH_JSON, check)

    def test_a_full_stdout_is_said_and_exits_with_1(self):
        self.for_each(COMMANDS, lambda command: self.assert_said(shell(">/dev/full", *command), 1, "stdout",
                                                                 "No space left"))

    def test_a_stderr_that_cannot_be_written_does_not_change_the_exit_code(self):
        for redirections in ("2>/dev/full", "2>&-"):
            self.assertEqual(shell(redirections, *WRONG).returncode, 2)
            self.assertEqual(shell(f">/dev/full {redirections}", *RUN).returncode, 1)
            self.assertEqual(shell(redirections, *RUN).returncode, 0)

    # As coreutils do where SIGPIPE is ignored.
    def test_a_reader_that_is_gone_is_said_and_exits_with_1(self):
        self.for_each(COMMANDS, lambda command: self.assert_said(self.into_broken_pipe(*command), 1, "stdout",
                                                                 "Broken pipe"))

    def into_broken_pipe(self, *command):
        read_end, write_end = os.pipe()
        os.close(read_end)
        try:
            return subprocess.run([PROGRAM, *command], stdout=write_end, stderr=subprocess.PIPE, text=True,
                                  timeout=SOON, env=environment())
        finally:
            os.close(write_end)

    def test_a_stdout_that_does_not_block_gets_all(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        with subprocess.Popen([PROGRAM, "--help"], stdout=write_end) as program:
            os.close(write_end)
            with os.fdopen(read_end) as stream:
                text = stream.read()
            self.assertEqual(program.wait(SOON), 0)
        self.assertEqual(text, shell("", "--help").stdout)

    def test_a_full_json_file_is_said_and_exits_with_1(self):
        self.for_each(WITH_JSON, lambda command: self.assert_said(
            shell("", *command, "--json", "/dev/full"), 1, "--json", "/dev/full", "No space left"))

    def test_a_full_trace_file_is_said_and_exits_with_1(self):
        if not exists(FUZZ):
            self.skipTest("this build has no simulator")
        result = shell("", "fuzz", "ag_gemm", "--seed", 1, "--trace", "/dev/full")
        self.assert_said(result, 1, "--trace", "No space left")

    def test_a_file_that_cannot_be_opened_is_wrong_usage(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        bad = ((self.folder, "directory"), ("", "No such file"), ("/no/such/folder/rows", "No such file"),
               (fifo, "nobody reads"))

        def check(command):
            for name, word in bad:
                self.assert_said(shell("", *command, "--json", name), 2, f"--json is '{name}'", word)
        self.for_each(WITH_JSON, check)
        self.for_each((RUN, SIM, NETBENCH), lambda command: self.assert_said(shell("", *command, "--json", "-"), 2,
                                                                             "--json is '-'"))
        if exists(FUZZ):
            for name in (self.folder, "", fifo):
                self.assert_said(shell("", "fuzz", "ag_gemm", "--seed", 1, "--trace", name), 2, f"--trace is '{name}'")

    def test_what_a_flag_held_never_makes_two_lines_of_one(self):
        self.assert_said(shell("", "run", "no\nsuch\toperator"), 2, "no such operator")
        self.assert_said(shell("", *RUN, "--json", "/no/such\nfolder/rows"), 2, "--json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
