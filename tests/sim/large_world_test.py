# SPDX-License-Identifier: MIT
# tests/sim/large_world_test.py — 64 nodes × 8 ranks × 132 workers fit into a minute and a gigabyte an operator.
#
# AllGather+GEMM runs at M = 32768; the operators that sum, which have sixteen times the tiles, at 4096.
# Seconds are of the process's own time: others may keep the machine busy.
#
# usage: large_world_test.py MKERNEL CLUSTER_FILE
import os
import subprocess
import sys

CASES = [("ag_gemm", 32768), ("gemm_rs", 4096), ("gemm_ar", 4096)]

for op, m in CASES:
    command = [sys.argv[1], "sim", op, "--cluster", sys.argv[2], "--m", str(m)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    gigabytes = usage.ru_maxrss / 1e6
    print(output, f"{op}: {seconds:.1f} s, {gigabytes:.2f} GB", flush=True)
    assert process.returncode == 0, "the prediction failed"
    assert "overlap" in output and "uncalibrated" in output
    assert seconds < 60, f"{op} takes more than a minute"
    assert gigabytes < 1, f"{op} takes more than a gigabyte"
