#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/attention_backward_vs_torch.py — gradients of attention on one GPU, ours beside PyTorch's: the operator
# ring_attention_backward in a world of one rank, and with --engine the engine alone.
#
# PyTorch's are those of its cuDNN backend, called as autograd calls them; with --flash also those of its flash backend.
# Launches take turns; a line has medians.  Before it is timed, every result is compared with fp64, and two runs must
# have the same bits.
#
# usage: attention_backward_vs_torch.py LIBRARY [--json FILE] [--rounds N] [--only NAMES] [--engine] [--flash]
#                                       [--no-operator]
import argparse
import ctypes
import json
import statistics

import torch
from torch.nn.attention import SDPBackend

from attention_vs_torch import SHAPES, WINDOW, Ours, times, torch_attention

CASES = [(f"{name}_{kind}", shape, kind) for name, shape in SHAPES.items() for kind in ("full", "causal")]
CASES += [("d128_16k_window1024", SHAPES["d128_16k"], "window"), ("d128_1000x2_causal", (2, 1000, 4, 2, 128), "causal"),
          ("d64_777x3_full", (3, 777, 6, 2, 64), "full")]


class Call(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in
                ("batches", "rows", "heads", "kv_heads", "dim", "is_causal", "window", "heads_at_once", "blocks")] + [
                (name, ctypes.c_void_p) for name in
                ("q", "k", "v", "o", "dout", "lse", "dq", "dk", "dv", "workspace", "stream")]


class Engine:
    def __init__(self, library, heads_at_once=0):
        self.library = library
        self.heads_at_once = heads_at_once
        self.workspace = None
        library.mk_attention_backward_bytes.restype = ctypes.c_int64
        library.mk_attention_backward_error.restype = ctypes.c_char_p
        self.blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def __call__(self, data, kind):
        q, k, v, o, dout, lse, dq, dk, dv = data
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (q, k, v, o, dout, lse, dq, dk, dv)]
        call = Call(*q.shape[:3], k.shape[2], q.shape[3], int(kind != "full"), WINDOW if kind == "window" else -1,
                    self.heads_at_once, self.blocks, *pointers, None,
                    ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        needed = self.library.mk_attention_backward_bytes(ctypes.byref(call))
        if self.workspace is None or self.workspace.numel() < needed:
            self.workspace = torch.full((needed,), 255, device="cuda", dtype=torch.uint8)
        call.workspace = self.workspace.data_ptr()
        if self.library.mk_attention_backward(ctypes.byref(call)):
            raise ValueError(self.library.mk_attention_backward_error().decode())


class Operator:
    def __init__(self, library):
        self.library = library
        library.mk_ring_attention_error.restype = ctypes.c_char_p

    def __call__(self, data, kind):
        q, k = data[:2]
        sizes = (*q.shape[:3], k.shape[2], q.shape[3])
        if self.library.mk_ring_attention_backward(
                *(ctypes.c_int64(size) for size in sizes), ctypes.c_int(kind != "full"),
                ctypes.c_int64(WINDOW + 1 if kind == "window" else 0),
                *(ctypes.c_void_p(t.data_ptr()) for t in data),
                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)):
            raise ValueError(self.library.mk_ring_attention_error().decode())


