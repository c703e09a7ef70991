#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/sim/sim_cli_test.py — the contract of `mkernel fuzz` and `mkernel sim`.
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
OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar")
REAL = ("h200-1x8", "h200-2x8-cx7", "h200-2x8-efa")
SCALE_MODELS = ("h200-scale-2x2", "h200-scale-1x4", "h200-scale-1x2")

# What is wrong, and the word its one line must have.
WRONG_USAGE = [
    (["fuzz", "no_such_operator"], "operator"),
    (["fuzz", "--seeds", "9..3"], "--seeds"),
    (["fuzz", "--seeds", "1..x"], "--seeds"),
    (["fuzz", "--seeds", "7"], "--seeds"),
    (["fuzz", "--seed", "-1"], "--seed"),
    (["fuzz", "--nodes", "0"], "--nodes"),
    (["fuzz", "--ranks", "-1"], "--ranks"),
    (["fuzz", "--nodes", "9", "--ranks", "9"], "--nodes"),
    (["fuzz", "--nodes", "2", "--ranks", "2", "--m", "7"], "--m"),
    (["fuzz", "--launches", "0"], "--launches"),
    (["fuzz", "--seeds", "1..2", "--trace", "t.json"], "--trace"),
    (["fuzz", "--seeds", "1..2", "--seed", "1"], "--seed"),
    (["fuzz", "--seed", "1", "--trace", "/no/such/folder/t"], "--trace"),
    (["sim"], "operator"),
    (["sim", "no_such_operator"], "operator"),
    (["sim", "ag_gemm", "--cluster", "no-such-preset"], "--cluster"),
    (["sim", "ag_gemm", "--m", "17"], "--m"),
    (["sim", "ag_gemm", "--n", "12"], "--n"),
    (["sim", "ag_gemm", "--dtype", "fp32"], "--dtype"),
    (["sim", "ag_gemm", "--json", "/no/such/folder/rows"], "--json"),
    (["sim", "gemm_rs", "--m", "24", "--n", "64", "--k", "64"], "--m"),
    (["sim", "gemm_rs", "--split", "compute=100"], "--split"),
    (["sim", "gemm_rs", "--split", "compute=132,reduce=8"], "--split"),
    (["sim", "gemm_rs", "--split", "compute=100,reduce=257"], "--split"),
    (["sim", "gemm_ar", "--m", "1000", "--n", "8192", "--k", "64"], "--m"),
    (["sim", "gemm_ar", "--split", "compute=100,reduce=4"], "--split"),
    (["sim", "gemm_ar", "--split", "compute=100,reduce=4,send=1"],
     "--split send is 1; gemm_ar does not have that role"),
    (["sim", "ag_gemm", "--m", "1e3"], "--m is '1e3'"),
    (["fuzz", "--seeds", ".."], "--seeds is '..'"),
    (["fuzz", "--seeds", "1..18446744073709551616"], "--seeds is 1..18446744073709551616"),
]

