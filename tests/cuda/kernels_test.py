#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cuda/kernels_test.py — the shipped kernels use no local memory: ptxas says so itself.
#
# Each source is compiled once more with the project's flags; ptxas's report is the evidence.
import argparse
import subprocess
import sys
import unittest

from ptxas_report import complaints

OPTIONS = None


class Kernels(unittest.TestCase):
    def test_there_are_kernels(self):
        self.assertGreater(len(OPTIONS.source), 0)

    def test_no_kernel_spills_or_uses_local_memory(self):
        for source in OPTIONS.source:
            with self.subTest(source):
                command = [OPTIONS.nvcc, *OPTIONS.flag, "-cubin", "-Xptxas", "-v", "-o", "/dev/null", source]
                result = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(complaints(result.stdout + result.stderr), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--source", action="append", default=[])
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
