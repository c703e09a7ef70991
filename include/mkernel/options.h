// SPDX-License-Identifier: MIT
// mkernel/options.h — every setting of a World, with its meaning and default.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "mkernel/export.h"

namespace mk {

// How many workers of a rank play each role of an operator, by the role's name: {{"compute", 120}, {"intra", 8}}.
// Roles that are left out get none; empty means that the operator chooses for the shape.
//
//   operator                roles
//   ag_gemm                 compute, intra (copies to the peers of the node), send (hands rows to the network)
//   gemm_rs                 compute, reduce (sums what the ranks of the node computed)
//   gemm_ar, two shots      compute, reduce, intra (copies finished tiles)
//   gemm_ar, one shot       compute, reduce
//   moe_dispatch_gemm       compute, dispatch (lists tokens by expert, and copies them in the node), send (hands
//                           tokens to the network)
//   moe_layer and           the same; compute also sums what the experts return, send does so for tokens of other
//   moe_layer_backward      nodes
//   ring_attention          compute, intra (gives keys to the peers of the node), send (hands keys to the network),
//                           keep (says where there is room for keys from other nodes)
//   ring_attention_backward  the same; collect (sums gradients of keys, and sends them home)
//
// A worker is a thread on a CPU.  On a GPU one that computes is a block with an SM of its own, and the others are
// warps, eight to an SM.  ag_gemm without `intra`, and moe_* without `dispatch`, have a warp for it in each block that
// computes, which costs no SM.
using Split = std::map<std::string, int>;

// The tile of C that a worker computes at once, and how many neighbours below each other share what they
// load.  All zero: chosen for the shape.
struct TileSize {
  int m = 0;
  int n = 0;
  int cluster = 0;
};

struct Options {
  // Longest time any single wait may take before the launch fails, in milliseconds.
  int64_t timeout_ms = 30'000;

  // Commands the ring between a rank's workers and its proxy holds; a power of two.
  int ring_capacity = 1024;

  // Record an event per tile and copy (CPU worlds only; read by the library's own tests so far).
  bool trace = false;

  // NICs that serve the node's GPUs: "mlx5_0,mlx5_1" to choose among these, "0=mlx5_0;1=mlx5_3" GPU by GPU.
  // Empty: chosen by distance and speed.  Read by `mkernel topo` and by the fabrics verbs and efa.  If a node's GPUs
  // are not known, or there is one NIC, these fabrics take the first active NIC.  All ranks use the same number.
  std::string nics{};

  // Messages under way on each queue pair of the fabrics verbs and efa, 1 to 8192, and at most half of what a queue of
  // the NIC holds.  0: 128, or less if a NIC's queues hold less.
  int queue_depth = 0;

  // Whether a proxy is pinned to cores near the NIC that serves its rank, if the fabric has NICs and these are known.
  bool pin_proxies = true;

  // What carries puts between nodes: auto, loopback, shm, tcp, verbs or efa, as far as they are in this build.  Auto: a
  // loopback if all ranks are in this process, else the first of efa, verbs and tcp that all ranks have.
  std::string net = "auto";

  // Whether NICs read and write windows in a GPU's memory directly: auto, on or off.  Auto: directly if the NICs of all
  // ranks can, else through host memory.  On: a rank whose NICs cannot is an Error.  Off: through host memory.  Ignored
  // by CPU worlds, single-node worlds and worlds inside one process.
  std::string gpu_direct = "auto";

  // `base` with what the environment says on top: MKERNEL_TIMEOUT (milliseconds), MKERNEL_RING_CAPACITY,
  // MKERNEL_NICS, MKERNEL_QUEUE_DEPTH, MKERNEL_NET, MKERNEL_GPU_DIRECT and MKERNEL_PIN_PROXIES (0 or 1).  A value that
  // is not the number it should be is an Error that names the variable.
  MK_API static Options from_env(Options base);
  MK_API static Options from_env();
};

}  // namespace mk
