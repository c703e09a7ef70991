#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/cli_test.py — the contract of the program `mkernel`: exit codes, one-line errors, JSON rows.
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None

KEYS = {"op", "device", "nodes", "ranks", "launcher", "fabric", "reach", "m", "n", "k", "dtype", "launches",
        "time_us", "tflops_per_rank", "nvlink_bytes", "network_bytes", "workspace_bytes", "error", "bound",
        "correct", "commit"}

GEMMS = ("ag_gemm", "gemm_rs", "gemm_ar")
OPERATORS = (*GEMMS, "moe_dispatch_gemm", "moe_layer", "ring_attention")

# nodes, ranks, rows a rank, n, k, dtype
ROWS = [(1, 1, 33, 65, 17, "fp32"), (1, 2, 1, 1, 1, "bf16"), (1, 8, 31, 7, 13, "fp16"), (2, 1, 97, 2, 3, "bf16"),
        (2, 3, 33, 65, 1, "fp16"), (2, 8, 7, 129, 5, "bf16"), (3, 4, 2, 3, 67, "fp32"), (4, 2, 65, 1, 2, "fp16")]

# What is wrong, and the word its one line must have.
WRONG_USAGE = [
    ([], "run"),
    (["walk"], "walk"),
    (["run", "no_such_operator"], "operator"),
    (["run", "--no-such-flag", "1"], "--no-such-flag"),
    (["run", "ag_gemm", "--m"], "--m"),
    (["run", "ag_gemm", "--m", "0"], "--m"),
    (["run", "ag_gemm", "--m", "-16"], "--m"),
    (["run", "ag_gemm", "--m", "17"], "--m"),
    (["run", "ag_gemm", "--m", "12x"], "--m"),
    (["run", "ag_gemm", "--m", "99999999999999999999"], "--m"),
    (["run", "ag_gemm", "--n", "0"], "--n"),
    (["run", "ag_gemm", "--n", "-1"], "--n"),
    (["run", "ag_gemm", "--k", "0"], "--k"),
    (["run", "ag_gemm", "--k", "1.5"], "--k"),
    (["run", "ag_gemm", "--nodes", "0"], "--nodes"),
    (["run", "ag_gemm", "--nodes", "99999"], "--nodes"),
    (["run", "ag_gemm", "--ranks", "0"], "--ranks"),
    (["run", "ag_gemm", "--ranks", "-8"], "--ranks"),
    (["run", "ag_gemm", "--dtype", "fp8"], "--dtype"),
    (["run", "ag_gemm", "--device", "tpu"], "--device"),
    (["run", "ag_gemm", "--launches", "0"], "--launches"),
    (["run", "ag_gemm", "--launches", "many"], "--launches"),
    (["run", "ag_gemm", "--seed", "-1"], "--seed"),
    (["run", "ag_gemm", "--timeout-ms", "0"], "--timeout-ms"),
    (["run", "ag_gemm", "--timeout-ms", "-1"], "--timeout-ms"),
    (["run", "ag_gemm", "--json", "/no/such/folder/rows"], "--json"),
    (["run", "ag_gemm", "--launcher", "spoon"], "--launcher"),
    (["run", "ag_gemm", "--net", "pigeon"], "--net is 'pigeon'; it must be one of auto, loopback"),
    (["run", "ag_gemm", "--launcher", "fork", "--net", "loopback"], "--net is 'loopback'; rank 0 cannot use it"),
    (["run", "ag_gemm", "--launcher", "fork", "--m", "17"], "--m"),
    (["run", "ag_gemm", "--launcher", "fork", "--nodes", "0"], "--nodes"),
    (["run", "ag_gemm", "--launcher", "fork", "--ranks", "99999999"], "--ranks"),
    (["topo", "--no-such-flag"], "--no-such-flag"),
    (["bench", "no_such_operator"], "operator"),
    (["bench", "--device", "cpu"], "--device"),
    (["bench", "--device", "tpu"], "--device"),
    (["bench", "--pace", "fast"], "--pace"),
    (["bench", "--pace", "nvlink=0,network=50"], "--pace"),
    (["bench", "--nodes", "0"], "--nodes"),
    (["bench", "--nodes", "4", "--ranks", "4"], "--nodes x --ranks"),
    (["bench", "--ranks", "99999999999"], "--ranks"),
    (["bench", "--m", "8192"], "--m"),
    (["bench", "--m", "8193", "--n", "8", "--k", "8"], "--m"),
    (["bench", "--m", "8192", "--n", "12", "--k", "8"], "--n"),
    (["bench", "--m", "8192", "--n", "8", "--k", "0"], "--k"),
    (["bench", "--fixed-cost", "--m", "8192", "--n", "8", "--k", "8"], "--fixed-cost"),
    (["bench", "--dtype", "fp32"], "--dtype"),
    (["bench", "--repetitions", "0"], "--repetitions"),
    (["bench", "--split", "1,2,3,4"], "--split"),
    (["bench", "--split", "compute=x"], "--split"),
    (["bench", "moe_layer", "--tokens", "0"], "--tokens"),
    (["bench", "moe_layer", "--tokens", "64", "--hidden", "60"], "--hidden"),
    (["bench", "moe_layer", "--inter", "4"], "--inter"),
    (["bench", "moe_layer", "--experts", "6"], "--experts"),
    (["bench", "moe_layer", "--experts", "2048"], "--experts"),
    (["bench", "moe_layer", "--topk", "0"], "--topk"),
    (["bench", "moe_dispatch_gemm", "--experts", "4", "--topk", "5"], "--topk"),
    (["bench", "moe_layer", "--m", "8192", "--n", "8", "--k", "8"], "--m"),
    (["bench", "moe_layer", "--dtype", "fp16"], "--dtype"),
    (["bench", "moe_layer", "--fixed-cost"], "--fixed-cost"),
    (["bench", "gemm_rs", "--tokens", "64"], "--tokens"),
    (["bench", "--fixed-cost", "--tokens", "64"], "--fixed-cost"),
    (["bench", "ring_attention", "--m", "8192", "--n", "8", "--k", "8"], "--m"),
    (["bench", "ring_attention", "--tokens", "8"], "--tokens"),
    (["bench", "ring_attention", "--fixed-cost"], "--fixed-cost"),
    (["bench", "ring_attention", "--dtype", "fp16"], "--dtype"),
    (["bench", "ring_attention", "--seq", "8190"], "--seq"),
    (["bench", "ring_attention", "--heads", "6", "--kv-heads", "4"], "--heads"),
    (["bench", "ring_attention", "--kv-heads", "0"], "--kv-heads"),
    (["bench", "ring_attention", "--mask", "window=0"], "--mask"),
    (["bench", "ring_attention", "--layout", "striped"], "--layout"),
    (["bench", "gemm_rs", "--seq", "8192"], "--seq"),
    (["bench", "--fixed-cost", "--mask", "full"], "--fixed-cost"),
    (["bench", "--no-such-flag"], "--no-such-flag"),
    (["run", "ag_gemm", "--split", "compute"], "--split"),
    (["run", "ag_gemm", "--split", "compute=1,paint=1"], "--split"),
    (["run", "ag_gemm", "--split", "compute=x"], "--split"),
    (["run", "ag_gemm", "--split", "compute=1"], "--split"),
    (["run", "gemm_rs", "--device", "cpu", "--split", "compute=1,reduce=0"], "--split"),
    (["run", "gemm_rs", "--device", "cpu", "--split", "compute=1,reduce=1,intra=1"], "--split"),
    (["run", "gemm_rs", "--split", "send=2"],
     "--split send is 2; gemm_rs does not have that role: it has reduce, compute"),
    (["run", "gemm_rs", "--split", "compute=2,reduce=1,intra=1"],
     "--split intra is 1; gemm_rs does not have that role"),
    (["run", "ag_gemm", "--split", "compute=2,reduce=1"], "it has intra, send, compute"),
    (["run", "gemm_ar", "--split", "compute=2,send=1"], "it has intra, reduce, compute"),
    (["bench", "gemm_rs", "--split", "compute=2,send=1"], "--split send is 1"),
    (["run", "gemm_rs", "--split", "compute=2,compute=3,reduce=1"], "compute is there twice"),
    (["run", "ag_gemm", "--split", "compute=2,intra=-1"], "--split intra is -1; it must be at least 0"),
    (["run", "ag_gemm", "--split", "compute="], "--split compute is ''"),
    (["run", "ag_gemm", "--split", ""], "--split is ''"),
    (["run", "ag_gemm", "--split", "compute=2,"], "--split is 'compute=2,'"),
    (["run", "all", "--split", "compute=1,paint=1"], "--split"),
    (["run", "", "--device", "cpu"], "operator is ''"),
    (["run", "ag_gemm", "--m", ""], "--m is ''"),
    (["run", "ag_gemm", "--m", "1e400"], "--m is '1e400'"),
    (["run", "ag_gemm", "--m", "0x10"], "--m is '0x10'"),
    (["run", "ag_gemm", "--m", "+16"], "--m is '+16'"),
    (["run", "ag_gemm", "--m", " 16"], "--m is ' 16'"),
    (["run", "ag_gemm", "--m", "\u0663"], "--m is '\u0663'"),
    (["run", "ag_gemm", "--m", "-9223372036854775809"],
     "--m is -9223372036854775809; it must be at least -9223372036854775808"),
    (["run", "ag_gemm", "--nodes", "2147483647", "--ranks", "2147483647"], "--nodes"),
    (["run", "ag_gemm", "--nodes", "-2147483649"], "--nodes"),
    (["run", "ag_gemm", "--seed", "18446744073709551616"], "--seed is 18446744073709551616; it must be at most"),
    (["run", "ag_gemm", "--stats=3"], "--stats takes no value"),
    (["bench", "--fixed-cost=no"], "--fixed-cost takes no value"),
    (["bench", "--fixed-cost", "--fused-only"], "--fixed-cost and --fused-only exclude each other"),
    (["run", "ag_gemm", "--launches", "2147483647"], "--launches is 2147483647; it must be 1 to 10000000"),
    (["run", "ag_gemm", "--device", ""], "--device is ''"),
    (["run", "ag_gemm", "--net", ""], "--net is ''"),
    (["run", "gemm_rs", "--device", "cpu", "--m", "17"], "--m"),
    (["run", "gemm_rs", "--device", "cpu", "--k", "0"], "--k"),
    (["sim", "moe_dispatch_gemm"], "operator is 'moe_dispatch_gemm'; it must be one of ag_gemm"),
]


