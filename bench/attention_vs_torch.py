#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/attention_vs_torch.py — attention on one GPU, ours beside PyTorch's, forward: the operator ring_attention in a
# world of one rank, and with --tiles the engine alone.
#
# PyTorch has the cuDNN backend and, with --flash, the flash backend; a ratio is to whichever is faster.  Launches take
# turns; a line has medians.  Inputs are random and change from launch to launch, so that none are in the L2.  Before it
# is timed, every result is compared with fp64 on some rows.
#
# usage: attention_vs_torch.py LIBRARY [--json FILE] [--rounds N] [--only NAMES] [--tiles N[:VARIANT],…] [--flash]
#                              [--static]
import argparse
import ctypes
import json
import statistics

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

# name: batches, rows, heads, heads of keys, head dimension
SHAPES = {"d128_16k": (1, 16384, 16, 16, 128), "d128_4kx4": (4, 4096, 16, 16, 128), "d128_32k": (1, 32768, 16, 16, 128),
          "d128_gqa_16k": (1, 16384, 32, 8, 128), "d64_16k": (1, 16384, 16, 16, 64), "d256_8k": (1, 8192, 16, 16, 256)}
CASES = [(f"{name}_{kind}", shape, kind) for name, shape in SHAPES.items() for kind in ("full", "causal")]
CASES += [("d128_16k_window1024", SHAPES["d128_16k"], "window")]
WINDOW = 1024


class Call(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in
                ("batches", "rows", "heads", "kv_heads", "dim", "tile_n", "variant", "is_causal", "window",
                 "is_claimed", "heads_at_once", "blocks")] + [
                (name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "claimed", "stream")]


class Ours:
    def __init__(self, library, tile_n=0, variant=0, is_claimed=1, heads_at_once=0):
        self.library = library
        self.settings = (tile_n, variant)
        self.is_claimed, self.heads_at_once = is_claimed, heads_at_once
        self.claimed = torch.zeros(1, device="cuda", dtype=torch.int64)
        self.blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def __call__(self, q, k, v, o, lse, kind):
        call = Call(*q.shape[:3], k.shape[2], q.shape[3], *self.settings, int(kind != "full"),
                    WINDOW if kind == "window" else -1, self.is_claimed, self.heads_at_once, self.blocks,
                    *(ctypes.c_void_p(t.data_ptr()) for t in (q, k, v, o, lse, self.claimed)),
                    ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if self.library.mk_attention(ctypes.byref(call)):
            raise ValueError(self.library.mk_attention_error().decode())


class Operator:
    def __init__(self, library):
        self.library = library

    def __call__(self, q, k, v, o, lse, kind):
        sizes = (*q.shape[:3], k.shape[2], q.shape[3])
        if self.library.mk_ring_attention(
                *(ctypes.c_int64(size) for size in sizes), ctypes.c_int(kind != "full"),
                ctypes.c_int64(WINDOW + 1 if kind == "window" else 0),
                *(ctypes.c_void_p(t.data_ptr()) for t in (q, k, v, o, lse)),
                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)):
            raise ValueError(self.library.mk_ring_attention_error().decode())


def torch_attention(backend, q, k, v, kind):
    with sdpa_kernel([backend]):
        return functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)),
                                                       is_causal=kind == "causal",
                                                       enable_gqa=q.shape[2] != k.shape[2])


