# SPDX-License-Identifier: MIT
# tests/process/launched.py — `mkernel run` in processes that have the variables of a launcher.
import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
SKIPPED = 77  # the exit code that ctest counts as skipped
OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar", "moe_dispatch_gemm", "moe_layer", "ring_attention")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "MKERNEL_", "OMPI_", "PMI", "MPI_", "SLURM_")
SHAPE = ("--device", "cpu", "--n", 65, "--k", 17, "--launches", 5)
MOST_SECONDS = 100


def free_port():
    """Free, and so is the next one; from below those that the kernel gives to whoever asks for any."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            with socket.socket() as one, socket.socket() as next_one:
                one.bind(("", port))
                next_one.bind(("", port + 1))
                return port
        except OSError:
            continue


def torchrun(rank, nodes, ranks, port):
    return {"RANK": rank, "WORLD_SIZE": nodes * ranks, "LOCAL_RANK": rank % ranks, "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "localhost", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}


def srun(rank, nodes, ranks, port):
    return {"SLURM_PROCID": rank, "SLURM_NTASKS": nodes * ranks, "SLURM_LOCALID": rank % ranks,
            "SLURM_STEP_TASKS_PER_NODE": f"{ranks}(x{nodes})", "SLURM_JOB_ID": port, "SLURM_STEP_ID": 0}


class Launched(unittest.TestCase):
    """A home of its own for each test, and a file for the rows of rank 0."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.json = self.home / "rows"

    def environment(self, **variables):
        own = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
        return own | {"HOME": str(self.home)} | {k: str(v) for k, v in variables.items()}

    def run_all(self, variables, *flags, prefix=lambda rank: []):
        """One process for each set of variables: their exit codes, outputs and errors."""
        command = [PROGRAM, "run", *map(str, flags)]
        processes = [subprocess.Popen([*prefix(rank), *command], env=self.environment(**one), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) for rank, one in enumerate(variables)]
        self.addCleanup(lambda: [process.kill() for process in processes])
        texts = [process.communicate(timeout=MOST_SECONDS) for process in processes]
        return [(process.returncode, *text) for process, text in zip(processes, texts)]

    def rows(self):
        return [json.loads(line) for line in self.json.read_text().splitlines()]

    def assert_rows(self, nodes, ranks, fabric):
        for op, row in zip(OPERATORS, self.rows(), strict=True):
            asked = {"op": op, "nodes": nodes, "ranks": ranks, "launcher": "env", "fabric": fabric, "correct": True}
            self.assertLessEqual(asked.items(), row.items())

    def assert_rank_0_alone_prints(self, results):
        for rank, (code, said, complained) in enumerate(results):
            self.assertEqual((code, complained), (0, ""), rank)
            self.assertEqual(len(said.splitlines()), 2 + len(OPERATORS) if rank == 0 else 0, rank)


def main():
    global PROGRAM
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
