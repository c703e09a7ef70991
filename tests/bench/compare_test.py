#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/bench/compare_test.py — bench/compare.py beside two builds that only say how long they take.
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPARE = Path(__file__).resolve().parents[2] / "bench" / "compare.py"
PROGRAM = """#!/usr/bin/env python3
import json, sys
row = {{"op": "ag_gemm", "nodes": 2, "ranks": 2, "m": 1, "n": 2, "k": 3, "fused_us": {time}}}
open(sys.argv[sys.argv.index("--json") + 1], "a").write(json.dumps(row) + "\\n")
sys.exit({code})
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def build(self, name, time, code=0):
        folder = Path(self.folder.name) / name
        folder.mkdir()
        program = folder / "mkernel"
        program.write_text(PROGRAM.format(time=time, code=code))
        program.chmod(0o755)
        return folder

    def compare(self, *args):
        return subprocess.run([sys.executable, COMPARE, *map(str, args)], capture_output=True, text=True, timeout=60)

    def test_ratio_is_before_over_after_and_every_line_is_kept(self):
        kept = Path(self.folder.name) / "lines"
        ran = self.compare(self.build("before", 20), self.build("after", 10), "--parts", "scale", "--rounds", "2",
                           "--json", kept)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("scale: 1 rows, geometric mean 2.0000, least 2.0000", ran.stdout)
        lines = [json.loads(line) for line in kept.read_text().splitlines()]
        operators = 3
        self.assertEqual([(line["build"], line["round"]) for line in lines],
                         [turn for turn in (("before", 0), ("after", 0), ("after", 1), ("before", 1))
                          for _ in range(operators)])

    def test_the_gemm_is_compared_by_its_time_and_by_that_over_cublas(self):
        builds = [self.build("before", 20), self.build("after", 30)]
        for build, row in zip(builds, ({"time_us": 20, "cublas_us": 10}, {"time_us": 30, "cublas_us": 30})):
            row |= {"bench": "gemm_vs_cublas", "m": 1, "n": 2, "k": 3}
            program = build / "bench" / "gemm_vs_cublas"
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\nfor last; do :; done\necho '{json.dumps(row)}' >> $last\n")
            program.chmod(0o755)
        ran = self.compare(*builds, "--parts", "gemm", "--rounds", "1")
        self.assertIn("gemm: 1 rows, geometric mean 0.6667, least 0.6667", ran.stdout, ran.stderr)
        self.assertIn("gemm over cuBLAS: 1 rows, geometric mean 2.0000, least 2.0000", ran.stdout)

    def test_a_build_that_fails_is_named(self):
        ran = self.compare(self.build("before", 20), self.build("after", 10, code=3), "--parts", "scale")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("after/mkernel exited with 3", ran.stderr)

    def test_an_unknown_part_is_refused(self):
        ran = self.compare("a", "b", "--parts", "gemms")
        self.assertIn("--parts knows gemm, scale, fixed, not gemms", ran.stderr)


if __name__ == "__main__":
    unittest.main()