def exact(q, k, v, o, dout, lse, kind):
    """fp64 gradients, head by head."""
    batches, rows, heads, dim = q.shape
    group = heads // k.shape[2]
    scale = dim ** -0.5
    at = torch.arange(rows, device="cuda")
    dq = torch.zeros(q.shape, device="cuda", dtype=torch.float64)
    dk = torch.zeros(k.shape, device="cuda", dtype=torch.float64)
    dv = torch.zeros(v.shape, device="cuda", dtype=torch.float64)
    for batch in range(batches):
        for head in range(heads):
            keys, values = k[batch, :, head // group].double(), v[batch, :, head // group].double()
            for first in range(0, rows, 2048):
                part = slice(first, min(rows, first + 2048))
                queries, gradients = q[batch, part, head].double(), dout[batch, part, head].double()
                delta = (o[batch, part, head].double() * gradients).sum(-1, keepdim=True)
                scores = queries @ keys.T * scale
                if kind != "full":
                    scores.masked_fill_(at > at[part, None], float("-inf"))
                if kind == "window":
                    scores.masked_fill_(at < at[part, None] - WINDOW, float("-inf"))
                weights = torch.exp(scores - lse[batch, head, part, None].double())
                ds = weights * (gradients @ values.T - delta) * scale
                dq[batch, part, head] = ds @ keys
                dk[batch, :, head // group] += ds.T @ queries
                dv[batch, :, head // group] += weights.T @ gradients
    return dq, dk, dv


def check(name, run, data, kind):
    """Whether it is right beside fp64, everywhere, and has the same bits twice."""
    outputs = data[6:]
    for output in outputs:
        output.fill_(float("nan"))
    run(data, kind)
    torch.cuda.synchronize()
    first = [output.clone() for output in outputs]
    run(data, kind)
    torch.cuda.synchronize()
    said = []
    for label, output, before, want in zip(("dq", "dk", "dv"), outputs, first, exact(*data[:6], kind)):
        off = ((before.double() - want).norm() / want.norm()).item()
        if not off < 8e-3:
            said.append(f"{label} is off by {off:.2e} of its norm, {torch.isnan(before).sum().item()} NaNs")
        if not torch.equal(output.view(torch.int16), before.view(torch.int16)):
            said.append(f"{label} has other bits in the second run")
    if said:
        print(f"WRONG {name}: {'; '.join(said)}", flush=True)
    return not said


def torch_gradients(backend, q, k, v, dout, kind):
    """A call of the backend's backward pass alone."""
    tensors = [t.detach().requires_grad_() for t in (q, k, v)]
    out = torch_attention(backend, *tensors, kind)
    gradients = dout.transpose(1, 2)
    return lambda: torch.autograd.grad(out, tensors, gradients, retain_graph=True)


def measure(case, variants, options):
    name, (batches, rows, heads, kv_heads, dim), kind = case
    generator = torch.Generator(device="cuda").manual_seed(3)

    def random(of_heads):
        return torch.randn(batches, rows, of_heads, dim, device="cuda", dtype=torch.bfloat16, generator=generator)
    sets = []
    for _ in range(2):
        q, k, v, dout = random(heads), random(kv_heads), random(kv_heads), random(heads)
        o, lse = torch.empty_like(q), torch.empty(batches, heads, rows, device="cuda")
        options.forward(q, k, v, o, lse, kind)
        sets.append((q, k, v, o, dout, lse, torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)))
    torch.cuda.synchronize()
    calls = {}
    for label, run in variants.items():
        try:
            if check(f"{name} {label}", run, sets[0], kind):
                calls[label] = lambda turn, run=run: run(sets[turn % 2], kind)
        except ValueError as error:
            print(f"{name} {label}: {error}", flush=True)
    if kind != "window" and rows % 128 == 0:
        backends = {"cudnn": SDPBackend.CUDNN_ATTENTION}
        if options.flash:
            backends["flash"] = SDPBackend.FLASH_ATTENTION
        for label, backend in backends.items():
            gradients = [torch_gradients(backend, *data[:3], data[4], kind) for data in sets]
            calls[label] = lambda turn, gradients=gradients: gradients[turn % 2]()
    if not calls:
        return None
    took = times(calls, options.rounds)
    seen = {"full": rows, "causal": rows / 2, "window": WINDOW}[kind]
    flops = 10 * batches * heads * rows * seen * dim
    best = {label: us for label, us in took.items() if label in variants}
    row = {"bench": "attention_backward_vs_torch", "case": name, "us": {k: round(v, 1) for k, v in took.items()},
           "tflops": {k: round(flops / v / 1e6, 1) for k, v in took.items()}}
    if best and "cudnn" in took:
        row["ratio"] = {label: round(min(took["cudnn"], took.get("flash", took["cudnn"])) / us, 3)
                        for label, us in best.items()}
    print(name, json.dumps(row["tflops"]), row.get("ratio"), flush=True)
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="gradients of attention beside PyTorch's, on one GPU")
    parser.add_argument("library")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="names that contain one of these, separated by commas")
    parser.add_argument("--engine", action="store_true", help="the engine alone as well")
    parser.add_argument("--no-operator", action="store_true")
    parser.add_argument("--flash", action="store_true", help="PyTorch's flash backend as well")
    options = parser.parse_args()
    options.loaded = ctypes.CDLL(options.library)
    options.loaded.mk_attention_error.restype = ctypes.c_char_p
    options.forward = Ours(options.loaded)
    variants = {} if options.no_operator else {"operator": Operator(options.loaded)}
    if options.engine:
        variants["engine"] = Engine(options.loaded)
    chosen = [case for case in CASES if any(part in case[0] for part in options.only.split(","))]
    rows = [row for case in chosen if (row := measure(case, variants, options))]
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    for label in variants:
        ratios = [row["ratio"][label] for row in rows if label in row.get("ratio", {})]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"{label}: geometric mean {mean:.3f} of PyTorch, least {min(ratios):.3f}")