# Of launchers: under one of these, too, every test is on its own.
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")


def mkernel(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)} | variables
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=100,
                          env=environment)


def run_on_cpu(*arguments, op="ag_gemm", **variables):
    return mkernel("run", op, "--device", "cpu", *arguments, **variables)


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = Path(folder.name) / "rows"

    def rows(self):
        return [json.loads(line) for line in self.json.read_text().splitlines()]

    def assert_one_line(self, result, code, word):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(word, result.stderr)

    def test_every_world_is_correct_and_its_row_says_what_was_run(self):
        for op, (nodes, ranks, shard, n, k, dtype) in itertools.product(GEMMS, ROWS):
            with self.subTest(f"{op} {nodes}x{ranks}"):
                asked = {"nodes": nodes, "ranks": ranks, "m": shard * nodes * ranks, "n": n, "k": k, "dtype": dtype,
                         "launches": 5}
                flags = [word for key, value in asked.items() for word in (f"--{key}", value)]
                self.json.unlink(missing_ok=True)
                result = run_on_cpu(*flags, "--json", self.json, op=op)
                self.assertEqual(result.returncode, 0, result.stderr)
                (row,) = self.rows()
                self.assertLessEqual((asked | {"op": op}).items(), row.items())
                self.assertIs(row["correct"], True)

    def test_a_row_has_every_key_of_the_contract(self):
        self.assertEqual(run_on_cpu("--m", 64, "--json", self.json).returncode, 0)
        (row,) = self.rows()
        self.assertEqual(KEYS - row.keys(), set())
        self.assertEqual((row["op"], row["device"]), ("ag_gemm", "cpu"))
        self.assertGreater(row["time_us"], 0)
        self.assertGreater(row["tflops_per_rank"], 0)
        self.assertLessEqual(row["error"], row["bound"])
        self.assertTrue(row["commit"])

    def test_bytes_are_those_of_one_launch(self):
        nodes, ranks, shard, k = 2, 3, 33, 17
        flags = ["--nodes", nodes, "--ranks", ranks, "--m", nodes * ranks * shard, "--k", k, "--dtype", "fp32"]
        self.assertEqual(run_on_cpu(*flags, "--launches", 3, "--json", self.json).returncode, 0)
        (row,) = self.rows()
        shard_bytes = shard * k * 4
        self.assertEqual(row["network_bytes"], (nodes - 1) * shard_bytes)
        self.assertEqual(row["nvlink_bytes"], nodes * (ranks - 1) * shard_bytes)
        self.assertGreater(row["workspace_bytes"], nodes * ranks * shard_bytes)

    def test_bytes_of_a_reduce_scatter_are_those_of_one_launch(self):
        nodes, ranks, shard, n = 2, 3, 33, 65
        flags = ["--nodes", nodes, "--ranks", ranks, "--m", nodes * ranks * shard, "--n", n, "--k", 7]
        self.assertEqual(run_on_cpu(*flags, "--launches", 3, "--json", self.json, op="gemm_rs").returncode, 0)
        (row,) = self.rows()
        shard_bytes = shard * n * 2
        self.assertEqual(row["network_bytes"], (nodes - 1) * shard_bytes)
        self.assertEqual(row["nvlink_bytes"], nodes * (ranks - 1) * shard_bytes)
        self.assertGreater(row["workspace_bytes"], (nodes * ranks + 2 * (nodes - 1)) * shard_bytes)

    def test_bytes_of_an_all_reduce_are_those_of_its_path(self):
        nodes, ranks, n = 2, 3, 65
        for m, nvlink, network in ((6 * 44, 2 * 4 * 44, 2 * 44), (37, 2 * 37, 37)):  # in rows: two shots, one shot
            flags = ["--nodes", nodes, "--ranks", ranks, "--m", m, "--n", n, "--k", 7]
            self.json.unlink(missing_ok=True)
            self.assertEqual(run_on_cpu(*flags, "--json", self.json, op="gemm_ar").returncode, 0)
            (row,) = self.rows()
            self.assertEqual((row["nvlink_bytes"], row["network_bytes"]), (nvlink * n * 2, network * n * 2))
            self.assertIs(row["correct"], True)

    def test_a_split_is_taken(self):
        for op, split in (("ag_gemm", "compute=2,intra=1,send=1"), ("gemm_rs", "compute=2,reduce=2"),
                          ("gemm_ar", "compute=1,reduce=2")):
            result = run_on_cpu("--m", 64, "--split", split, op=op)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_of_all_operators_each_takes_the_roles_of_a_split_that_it_has(self):
        flags = ("--nodes", 2, "--ranks", 2, "--m", 264)
        result = run_on_cpu(*flags, "--split", "compute=2,intra=1,send=1,keep=1,reduce=1,dispatch=1", op="all")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run_on_cpu(*flags, "--split", "compute=2,intra=1,send=1", op="all")
        self.assert_one_line(result, 2, "split.reduce is 0")

    def test_ranks_may_be_processes(self):
        for nodes, ranks, net, fabric in ((1, 3, "auto", "none"), (2, 1, "auto", "tcp"), (2, 2, "tcp", "tcp"),
                                          (2, 4, "tcp", "tcp"), (2, 2, "shm", "shm"), (2, 4, "shm", "shm")):
            with self.subTest(f"{nodes}x{ranks} {net}"):
                self.json.unlink(missing_ok=True)
                result = run_on_cpu("--launcher", "fork", "--net", net, "--nodes", nodes, "--ranks", ranks,
                                    "--m", 33 * nodes * ranks, "--n", 65, "--k", 17, "--launches", 5,
                                    "--json", self.json, op="all")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(result.stdout.splitlines()), 2 + len(OPERATORS))  # rank 0 alone prints
                for op, row in zip(OPERATORS, self.rows(), strict=True):
                    asked = {"op": op, "launcher": "fork", "fabric": fabric, "correct": True, "launches": 5}
                    self.assertLessEqual(asked.items(), row.items())

    def test_processes_move_the_bytes_that_threads_do(self):
        flags = ("--nodes", 2, "--ranks", 2, "--m", 132, "--n", 65, "--k", 17, "--json", self.json)
        for launcher in ("thread", "fork"):
            self.assertEqual(run_on_cpu(*flags, "--launcher", launcher, op="all").returncode, 0)
        rows = self.rows()
        for threads, processes in zip(rows[:len(OPERATORS)], rows[len(OPERATORS):], strict=True):
            for key in ("op", "nvlink_bytes", "network_bytes", "workspace_bytes", "error"):
                self.assertEqual(threads[key], processes[key])

    def test_threads_may_use_any_fabric(self):
        for net, fabric in (("auto", "loopback"), ("loopback", "loopback"), ("shm", "shm"), ("tcp", "tcp")):
            self.json.unlink(missing_ok=True)
            result = run_on_cpu("--nodes", 2, "--ranks", 3, "--m", 66, "--net", net, "--json", self.json, op="all")
            self.assertEqual(result.returncode, 0, result.stderr)
            for row in self.rows():
                self.assertLessEqual({"launcher": "thread", "fabric": fabric, "correct": True}.items(), row.items())

    def test_a_fabric_may_be_a_variable(self):
        flags = ("--nodes", 2, "--ranks", 1, "--m", 66, "--json", self.json)
        self.assertEqual(run_on_cpu(*flags, MKERNEL_NET="tcp").returncode, 0)
        self.assertEqual(self.rows()[0]["fabric"], "tcp")
        self.assert_one_line(run_on_cpu(*flags, MKERNEL_NET="pigeon"), 2, "MKERNEL_NET is 'pigeon'")
        self.assertEqual(run_on_cpu(*flags, "--net", "loopback", MKERNEL_NET="pigeon").returncode, 0)

    def test_proxies_say_what_they_carried(self):
        for net in ("loopback", "shm", "tcp"):
            self.json.unlink(missing_ok=True)
            result = run_on_cpu("--nodes", 2, "--ranks", 2, "--m", 132, "--k", 17, "--launches", 3, "--net", net,
                                "--stats", "--json", self.json)
            self.assertEqual(result.returncode, 0, result.stderr)
            (row,) = self.rows()
            carried = row["proxies"]
            self.assertEqual(carried["bytes"], row["network_bytes"] * 3 * 4)
            self.assertGreaterEqual(carried["commands"], carried["puts"])
            self.assertGreaterEqual(carried["puts"], carried["batches"])
            self.assertGreaterEqual(carried["batches"], 1)
            self.assertRegex(result.stdout, rf"(?m)^  ag_gemm over {net}: {carried['commands']} commands as .* puts")

    def test_rows_are_appended(self):
        for _ in range(2):
            self.assertEqual(run_on_cpu("--m", 32, "--json", self.json).returncode, 0)
        self.assertEqual(len(self.rows()), 2)

    def test_the_table_has_a_verdict_for_every_operator(self):
        result = mkernel("run", "all", "--device", "cpu", "--nodes", 1, "--ranks", 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        header = next(line for line in result.stdout.splitlines() if line.startswith("operator"))
        for column in ("world", "shape", "time", "TFLOP/s", "NVLink", "network", "error", "verdict"):
            self.assertIn(column, header)
        for op in OPERATORS:
            self.assertRegex(result.stdout, rf"(?m)^{op} +1x2 .* correct$")

    def test_wrong_usage_is_refused_with_one_line_that_names_the_flag(self):
        for arguments, word in WRONG_USAGE:
            with self.subTest(" ".join(arguments)):
                on_cpu = ["--device", "cpu"] if "ag_gemm" in arguments and "--device" not in arguments else []
                result = mkernel(*arguments, *on_cpu)
                self.assert_one_line(result, 2, word)
                self.assertEqual(result.stdout, "")

    def test_a_variable_that_is_no_number_is_refused_by_name(self):
        self.assert_one_line(run_on_cpu("--m", 32, MKERNEL_TIMEOUT="abc"), 2, "MKERNEL_TIMEOUT")
        self.assert_one_line(run_on_cpu("--m", 32, MKERNEL_RING_CAPACITY="3"), 2, "MKERNEL_RING_CAPACITY")
        self.assert_one_line(run_on_cpu("--m", 32, MKERNEL_QUEUE_DEPTH="-1"), 2, "MKERNEL_QUEUE_DEPTH is -1")

    def test_a_flag_wins_over_its_variable(self):
        self.assertEqual(run_on_cpu("--m", 32, "--timeout-ms", 20000, MKERNEL_TIMEOUT="0").returncode, 0)

    # No machine starts the threads of 64 ranks within the millisecond the first of them waits.
    def test_a_launch_that_times_out_exits_with_1_and_says_who_waited(self):
        result = run_on_cpu("--nodes", 4, "--ranks", 16, "--m", 64, "--n", 8, "--k", 8, "--timeout-ms", 1)
        self.assert_one_line(result, 1, "waited 1 ms for")

    def test_info_says_version_devices_and_what_is_missing(self):
        result = mkernel("info")
        self.assertEqual(result.returncode, 0)
        for word in ("version", "cpu", "gpu", "missing", *OPERATORS):
            self.assertIn(word, result.stdout)

    def test_cuda_is_refused_with_the_reason_where_it_is_missing(self):
        missing = [line for line in mkernel("info").stdout.splitlines() if line.startswith("missing")]
        if missing[0].split()[1:] == ["nothing"]:
            self.skipTest("a GPU is here")
        self.assert_one_line(mkernel("run", "--device", "cuda"), 2, "--device")
        self.assert_one_line(mkernel("run", "--device", "cuda", "--launcher", "fork", "--nodes", 1, "--ranks", 2), 2,
                             "--device is cuda; rank 0 cannot use one")

    def test_bench_says_in_one_line_what_is_missing(self):
        missing = [line for line in mkernel("info").stdout.splitlines() if line.startswith("missing")]
        if missing[0].split()[1:] == ["nothing"]:
            self.skipTest("a GPU is here")
        without_cublas = any("bench:" in line for line in missing)
        self.assert_one_line(mkernel("bench", "ag_gemm"), 2, "CUDA" if without_cublas else "--device is cuda")

    def test_help_is_no_error(self):
        result = mkernel("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("--timeout-ms", result.stdout)

    def test_bench_explains_its_flags(self):
        result = mkernel("bench", "--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for flag in ("--pace", "--repetitions", "--split", "--fixed-cost", "--fused-only", "--json", "--tokens"):
            self.assertIn(flag, result.stdout)
        for op in OPERATORS:
            self.assertIn(op, result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