# Cluster files that are malformed or impossible, and the word the line must have.
BAD_CLUSTERS = [
    ("", "JSON"),
    ("{", "JSON"),
    ("[1, 2]", "JSON"),
    ('{"nodes": 0}', "nodes"),
    ('{"nodes": 1.5}', "nodes"),
    ('{"ranks": "many"}', "ranks"),
    ('{"sms": -1}', "sms"),
    ('{"sms": 1, "nodes": 2}', "--cluster"),
    ('{"nodes": 64, "ranks": 32, "sms": 128}', "at most 262144"),
    ('{"nodes": 1024, "ranks": 64, "sms": 1024}', "nodes x ranks x sms"),
    ('{"nvlink_gb_s": 0}', "nvlink_gb_s"),
    ('{"nic_gb_s": -5}', "nic_gb_s"),
    ('{"nic_latency_us": -1}', "nic_latency_us"),
    ('{"nic_latency_us": 1e9}', "nic_latency_us"),
    ('{"nic_gb_s": NaN}', "JSON"),
    ('{"nic_gb_s": Infinity}', "JSON"),
    ('{"nic_gb_s": 1e999}', "JSON"),
    ('{"launch_us": true}', "launch_us"),
    ('{"bandwidth": 5}', "bandwidth"),
    ('{"nic_gb_s": 1e-300}', "nic_gb_s"),
    ('{"nic_gb_s": 1e400}', "JSON"),
    ('{"nodes": 1, "ranks": 2, "nodes": 2}', 'the key "nodes" is there twice'),
    ('{"two\\nlines": 5}', "lines"),
    ('{"nodes": [1]}', "values must be numbers"),
    ("[" * 60_000, "values must be numbers"),
    ('{"a":' * 10_000, "values must be numbers"),
    ("[" * 200_000, "200000 bytes; at most 65536"),
    (" " * 65_536 + "{}", "65538 bytes; at most 65536"),
]

RATES = ("sm_tflops", "copy_gb_s", "sm_gb_s", "worker_gb_s", "nvlink_gb_s", "nic_gb_s")
TIMES = ("tile_overhead_us", "nvlink_latency_us", "nic_latency_us", "proxy_us", "proxy_wake_us", "signal_latency_us",
         "launch_us")


def mkernel(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=100)


