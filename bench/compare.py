#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/compare.py — two builds of mKernel on one GPU, taking turns: is one slower than the other?
#
#   bench/compare.py BEFORE AFTER [--parts gemm,scale,fixed] [--rounds 3] [--json FILE]
#
# BEFORE and AFTER are build folders.  Each round runs both builds, process after process, and swaps who is first.  A
# row has the medians over the rounds of each build's time and the ratio before / after; below each part stand the
# geometric mean and the least ratio.  For the GEMM they stand there twice: of times, and of times over cuBLAS's in
# the same process, as clocks of large shapes differ from one process to the next.  --json appends every line that the
# programs wrote, with `build` and `round`.
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

GEMM_SHAPES = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (16384, 16384, 16384), (8192, 1024, 8192),
               (16384, 2048, 8192), (8192, 3584, 8192), (16384, 1792, 14336), (8192, 8192, 1024), (16384, 8192, 512),
               (4096, 3584, 8192), (512, 4096, 7168)]


def gemm(build):
    return [[build / "bench/gemm_vs_cublas", *(str(size) for shape in GEMM_SHAPES for size in shape)]]


OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar")


def scale(build):
    return [[build / "mkernel", "bench", op, "--nodes", "2", "--ranks", "2", "--repetitions", "7", "--fused-only"]
            for op in OPERATORS]


def fixed(build):
    return [[build / "mkernel", "bench", op, "--nodes", nodes, "--ranks", "2", "--fixed-cost", "--repetitions", "60"]
            for op in OPERATORS for nodes in ("1", "2")]


PARTS = {"gemm": gemm, "scale": scale, "fixed": fixed}


def lines_of(commands):
    lines = []
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows"
            ran = subprocess.run([*map(str, command), "--json", str(rows)], capture_output=True, text=True, timeout=500)
            if ran.returncode != 0:
                sys.exit(f"{command[0]} exited with {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
            lines += [json.loads(line) for line in rows.read_text().splitlines()]
    return lines


def row_name(line):
    shape = f"{line['m']}x{line['n']}x{line['k']}"
    if line.get("bench") == "gemm_vs_cublas":
        return f"gemm {shape}"
    return f"{line['op']} {line['nodes']}x{line['ranks']} {shape}"


def time_of(line):
    return line["time_us"] if line.get("bench") == "gemm_vs_cublas" else line["fused_us"]


def time_over_cublas(line):
    return line["time_us"] / line["cublas_us"]


def summary(name, ratios):
    mean = statistics.geometric_mean(ratios)
    print(f"{name}: {len(ratios)} rows, geometric mean {mean:.4f}, least {min(ratios):.4f}", flush=True)


def run_part(part, builds, rounds, keep):
    rows = {}
    for number in range(rounds):
        order = ["before", "after"] if number % 2 == 0 else ["after", "before"]
        for which in order:
            for line in lines_of(PARTS[part](builds[which])):
                rows.setdefault(row_name(line), {"before": [], "after": []})[which].append(line)
                keep({**line, "build": which, "round": number})
    def median(of, which, value_of):
        return statistics.median(map(value_of, of[which]))

    def ratio(of, value_of):
        return median(of, "before", value_of) / median(of, "after", value_of)

    for name, of in rows.items():
        before, after = (median(of, which, time_of) for which in ("before", "after"))
        print(f"{name:44} {before:10.2f} {after:10.2f} {ratio(of, time_of):7.3f}")
    summary(part, [ratio(of, time_of) for of in rows.values()])
    if part == "gemm":
        summary("gemm over cuBLAS", [ratio(of, time_over_cublas) for of in rows.values()])


def main():
    parser = argparse.ArgumentParser(description="Times two builds on one GPU, taking turns.")
    parser.add_argument("before", type=Path, help="build folder")
    parser.add_argument("after", type=Path, help="build folder")
    parser.add_argument("--parts", default="gemm,scale,fixed", help="which of gemm, scale and fixed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to append the raw lines to")
    args = parser.parse_args()
    unknown = set(args.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--parts knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")

    def keep(line):
        if args.json:
            with args.json.open("a") as out:
                out.write(json.dumps(line) + "\n")

    builds = {"before": args.before.resolve(), "after": args.after.resolve()}
    print(f"{'row':44} {'before us':>10} {'after us':>10} {'ratio':>7}")
    for part in args.parts.split(","):
        run_part(part, builds, args.rounds, keep)


if __name__ == "__main__":
    main()
