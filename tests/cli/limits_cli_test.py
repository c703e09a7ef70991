#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/limits_cli_test.py — too little memory, too few descriptors, no threads: exit code 1 and a line, soon.
import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None
MEGABYTE = 1_000_000
WORLD = ("--device", "cpu", "--nodes", "2", "--ranks", "2", "--m", "64", "--timeout-ms", "1000")
COMMANDS = (("run", *WORLD), ("run", *WORLD, "--net", "tcp"), ("run", *WORLD, "--launcher", "fork"), ("info",),
            ("topo",), ("--help",))
NETBENCH = ("netbench", "--sizes", "8,1MiB", "--seconds", "0.01")  # has a deadline of 20 s of its own
SIMULATED = (("fuzz", "--seeds", "1..40"), ("sim", "gemm_ar", "--m", "4096"))
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")
SOON = 40  # seconds
NOBODY_ELSE = 54322  # a user without a name, and without processes


def run(command, limits, program=None, **how):
    def limit():
        for which, value in limits:
            resource.setrlimit(which, (value, value))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    return subprocess.run([program or PROGRAM, *command], capture_output=True, text=True, timeout=SOON, env=environment,
                          preexec_fn=limit, **how)


def memory_beyond_the_program(megabytes):
    """With all its kernels the program is large, and what does not even fit itself is killed when it starts."""
    return resource.RLIMIT_AS, int(megabytes * MEGABYTE) + os.path.getsize(PROGRAM)


class Limits(unittest.TestCase):
    def check(self, commands, limits, **how):
        for command in commands:
            with self.subTest(" ".join(command), limits=limits):
                result = run(command, limits, **how)
                self.assertIn(result.returncode, (0, 1), result.stderr)
                self.assertNotIn("terminate", result.stderr)
                if result.returncode == 1:
                    self.assertIn("mkernel: ", result.stderr)

    def test_little_memory_ends_no_command_by_a_signal(self):
        for megabytes in (30, 60, 100, 180, 400):
            self.check((*COMMANDS, NETBENCH), [memory_beyond_the_program(megabytes)])

    # Where a stack of a fibre, and what a fibre itself allocates, cannot be had.
    def test_little_memory_ends_no_simulation_by_a_signal(self):
        if "fuzz, sim:" in run(("info",), []).stdout:
            self.skipTest("this build has no simulator")
        for megabytes in (18, 18.5, 27.5, 28, 30, 37, 38, 40, 60, 80, 100, 200):
            self.check(SIMULATED, [memory_beyond_the_program(megabytes)])

    def test_few_descriptors_end_no_command_by_a_signal(self):
        for descriptors in (4, 8, 16):
            self.check(COMMANDS, [(resource.RLIMIT_NOFILE, descriptors)])
        self.check([NETBENCH], [(resource.RLIMIT_NOFILE, 4)])

    def test_without_threads_and_processes_no_command_ends_by_a_signal(self):
        if os.getuid() != 0:
            self.skipTest("needs a user of its own")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(PROGRAM, folder)
            for processes in (1, 3):
                self.check((*COMMANDS, NETBENCH, SIMULATED[0]), [(resource.RLIMIT_NPROC, processes)], program=program,
                           user=NOBODY_ELSE, group=NOBODY_ELSE, extra_groups=[], cwd=folder)

    def test_a_thread_that_cannot_be_had_is_said_and_not_who_waited_for_it(self):
        said = set()
        for megabytes in range(120, 420, 40):
            result = run(("run", "ag_gemm", *WORLD), [memory_beyond_the_program(megabytes)])
            if result.returncode != 0:
                said.add(result.stderr)
        for text in said:
            self.assertRegex(text, "cannot start a thread|out of memory")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
