#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/moe_vs_torch.py — moe_dispatch_gemm on one GPU beside torch._grouped_mm and a dense GEMM of the same FLOPs.
#
# Launches take turns; a line has medians.  torch._grouped_mm gets rows that lie there grouped; "gather" is the time of
# torch.index_select, which brings them there.  Ours routes and gathers inside its launch; "alone" is our grouped GEMM
# without that, of rows that lie there as well, for weights as [N,K].
#
# usage: moe_vs_torch.py LIBRARY [--json FILE] [--rounds N] [--compute SMS] [--only NAME]
import argparse
import ctypes
import json
import statistics
import sys

import torch

TOPK = 8
# name, experts, hidden, n, rows, routing
CASES = [(f"{e}x{k}x{n}_{rows}_{routing}_{order}", e, k, n, rows, routing, order)
         for e, k, n, rows in ((32, 7168, 4096, 2048), (32, 7168, 4096, 8192), (32, 7168, 4096, 32768),
                               (64, 2048, 2816, 8192))
         for routing in ("even", "zipf") for order in ("NK", "KN")]


def ids_of(experts, rows, routing):
    """[tokens, TOPK]: every expert equally often, or as 1/rank."""
    tokens = rows // TOPK
    if routing == "even":
        return (torch.arange(rows, device="cuda", dtype=torch.int32) % experts).reshape(tokens, TOPK).contiguous()
    weights = 1.0 / torch.arange(1, experts + 1, device="cuda")
    generator = torch.Generator(device="cuda").manual_seed(1)
    return torch.multinomial(weights.expand(tokens, experts), TOPK, generator=generator).to(torch.int32).contiguous()


class Ours:
    def __init__(self, library, case, compute):
        self.library = library
        name, experts, hidden, n, rows, _, order = case
        self.handle = library.mk_moe_open(*map(ctypes.c_int64, (hidden, n)), experts, TOPK,
                                          *map(ctypes.c_int64, (rows // TOPK, rows)), 0, int(order == "NK"), compute)
        if not self.handle:
            sys.exit(f"{name}: {library.mk_moe_error().decode()}")
        self.handle = ctypes.c_void_p(self.handle)

    def check(self, failed):
        if failed:
            sys.exit(self.library.mk_moe_error().decode())

    def call(self, function, x, ids, w, y):
        stream = torch.cuda.current_stream().cuda_stream
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (ids, w, y)]
        self.check(function(self.handle, ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.shape[0]), *pointers,
                            ctypes.c_void_p(stream)))

    def launch(self, *tensors):
        self.call(self.library.mk_moe_launch, *tensors)

    def alone(self, *tensors):
        self.call(self.library.mk_moe_alone, *tensors)

    def synchronize(self):
        self.check(self.library.mk_moe_synchronize(self.handle))

    def close(self):
        self.library.mk_moe_close(self.handle)


def times(calls, rounds):
    """Median microseconds of each call on the GPU, in turns, queued behind a pause: without the host's time."""
    pause_cycles = 2_000_000
    taken = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(pause_cycles)
            begin.record()
            call()
            end.record()
            end.synchronize()
            if turn >= 3:
                taken[name].append(begin.elapsed_time(end) * 1000)
    return {name: statistics.median(of) for name, of in taken.items()}


def measure(library, case, options):
    name, experts, hidden, n, rows, routing, order = case
    generator = torch.Generator(device="cuda").manual_seed(2)
    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=generator)
    x = random(rows // TOPK, hidden)
    w = random(experts, n, hidden) if order == "NK" else random(experts, hidden, n)
    right = w.transpose(-2, -1) if order == "NK" else w
    ids = ids_of(experts, rows, routing)
    y = torch.full((rows, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    flat = ids.flatten().long()
    sources = torch.argsort(flat, stable=True) // TOPK
    ends = torch.cumsum(torch.bincount(flat, minlength=experts), 0).to(torch.int32)
    gathered = x[sources].contiguous()
    dense = random(hidden, n)
    ours = Ours(library, case, options.compute)
    torch.cuda.synchronize()
    expected = torch._grouped_mm(gathered, right, offs=ends)
    calls = {"ours": lambda: ours.launch(x, ids, w, y)}
    if order == "NK":
        calls["alone"] = lambda: ours.alone(x, ids, w, y)
    for call in calls.values():
        y.fill_(float("nan"))
        call()
        torch.cuda.synchronize()
        if not torch.allclose(y, expected, rtol=2e-2, atol=2e-2 * hidden**0.5):
            sys.exit(f"{name}: wrong in {(~torch.isclose(y, expected, rtol=2e-2, atol=1)).sum().item()} elements")
    calls |= {"torch": lambda: torch._grouped_mm(gathered, right, offs=ends),
              "gather": lambda: torch.index_select(x, 0, sources),
              "dense": lambda: torch.mm(gathered, dense),
              "read": lambda: w.view(torch.float32).sum()}  # the weights, once
    took = times(calls, options.rounds)
    ours.synchronize()
    ours.close()
    flops = 2 * rows * hidden * n
    row = {"bench": "moe_vs_torch", "case": name, "tflops": {k: round(flops / v / 1e6, 1) for k, v in took.items()
                                                             if k not in ("gather", "read")},
           "us": {k: round(v, 1) for k, v in took.items()}, "ratio": round(took["torch"] / took["ours"], 3),
           "ratio_with_gather": round((took["torch"] + took["gather"]) / took["ours"], 3),
           "weights_us_at_4.8TB/s": round(experts * hidden * n * 2 / 4.8e6, 1)}
    if "alone" in took:
        row["alone"] = {"ratio": round(took["torch"] / took["alone"], 3),
                        "of_dense": round(took["dense"] / took["alone"], 3)}
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="moe_dispatch_gemm beside torch._grouped_mm, on one GPU")
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--compute", type=int, default=0, help="SMs; 0: the operator chooses")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    library.mk_moe_open.restype = ctypes.c_void_p
    library.mk_moe_error.restype = ctypes.c_char_p
    with torch.cuda.stream(torch.cuda.Stream()):
        rows = [measure(library, case, options) for case in CASES if options.only in case[0]]
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    for name, ratios in (("with dispatch", [row["ratio"] for row in rows]),
                         ("alone", [row["alone"]["ratio"] for row in rows if "alone" in row])):
        if ratios:
            print(f"{name}: geometric mean {statistics.geometric_mean(ratios):.3f} of torch._grouped_mm, least "
                  f"{min(ratios):.3f}")
