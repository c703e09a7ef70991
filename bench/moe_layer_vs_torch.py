#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/moe_layer_vs_torch.py — moe_layer on one GPU beside a layer of torch._grouped_mm calls.
#
# The layer of PyTorch: sort of the pairs by expert, gather, grouped GEMM, SwiGLU, grouped GEMM, weights, sum of each
# token's results.  Launches take turns; a line has medians.
#
# usage: moe_layer_vs_torch.py LIBRARY [--json FILE] [--rounds N] [--compute SMS] [--only NAME]
import argparse
import ctypes
import json
import statistics
import sys

import torch

from moe_vs_torch import times

# tokens, hidden, inter, experts, topk
CASES = [(32768, 4096, 1024, 128, 8), (32768, 4096, 512, 256, 16), (32768, 4096, 2048, 64, 4),
         (4096, 4096, 1024, 128, 8), (8192, 7168, 2048, 32, 8)]


def routes(tokens, experts, topk):
    generator = torch.Generator(device="cuda").manual_seed(1)
    scores = torch.rand(tokens, experts, device="cuda", generator=generator)
    weights, ids = torch.topk(scores, topk, dim=1)
    return ids.to(torch.int32).contiguous(), weights.float().contiguous()


def torch_layer(x, ids, weights, w13, w2):
    tokens, topk = ids.shape
    flat = ids.flatten()
    order = torch.argsort(flat, stable=True)
    ends = torch.cumsum(torch.bincount(flat, minlength=w13.shape[0]), 0).to(torch.int32)
    h = torch._grouped_mm(x[order // topk], w13.transpose(-2, -1), offs=ends)
    gate, up = h.chunk(2, dim=-1)
    y = torch._grouped_mm(torch.nn.functional.silu(gate) * up, w2.transpose(-2, -1), offs=ends)
    y = y * weights.flatten()[order].to(y.dtype).unsqueeze(1)
    back = torch.empty_like(y)
    back[order] = y
    return back.view(tokens, topk, -1).sum(dim=1)


def name_of(case):
    return "T{} H{} I{} E{} k{}".format(*case)


def measure(library, case, options):
    tokens, hidden, inter, experts, topk = case
    name = name_of(case)
    generator = torch.Generator(device="cuda").manual_seed(2)

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=generator)
    x = random(tokens, hidden)
    w13 = random(experts, 2 * inter, hidden) / hidden**0.5
    w2 = random(experts, hidden, inter) / inter**0.5
    ids, weights = routes(tokens, experts, topk)
    out = torch.full((tokens, hidden), float("nan"), device="cuda", dtype=torch.bfloat16)
    handle = library.mk_moe_open(*map(ctypes.c_int64, (hidden, inter)), experts, topk,
                                 *map(ctypes.c_int64, (tokens, tokens * topk)), 0, 1, options.compute)

    def check(failed):
        if failed:
            sys.exit(f"{name}: {library.mk_moe_error().decode()}")
    check(not handle)
    handle = ctypes.c_void_p(handle)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (ids, weights, w13, w2, out)] + [None]  # nothing is kept

    def ours():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(library.mk_moe_layer_launch(handle, ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(tokens), *pointers,
                                          stream))
    torch.cuda.synchronize()
    ours()
    check(library.mk_moe_synchronize(handle))
    expected = torch_layer(x, ids, weights, w13, w2)
    error = ((out.float() - expected.float()).norm() / expected.float().norm()).item()
    if not error < 2e-2:
        sys.exit(f"{name}: wrong, relative error {error}")
    took = times({"ours": ours, "torch": lambda: torch_layer(x, ids, weights, w13, w2)}, options.rounds)
    check(library.mk_moe_synchronize(handle))
    library.mk_moe_close(handle)
    flops = 6 * tokens * topk * hidden * inter
    row = {"bench": "moe_layer_vs_torch", "case": name, "error": error,
           "tflops": {k: round(flops / v / 1e6, 1) for k, v in took.items()},
           "us": {k: round(v, 1) for k, v in took.items()}, "ratio": round(took["torch"] / took["ours"], 3)}
    print(json.dumps(row), flush=True)
    return row


def command_line(description, cases, measure):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--compute", type=int, default=0, help="SMs; 0: the operator chooses")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    library.mk_moe_open.restype = ctypes.c_void_p
    library.mk_moe_error.restype = ctypes.c_char_p
    with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
        rows = [measure(library, case, options) for case in cases if options.only in name_of(case)]
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    command_line("moe_layer beside a layer of PyTorch, on one GPU", CASES, measure)
