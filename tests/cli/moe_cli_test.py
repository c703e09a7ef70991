#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/moe_cli_test.py — `mkernel run` of mixtures of experts: right whatever the routing, and only what is routed
# moves.
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
OPERATORS = ("moe_dispatch_gemm", "moe_layer")
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")

BACKWARD = ("moe_layer", "--direction", "bwd")

KEYS = ("nodes", "ranks", "tokens", "experts", "topk", "hidden", "inter", "routing", "dtype")
ROWS = [(1, 1, 65, 3, 2, 17, 9, "uniform", "fp32"), (1, 4, 33, 8, 3, 5, 7, "zipf", "bf16"),
        (2, 2, 40, 8, 5, 3, 33, "random_drop", "fp16"), (2, 8, 31, 32, 8, 7, 5, "one_rank", "fp32"),
        (3, 2, 20, 24, 20, 9, 3, "uniform", "bf16"), (2, 2, 0, 4, 1, 4, 4, "uniform", "fp32"),
        (3, 2, 1, 6, 1, 1, 1, "one_expert", "fp16"), (2, 2, 50, 16, 4, 6, 6, "none", "bf16"),
        (2, 3, 64, 6, 6, 8, 8, "one_expert", "fp32"), (2, 1, 9, 4, 2, 700, 300, "uniform", "bf16")]

# What is wrong, and the word its one line must have.
WRONG_USAGE = [
    (["--experts", "5"], "--experts is 5; it must be a multiple"),
    (["--experts", "16", "--topk", "17"], "--topk is 17"),
    (["--topk", "0"], "--topk is 0"),
    (["--tokens", "-1"], "--tokens is -1"),
    (["--tokens", "2147483648"], "--tokens is 2147483648"),
    (["--hidden", "0"], "--hidden is 0"),
    (["--inter", "0"], "--inter is 0"),
    (["--hidden", "100000", "--inter", "100000"], "--tokens is 64; with --tokens 64 --hidden 100000 --inter 100000"),
    (["--routing", "round_robin"], "--routing is 'round_robin'; it must be one of uniform"),
    (["--direction", "back"], "--direction is 'back'; it must be one of fwd, bwd"),
    (["--clamp", "-1"], "--clamp is '-1'; it must be a number of at least 0"),
    (["--clamp", "two"], "--clamp is 'two'"),
    (["--max-rows", "0"], "--max-rows is 0; it must be at least 1"),
    (["--split", "compute=1"], "--split"),
    (["--split", "compute=1,dispatch=1,reduce=1"], "it has dispatch, send, compute"),
]


