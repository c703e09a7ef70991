#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/moe_backward_vs_torch.py — moe_layer_backward on one GPU beside the gradients of a PyTorch layer.
#
# PyTorch's autograd goes back through the layer of moe_layer_vs_torch.py; its forward pass is not timed, ours is timed
# apart, with gate and up kept.  Launches take turns; a line has medians.
#
# usage: moe_backward_vs_torch.py LIBRARY [--json FILE] [--rounds N] [--compute SMS] [--only NAME]
import ctypes
import json
import sys

import torch

from moe_layer_vs_torch import command_line, name_of, routes, torch_layer
from moe_vs_torch import times

# tokens, hidden, inter, experts, topk
CASES = [(32768, 4096, 1024, 128, 8), (32768, 4096, 512, 256, 16), (32768, 4096, 2048, 64, 4),
         (4096, 4096, 1024, 128, 8), (8192, 7168, 2048, 32, 8)]


def measure(library, case, options):
    tokens, hidden, inter, experts, topk = case
    name = name_of(case)
    generator = torch.Generator(device="cuda").manual_seed(2)

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=generator)

    def empty(*shape, dtype=torch.bfloat16):
        return torch.full(shape, float("nan"), device="cuda", dtype=dtype)
    x = random(tokens, hidden)
    w13 = random(experts, 2 * inter, hidden) / hidden**0.5
    w2 = random(experts, hidden, inter) / inter**0.5
    ids, weights = routes(tokens, experts, topk)
    dout = random(tokens, hidden)
    out, kept = empty(tokens, hidden), empty(tokens * topk, 2 * inter)
    seen = {"dx": empty(*x.shape), "dtopk_weight": empty(tokens, topk, dtype=torch.float32), "dw13": empty(*w13.shape),
            "dw2": empty(*w2.shape)}
    handle = library.mk_moe_open(*map(ctypes.c_int64, (hidden, inter)), experts, topk,
                                 *map(ctypes.c_int64, (tokens, tokens * topk)), 0, 1, options.compute)

    def check(failed):
        if failed:
            sys.exit(f"{name}: {library.mk_moe_error().decode()}")
    check(not handle)
    handle = ctypes.c_void_p(handle)

    def launcher(function, *tensors):
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(function(handle, ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(tokens), *pointers, stream))
        return launch
    forward = launcher(library.mk_moe_layer_launch, ids, weights, w13, w2, out, kept)
    ours = launcher(library.mk_moe_backward_launch, ids, weights, w13, w2, kept, dout, *seen.values())
    torch.cuda.synchronize()
    forward()
    ours()
    check(library.mk_moe_synchronize(handle))
    leaves = [t.detach().requires_grad_() for t in (x, weights, w13, w2)]
    with torch.enable_grad():
        result = torch_layer(leaves[0], ids, leaves[1], leaves[2], leaves[3])

    def torch_backward():
        return torch.autograd.grad(result, leaves, dout, retain_graph=True)
    errors = {}
    for (key, value), right in zip(seen.items(), torch_backward()):
        errors[key] = ((value.float() - right.float()).norm() / right.float().norm()).item()
        if not errors[key] < 2e-2:
            sys.exit(f"{name}: {key} is wrong, relative error {errors[key]}")
    took = times({"ours": ours, "torch": torch_backward, "forward": forward}, options.rounds)
    check(library.mk_moe_synchronize(handle))
    library.mk_moe_close(handle)
    flops = 12 * tokens * topk * hidden * inter
    row = {"bench": "moe_backward_vs_torch", "case": name, "errors": errors,
           "tflops": {k: round(flops / (2 if k == "forward" else 1) / v / 1e6, 1) for k, v in took.items()},
           "us": {k: round(v, 1) for k, v in took.items()}, "ratio": round(took["torch"] / took["ours"], 3)}
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    command_line("moe_layer_backward beside the gradients of a PyTorch layer, on one GPU", CASES, measure)