class SimCommandLine(unittest.TestCase):
    def assert_usage(self, result, word):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_wrong_usage_is_one_line_that_names_the_flag(self):
        for arguments, word in WRONG_USAGE:
            with self.subTest(arguments):
                self.assert_usage(mkernel(*arguments), word)

    def test_a_bad_cluster_file_is_one_line_that_names_the_key(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, word in BAD_CLUSTERS:
                with self.subTest(text[:40]):
                    file = Path(folder) / "cluster.json"
                    file.write_text(text)
                    self.assert_usage(mkernel("sim", "ag_gemm", "--cluster", file), word)

    def test_a_cluster_that_is_no_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = Path(folder) / "fifo"
            os.mkfifo(fifo)
            for name, word in ((folder, "a folder"), (fifo, "no regular file"), ("/dev/zero", "no regular file"),
                               ("", "it must be a file or one of")):
                self.assert_usage(mkernel("sim", "ag_gemm", "--cluster", name), f"--cluster is '{name}'")
                self.assert_usage(mkernel("sim", "ag_gemm", "--cluster", name), word)

    def test_a_cluster_may_have_a_name_that_is_no_utf_8(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(os.fsencode(folder), b"\xff")
            Path(os.fsdecode(name)).write_text("{}")
            rows = Path(folder) / "rows"
            result = subprocess.run([PROGRAM, "sim", "ag_gemm", "--m", "4096", "--cluster", name, "--json", rows],
                                    capture_output=True, timeout=100)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertIn("\ufffd", json.loads(rows.read_text())["cluster"])

    def sim_with(self, values, *flags):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cluster.json"
            file.write_text(json.dumps({"nodes": 2, "ranks": 2, "sms": 8, **values}))
            rows = Path(folder) / "rows"
            flags = flags or ("gemm_ar", "--m", 1024, "--n", 1024, "--k", 256)
            result = mkernel("sim", *flags, "--cluster", file, "--json", rows)
            return result, json.loads(rows.read_text()) if result.returncode == 0 else None

    def test_rates_and_times_outside_their_range_are_refused(self):
        for key in RATES + TIMES:
            for value in (-1, 1e7, 0.0009 if key in RATES else -1e-9, 0 if key in RATES else 1000001):
                with self.subTest(key=key, value=value):
                    result, _ = self.sim_with({key: value})
                    self.assert_usage(result, key)
                    self.assertRegex(result.stderr, r"from 0(\.001)? to 1000000")

    def test_both_ends_of_every_range_end_in_a_finite_time(self):
        usual = self.sim_with({})[1]["time_us"]
        for key in RATES + TIMES:
            for value in ((0.001, 1000000) if key in RATES else (0, 1000000)):
                with self.subTest(key=key, value=value):
                    result, row = self.sim_with({key: value})
                    self.assertEqual(result.returncode, 0, result.stderr)
                    slower = value == (0.001 if key in RATES else 1000000)
                    self.assertGreater(row["time_us"], usual) if slower else self.assertLessEqual(
                        row["time_us"], usual)

    def test_all_ranges_at_their_slow_or_fast_end_at_once_end(self):
        for rate, time in ((0.001, 1000000), (0.001, 0), (1000000, 0), (1000000, 1000000)):
            with self.subTest(rate=rate, time=time):
                result, row = self.sim_with({**dict.fromkeys(RATES, rate), **dict.fromkeys(TIMES, time)})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLess(row["time_us"], 2**63 / 1e6)

    def test_sizes_that_would_not_end_or_overflow_virtual_time_are_refused(self):
        large = (2**31 - 8) // 1024 * 1024
        self.assert_usage(self.sim_with({}, "gemm_rs", "--m", large, "--n", large, "--k", 64)[0], "--m")
        slow = dict.fromkeys(RATES, 0.001)
        for op in OPERATORS:
            self.assert_usage(self.sim_with(slow, op, "--m", 65536, "--n", 65536, "--k", 2**31 - 64)[0], "--cluster")

    def test_fuzz_without_memory_says_so(self):
        for megabytes in (24, 32, 48, 64, 96, 128, 160):
            with self.subTest(megabytes=megabytes):
                # On top of the program's size: it is large with all its kernels, and killed if it does not fit.
                limit = f"ulimit -v {megabytes * 1024 + os.path.getsize(PROGRAM) // 1024}; exec \"$@\""
                result = subprocess.run(
                    ["bash", "-c", limit, "bash", PROGRAM, "fuzz", "--seeds", "1..60", "--launches", "8"],
                    capture_output=True, text=True, timeout=100)
                # 127: not even its libraries fit.
                self.assertIn(result.returncode, (0, 1, 127), result.stderr)
                if result.returncode == 1:
                    self.assertRegex(result.stderr, "out of memory|Resource temporarily unavailable")

    def test_fuzz_ends_with_its_counts(self):
        for op in OPERATORS:
            result = mkernel("fuzz", op, "--seeds", "5..14", "--nodes", 2)
            self.assertEqual((result.returncode, result.stdout.splitlines()[-1]), (0, "10 passed, 0 failed"))

    def test_more_reduce_workers_are_a_split_away(self):
        result = mkernel("sim", "gemm_rs", "--m", 4096, "--split", "compute=120,reduce=12")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^reduce +12 workers")

    def test_the_same_seed_writes_the_same_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            traces = []
            for name in ("a", "b"):
                file = Path(folder) / name
                self.assertEqual(mkernel("fuzz", "ag_gemm", "--seed", 3, "--trace", file).returncode, 0)
                traces.append(file.read_bytes())
        self.assertEqual(traces[0], traces[1])
        tracks = {(e["pid"], e["tid"]) for e in json.loads(traces[0])["traceEvents"] if e["ph"] == "X"}
        self.assertGreater(len(tracks), 1)

    def test_every_preset_predicts_and_says_whether_it_is_calibrated(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows"
            for op, preset in itertools.product(OPERATORS, REAL + SCALE_MODELS):
                result = mkernel("sim", op, "--cluster", preset, "--m", 4096, "--json", rows)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(": calibrated" if preset in SCALE_MODELS else ": uncalibrated", result.stdout)
            for row in map(json.loads, rows.read_text().splitlines()):
                self.assertEqual(row["calibrated"], row["cluster"] in SCALE_MODELS)
                self.assertGreaterEqual(row["time_us"], row["bound_us"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
