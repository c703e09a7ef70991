# SPDX-License-Identifier: MIT
# tests/sim/large_world_test.py — 64 nodes × 8 ranks × 132 workers fit into two minutes and 8 GB.
#
# usage: large_world_test.py MKERNEL CLUSTER_FILE
import resource
import subprocess
import sys
import time

began = time.monotonic()
run = subprocess.run(
    [sys.argv[1], "sim", "ag_gemm", "--cluster", sys.argv[2], "--m", "32768"], capture_output=True, text=True)
seconds = time.monotonic() - began
gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
print(run.stdout, run.stderr, f"{seconds:.1f} s, {gigabytes:.2f} GB")
assert run.returncode == 0, "the prediction failed"
assert "overlap" in run.stdout and "uncalibrated" in run.stdout
assert seconds < 120, "longer than two minutes"
assert gigabytes < 8, "more than 8 GB"
