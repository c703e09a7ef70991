#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cli/attention_cli_test.py — `mkernel run ring_attention`: right whatever the mask, in both directions, and only
# what is seen moves.
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = None
NOT_INHERITED = ("MKERNEL_", "RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_")

KEYS = ("nodes", "ranks", "batch", "seq", "heads", "kv_heads", "head_dim", "mask", "layout", "dtype")
ROWS = [(1, 1, 1, 1, 1, 1, 1, "full", "contiguous", "fp32"), (2, 8, 1, 96, 4, 1, 8, "causal", "zigzag", "bf16"),
        (1, 3, 3, 51, 6, 6, 5, "window=1", "contiguous", "fp16"), (3, 2, 2, 84, 8, 1, 64, "full", "zigzag", "bf16"),
        (2, 2, 1, 264, 2, 2, 80, "window=70", "zigzag", "fp32"),
        (2, 1, 1, 66, 8, 2, 16, "window=999", "contiguous", "bf16")]
BACKWARD_ROWS = [
    (1, 1, 1, 1, 1, 1, 1, "full", "contiguous", "fp32"), (1, 1, 2, 97, 3, 1, 7, "causal", "contiguous", "fp16"),
    (1, 2, 1, 74, 4, 2, 16, "causal", "contiguous", "bf16"), (1, 8, 1, 8, 2, 1, 8, "full", "contiguous", "bf16"),
    (1, 8, 1, 176, 4, 2, 24, "window=30", "zigzag", "bf16"), (2, 2, 1, 56, 4, 1, 5, "window=9", "zigzag", "fp32"),
    (2, 2, 1, 260, 2, 2, 64, "causal", "contiguous", "fp16"), (3, 2, 2, 84, 6, 2, 8, "full", "zigzag", "bf16"),
    (3, 2, 1, 66, 2, 1, 16, "window=1", "contiguous", "fp16"), (2, 8, 1, 32, 2, 2, 8, "causal", "zigzag", "bf16"),
    (2, 8, 1, 48, 4, 1, 16, "window=20", "contiguous", "fp32"),
]

# Lengths of packed sequences (none: drawn), and other flags: shorter than a rank's part, of one query, longer.
PACKED = [("", ()), ("1,2,3,90", ("--nodes", 2, "--ranks", 2)),
          ("1", ("--nodes", 1, "--ranks", 1, "--layout", "contiguous")),
          ("47,1,48", ("--nodes", 3, "--ranks", 2, "--mask", "full")),
          ("", ("--nodes", 1, "--ranks", 8, "--seq", 208, "--batch", 30, "--mask", "window=9")),
          ("30,35", ("--nodes", 1, "--ranks", 5, "--layout", "contiguous", "--sink"))]

# What is wrong, and what its one line must have.
WRONG_USAGE = [
    (["--seq", "100", "--nodes", "2", "--ranks", "4"], "--seq is 100; it must be a multiple of 16, twice the number"),
    (["--seq", "100", "--ranks", "4", "--layout", "contiguous"], "--seq is 100; it must be a multiple of 8, the"),
    (["--seq", "0"], "--seq is 0; it must be a multiple of"),
    (["--seq", "long"], "--seq is 'long'; it must be a whole number"),
    (["--batch", "0"], "--batch is 0"),
    (["--heads", "0"], "--heads is 0"),
    (["--heads", "6", "--kv-heads", "4"], "--heads is 6; it must be a multiple of"),
    (["--kv-heads", "0"], "--kv-heads is 0"),
    (["--head-dim", "0"], "--head-dim is 0"),
    (["--seq", "32768", "--heads", "1024", "--head-dim", "1024"], "--seq is 32768; with --batch 1 --seq 32768"),
    (["--mask", "band"], "--mask is 'band'; it must be full, causal or window=N"),
    (["--mask", "window=0"], "--mask window is 0; it must be at least 1"),
    (["--mask", "window=x"], "--mask window is 'x'; it must be a whole number"),
    (["--layout", "striped"], "--layout is 'striped'; it must be one of contiguous, zigzag"),
    (["--scale", "-1"], "--scale is '-1'"),
    (["--scale", "0"], "--scale is 0; it must be 1e-06 to 1"),
    (["--sink=no"], "--sink takes no value"),
    (["--packed", "5,0"], "--packed has a length of 0; it must be at least 1"),
    (["--packed", "5,x"], "--packed is 'x'; it must be a whole number"),
    (["--packed", "16,15", "--ranks", "2"], "--seq is 31; it must be a multiple of"),
    (["--packed", "16,15", "--seq", "32"], "--packed has 31 positions; --seq is 32"),
    (["--packed", "--seq", "32", "--batch", "33"], "--batch is 33; it must be 1 to --seq, 32"),
    (["--direction", "back"], "--direction is 'back'; it must be one of fwd, bwd"),
    (["--direction", "bwd", "--seq", "0"], "--seq is 0; it must be a multiple of"),
    (["--direction", "bwd", "--head-dim", "0"], "--head-dim is 0"),
    (["--split", "compute=1,dispatch=1"], "it has intra, send, keep, compute"),
    (["--split", "compute=1,collect=1"], "--split collect is 1; ring_attention does not have that role"),
    (["--direction", "bwd", "--split", "dispatch=1"], "it has intra, send, keep, collect, compute"),
]