def run(op, *flags):
    """Its result and its rows."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows"
        result = subprocess.run([PROGRAM, "run", op, "--device", "cpu", *map(str, flags), "--json", file],
                                capture_output=True, text=True, timeout=100, env=environment)
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return result, rows


class Mixtures(unittest.TestCase):
    def row(self, op, *flags):
        result, rows = run(op, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)  # 1 if bytes are not those that are routed
        (row,) = rows
        self.assertLessEqual({"op": op, "correct": True}.items(), row.items())
        return row

    def test_every_routing_is_correct_and_moves_what_is_routed(self):
        for op, row_of in itertools.product(OPERATORS, ROWS):
            asked = dict(zip(KEYS, row_of, strict=True)) | {"launches": 5}
            with self.subTest(op, **asked):
                row = self.row(op, *(word for key, value in asked.items() for word in (f"--{key}", value)))
                self.assertLessEqual(asked.items(), row.items())
                self.assertLessEqual(row["error"], row["bound"])

    def test_every_gradient_is_correct_whatever_the_routing(self):
        worlds = ((1, 1), (1, 4), (2, 2), (3, 2))
        routings = ("uniform", "zipf", "one_expert", "one_rank", "none", "random_drop")
        dtypes = itertools.cycle(("bf16", "fp16", "fp32"))
        for (nodes, ranks), routing in itertools.product(worlds, routings):
            asked = {"nodes": nodes, "ranks": ranks, "tokens": 24, "experts": 12, "topk": 3, "hidden": 14, "inter": 9,
                     "routing": routing, "dtype": next(dtypes), "launches": 4}
            with self.subTest(**asked):
                row = self.row(*BACKWARD, *(word for key, value in asked.items() for word in (f"--{key}", value)))
                self.assertLessEqual((asked | {"direction": "bwd"}).items(), row.items())
                self.assertLessEqual(row["error"], row["bound"])

    def test_a_clamp_is_taken_in_both_directions(self):
        for direction, dtype in (("fwd", "bf16"), ("bwd", "fp32")):
            row = self.row("moe_layer", "--direction", direction, "--nodes", 2, "--ranks", 2, "--clamp", "0.75",
                           "--dtype", dtype, "--launches", 4)
            self.assertEqual(row["clamp"], 0.75)

    def test_rows_that_do_not_fit_are_dropped(self):
        dtypes = itertools.cycle(("bf16", "fp16", "fp32"))
        for op, (nodes, ranks), routing in itertools.product(
                (*((op,) for op in OPERATORS), BACKWARD), ((1, 1), (1, 4), (2, 2), (3, 2)), ("uniform", "one_rank")):
            with self.subTest(op, nodes=nodes, ranks=ranks, routing=routing):
                row = self.row(*op, "--nodes", nodes, "--ranks", ranks, "--tokens", 24, "--experts", 12, "--topk", 3,
                               "--hidden", 14, "--inter", 9, "--routing", routing, "--dtype", next(dtypes),
                               "--launches", 4, "--max-rows", 29)
                self.assertEqual(row["max_rows"], 29)
                self.assertGreater(row["dropped_pairs"], 0)
                self.assertLessEqual(row["m"], 29)

    # x and dout go; dx comes back, and behind it the gradients of all slots' weights.
    def test_a_token_crosses_backwards_with_its_gradient(self):
        tokens, hidden, experts, topk = 40, 16, 8, 3
        row = self.row(*BACKWARD, "--nodes", 2, "--ranks", 1, "--tokens", tokens, "--hidden", hidden, "--experts",
                       experts, "--topk", topk, "--routing", "one_rank", "--launches", 1, "--dtype", "fp32")
        counts = (4 * ((experts + 2) + 2 + 1) + 15) // 16 * 16  # of one phase
        there = tokens * (2 * hidden * 4 + topk * 16 + 16) + counts
        back = tokens * (hidden * 4 + 16) + counts
        self.assertEqual(row["network_bytes"], max(there, back))

    # With all experts of another node, a token crosses once whatever its slots are; in a layer its record goes with it.
    def test_a_token_crosses_to_a_node_once(self):
        tokens, hidden, experts = 40, 16, 8
        for op, topk in itertools.product(OPERATORS, (1, 4)):
            row = self.row(op, "--nodes", 2, "--ranks", 1, "--tokens", tokens, "--hidden", hidden, "--experts", experts,
                           "--topk", topk, "--routing", "one_rank", "--launches", 1, "--dtype", "fp32")
            phase = -(-16 * experts // topk)  # tokens: 16 rows for each expert from the one other rank
            counts = 4 * (-(-tokens // min(tokens, phase)) * (experts + 2) + 2 + 1)
            record = 4 * (1 + topk) if op == "moe_layer" else 0
            self.assertEqual(row["crossing_tokens"], tokens / 2)  # of rank 0 all, of rank 1 none
            self.assertEqual(row["network_bytes"], tokens * (hidden * 4 + topk * 16 + (record + 15) // 16 * 16) +
                             (counts + 15) // 16 * 16)

    # Of a layer, those of gate, up and w2; backwards two for each of them.
    def test_a_rate_counts_the_operations_of_all_products(self):
        for op, products in ((OPERATORS[:1], 1), (OPERATORS[1:], 3), (BACKWARD, 6)):
            row = self.row(*op, "--nodes", 1, "--ranks", 2)
            flops = 2 * products * row["m"] * row["n"] * row["k"]
            self.assertAlmostEqual(row["tflops_per_rank"] * row["time_us"] * 1e6 / flops, 1)

    def test_a_split_is_taken(self):
        for op in (*((op,) for op in OPERATORS), BACKWARD):
            self.row(*op, "--nodes", 2, "--ranks", 2, "--split", "compute=1,dispatch=1,send=1")

    def test_other_operators_do_not_go_backwards(self):
        for op in ("moe_dispatch_gemm", "ag_gemm", "all"):
            result, _ = run(op, "--direction", "bwd")
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertIn(f"--direction is bwd; only moe_layer, ring_attention have it, and the operator is {op}",
                          result.stderr)

    def test_only_a_layer_has_a_clamp(self):
        for op in ("moe_dispatch_gemm", "ag_gemm", "all"):
            result, _ = run(op, "--clamp", "2")
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertIn(f"--clamp is 2; only moe_layer has it, and the operator is {op}", result.stderr)

    def test_wrong_usage_is_refused_with_one_line_that_names_the_flag(self):
        for op, (flags, word) in itertools.product(OPERATORS, WRONG_USAGE):
            with self.subTest(op, flags=flags):
                result, _ = run(op, *flags)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(word, result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
