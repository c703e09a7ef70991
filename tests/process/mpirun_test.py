#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/process/mpirun_test.py — `mkernel run` under mpirun itself, skipped where there is none.
import shutil
import subprocess
import sys

import launched
from launched import MOST_SECONDS, OPERATORS, SHAPE, Launched


class Mpirun(Launched):
    def mpirun(self, ranks, *flags):
        """Of Open MPI, on more ranks than cores and as root, where need be."""
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
                   "OMPI_MCA_rmaps_base_oversubscribe": 1, "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
        return subprocess.run(["mpirun", "-n", str(ranks), launched.PROGRAM, "run", *map(str, flags)], text=True,
                              capture_output=True, timeout=MOST_SECONDS, env=self.environment(**allowed))

    def test_two_nodes_of_four_on_one_machine(self):
        result = self.mpirun(8, *SHAPE, "--m", 33 * 8, "--nodes", 2, "--ranks", 4, "--json", self.json)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(result.stdout.splitlines()), 2 + len(OPERATORS))
        self.assert_rows(2, 4, "tcp")
        self.assertEqual([f.name for f in (self.home / ".mkernel").iterdir()], [])

    def test_the_machine_is_a_node_where_nothing_is_said(self):
        result = self.mpirun(2, *SHAPE, "--m", 66, "--json", self.json)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_rows(1, 2, "none")

    def test_a_failure_fails_the_job(self):
        self.assertNotEqual(self.mpirun(2, "ag_gemm", "--m", 17).returncode, 0)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        sys.exit(launched.SKIPPED)
    launched.main()