def run(*flags):
    """Its result and its rows."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows"
        result = subprocess.run([PROGRAM, "run", "ring_attention", "--device", "cpu", *map(str, flags), "--json", file],
                                capture_output=True, text=True, timeout=100, env=environment)
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return result, rows


class Attention(unittest.TestCase):
    def row(self, *flags):
        result, rows = run(*flags)
        self.assertEqual(result.returncode, 0, result.stderr)  # 1 if bytes are not those that the mask asks for
        (row,) = rows
        self.assertLessEqual({"op": "ring_attention", "correct": True}.items(), row.items())
        return row

    def test_every_mask_and_layout_is_correct(self):
        rows = [("fwd", row) for row in ROWS] + [("bwd", row) for row in BACKWARD_ROWS]
        for i, (direction, row_of) in enumerate(rows):
            asked = dict(zip(KEYS, row_of, strict=True)) | {"direction": direction, "launches": 5 if i % 4 == 0 else 3}
            with self.subTest(**asked):
                flags = [word for key, value in asked.items() for word in (f"--{key.replace('_', '-')}", value)]
                row = self.row(*flags, *(["--sink"] if i % 2 else []), *(["--scale", 0.25] if i % 3 == 2 else []))
                self.assertLessEqual((asked | {"sink": i % 2 == 1}).items(), row.items())
                self.assertLessEqual(row["error"], row["bound"])

    def test_packed_sequences_are_correct(self):
        for lengths, flags in PACKED:
            for direction in ("fwd", "bwd"):
                with self.subTest(lengths=lengths, flags=flags, direction=direction):
                    row = self.row("--packed", *([lengths] if lengths else []), *flags, "--direction", direction,
                                   "--heads", 4, "--kv-heads", 2, "--head-dim", 16)
                    self.assertEqual(row["batch"], 1)
                    if lengths:
                        self.assertEqual(row["seq"], sum(map(int, lengths.split(","))))
        short = self.row("--packed", "16,16", "--nodes", 1, "--ranks", 2, "--layout", "contiguous")
        self.assertEqual(short["nvlink_bytes"], 0)  # a sequence a rank: nobody needs keys of another

    def test_it_moves_what_is_seen_and_counts_what_is_computed(self):
        shape = ("--nodes", 2, "--ranks", 2, "--seq", 64, "--heads", 4, "--kv-heads", 2, "--head-dim", 8,
                 "--launches", 2)
        row_bytes = 2 * 2 * 8 * 2  # keys and values of a position, in bf16
        flops = 4 * 4 * 8 / 4  # of a pair of a query and a key, in four heads, shared by four ranks
        full = self.row(*shape, "--mask", "full")
        # 16 rows of a rank: to its peer in the node, and to a rail peer, whose own peer gets them from it.
        self.assertEqual((full["nvlink_bytes"], full["network_bytes"]), (32 * row_bytes, 16 * row_bytes))
        self.assertEqual(full["flops"], 64 * 64 * flops)
        self.assertEqual(self.row(*shape, "--mask", "causal")["flops"], 64 * 65 // 2 * flops)
        window = self.row(*shape, "--mask", "window=5", "--layout", "contiguous")
        # The next rank sees the last four rows.
        self.assertEqual((window["nvlink_bytes"], window["network_bytes"]), (4 * row_bytes, 4 * row_bytes))
        self.assertEqual(window["flops"], (15 + 59 * 5) * flops)
        self.assertGreater(full["workspace_bytes"], 0)

        # Backwards a rank sends the gradients of the 32 rows of others that it saw, and those of the node's 16 home.
        gradient_bytes = 2 * 2 * 8 * 4  # of a position, in fp32
        full = self.row(*shape, "--mask", "full", "--direction", "bwd")
        self.assertEqual(full["nvlink_bytes"], 32 * (row_bytes + gradient_bytes))
        self.assertEqual(full["network_bytes"], 16 * (row_bytes + gradient_bytes))
        self.assertEqual(full["flops"], 64 * 64 * flops * 2.5)
        window = self.row(*shape, "--mask", "window=5", "--layout", "contiguous", "--direction", "bwd")
        # The rank whose rows cross and the one that sends their gradients home are not the same.
        self.assertEqual(window["nvlink_bytes"], 4 * (row_bytes + gradient_bytes))
        self.assertEqual(window["network_bytes"], 4 * gradient_bytes)

    def test_processes_and_a_split(self):
        shape = ("--nodes", 2, "--ranks", 2, "--seq", 48, "--launches", 2)
        for direction, split in (("fwd", "compute=2"), ("bwd", "compute=1,collect=1")):
            for packed in ((), ("--packed", "3,41,4")):
                self.row(*shape, "--direction", direction, "--launcher", "fork", "--net", "tcp", *packed)
            self.row(*shape, "--direction", direction, "--split", split + ",intra=1,send=1,keep=1")

    def test_wrong_usage_is_refused_with_one_line_that_names_the_flag(self):
        for flags, word in WRONG_USAGE:
            with self.subTest(flags=flags):
                result, _ = run(*flags)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(word, result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = options.program
    unittest.main(argv=[sys.argv[0], *rest])