def exact(q, k, v, kind, rows):
    """fp64 attention of some rows of every head, and the logarithms of their sums."""
    group = q.shape[2] // k.shape[2]
    outs, sums = [], []
    for head in range(q.shape[2]):
        scores = torch.einsum("bqd,bkd->bqk", q[:, rows, head].double(), k[:, :, head // group].double())
        scores *= q.shape[3] ** -0.5
        at = torch.arange(k.shape[1], device="cuda")
        if kind != "full":
            scores.masked_fill_(at > rows[:, None], float("-inf"))
        if kind == "window":
            scores.masked_fill_(at < rows[:, None] - WINDOW, float("-inf"))
        sums.append(torch.logsumexp(scores, -1))
        outs.append(torch.einsum("bqk,bkd->bqd", torch.softmax(scores, -1), v[:, :, head // group].double()))
    return torch.stack(outs, 2), torch.stack(sums, 1)


def check(name, run, q, k, v, kind):
    """Whether it is right beside fp64, on rows that are spread."""
    o = torch.full_like(q, float("nan"))
    lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), float("nan"), device="cuda")
    run(q, k, v, o, lse, kind)
    torch.cuda.synchronize()
    rows = torch.randperm(q.shape[1], device="cuda")[:192]
    rows = torch.cat([rows, torch.tensor([0, 1, 127, 128, q.shape[1] - 1], device="cuda") % q.shape[1]])
    want, sums = exact(q, k, v, kind, rows)
    off = ((o[:, rows].double() - want).norm() / want.norm()).item()
    off_sums = (lse[:, :, rows].double() - sums).abs().max().item()
    if not (off < 5e-3 and off_sums < 1e-3) or torch.isnan(o).any() or torch.isnan(lse).any():
        print(f"WRONG {name}: {off:.2e} of the norm, logarithms off by {off_sums:.2e}, "
              f"{torch.isnan(o).sum().item()} NaNs", flush=True)
        return False
    return True


def times(calls, rounds):
    """Median microseconds of each call on the GPU, in turns."""
    taken = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(300_000)
            begin.record()
            call(turn)
            end.record()
            end.synchronize()
            if turn >= 2:
                taken[name].append(begin.elapsed_time(end) * 1000)
    return {name: statistics.median(of) for name, of in taken.items()}


def measure(case, variants, options):
    name, (batches, rows, heads, kv_heads, dim), kind = case
    generator = torch.Generator(device="cuda").manual_seed(3)
    def random(heads):
        return torch.randn(batches, rows, heads, dim, device="cuda", dtype=torch.bfloat16, generator=generator)
    sets = [(random(heads), random(kv_heads), random(kv_heads)) for _ in range(3)]
    o = torch.empty_like(sets[0][0])
    lse = torch.empty(batches, heads, rows, device="cuda")
    calls = {}
    for label, run in variants.items():
        try:
            if check(f"{name} {label}", run, *sets[0], kind):
                calls[label] = lambda turn, run=run: run(*sets[turn % 3], o, lse, kind)
        except ValueError as error:
            if "no such" not in str(error):
                print(f"{name} {label}: {error}", flush=True)
    if kind != "window":
        calls["cudnn"] = lambda turn: torch_attention(SDPBackend.CUDNN_ATTENTION, *sets[turn % 3], kind)
        if options.flash:
            calls["flash"] = lambda turn: torch_attention(SDPBackend.FLASH_ATTENTION, *sets[turn % 3], kind)
    if not calls:
        return None
    took = times(calls, options.rounds)
    seen = {"full": rows, "causal": rows / 2, "window": WINDOW}[kind]
    flops = 4 * batches * heads * rows * seen * dim
    best = {label: us for label, us in took.items() if label in variants}
    row = {"bench": "attention_vs_torch", "case": name, "us": {k: round(v, 1) for k, v in took.items()},
           "tflops": {k: round(flops / v / 1e6, 1) for k, v in took.items()}}
    if best and "cudnn" in took:
        row["ratio"] = round(min(took["cudnn"], took.get("flash", took["cudnn"])) / min(best.values()), 3)
    print(name, json.dumps(row["tflops"]), row.get("ratio"), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="attention beside PyTorch's, on one GPU")
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="names that contain one of these, separated by commas")
    parser.add_argument("--tiles", default="", help="the engine alone: N or N:VARIANT, separated by commas; 0: any")
    parser.add_argument("--flash", action="store_true", help="PyTorch's flash backend as well")
    parser.add_argument("--static", action="store_true", help="also without claiming")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    library.mk_attention_error.restype = ctypes.c_char_p
    library.mk_ring_attention_error.restype = ctypes.c_char_p
    variants = {"operator": Operator(library)}
    for tile in filter(None, options.tiles.split(",")):
        n, _, variant = tile.partition(":")
        variants[f"n{tile}"] = Ours(library, int(n), int(variant or 0))
        if options.static:
            variants[f"n{tile}s"] = Ours(library, int(n), int(variant or 0), is_claimed=0)
    chosen = [case for case in CASES if any(part in case[0] for part in options.only.split(","))]
    rows = [row for case in chosen if (row := measure(case, variants, options))]
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.3f} of PyTorch, least {min(ratios):.3f}")
