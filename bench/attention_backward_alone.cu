// SPDX-License-Identifier: MIT
// bench/attention_backward_alone.cu — gradients of attention on one GPU as C functions, for
// attention_backward_vs_torch.py.
#include <algorithm>
#include <cmath>
#include <exception>
#include <string>

#include "bench/attention_backward_kernel.cuh"
#include "bench/attention_launch.h"

// As attention_backward_vs_torch.py has it.
struct AttentionBackwardCall {
  int64_t batches;
  int64_t rows;
  int64_t heads;
  int64_t kv_heads;
  int64_t dim;
  int64_t is_causal;
  int64_t window;         // keys to the left, or -1
  int64_t heads_at_once;  // of keys; 0: as many as the L2 holds
  int64_t blocks;
  const void* q;
  const void* k;
  const void* v;
  const void* o;
  const void* dout;
  const float* lse;
  void* dq;
  void* dk;
  void* dv;
  void* workspace;
  void* stream;
};

namespace {

using mk::sm90::AttentionBackwardConfig;
using Element = __nv_bfloat16;

thread_local std::string last_error;

// Where the parts of a workspace begin.
struct Workspace {
  int64_t notes = 0;
  int64_t sums = 0;
  int64_t turns = 0;
  int64_t counters = 0;
  int64_t end = 0;
};

template <class Config>
Workspace workspace_of(int64_t blocks) {
  Workspace at;
  at.sums = mk::round_up<int64_t>(blocks * sizeof(mk::sm90::RowNotes<Config>), 1024);
  at.turns = at.sums + blocks * Config::kBlockFloats * static_cast<int64_t>(sizeof(float));
  at.counters = at.turns + blocks * static_cast<int64_t>(sizeof(uint64_t));
  at.end = at.counters + static_cast<int64_t>(sizeof(mk::bench::BackwardCounters));
  return at;
}

// Calls body<Config>() for a head dimension.  False: it has none.
template <class Body>
bool with_config(int64_t dim, const Body& body) {
  switch (dim) {
    case 64: body.template operator()<AttentionBackwardConfig<64>>(); return true;
    case 128: body.template operator()<AttentionBackwardConfig<128>>(); return true;
    case 256: body.template operator()<AttentionBackwardConfig<256>>(); return true;
  }
  return false;
}

template <class Config>
int64_t blocks_of(const AttentionBackwardCall& call) {
  return call.batches * call.heads * mk::ceil_div<int64_t>(call.rows, Config::kQueries);
}

template <class Config>
void launch(const AttentionBackwardCall& call) {
  constexpr mk::DType kType = mk::DType::kBf16;
  const mk::bench::RowsOfHeads queries{call.batches, call.rows, call.heads, call.dim};
  const mk::bench::RowsOfHeads keys{call.batches, call.rows, call.kv_heads, call.dim};
  const Workspace at = workspace_of<Config>(blocks_of<Config>(call));
  auto* const workspace = static_cast<std::byte*>(call.workspace);
  mk::bench::AttentionBackwardParams<Config, Element> params{};
  params.q = queries.map(call.q, kType, Config::kQueries);
  params.g = queries.map(call.dout, kType, Config::kQueries);
  params.k = keys.map(call.k, kType, Config::kKeys);
  params.v = keys.map(call.v, kType, Config::kKeys);
  params.o = static_cast<const Element*>(call.o);
  params.do_rows = static_cast<const Element*>(call.dout);
  params.lse = call.lse;
  params.dq = static_cast<Element*>(call.dq);
  params.gradients.dk = {static_cast<Element*>(call.dk), keys.of_batch(), keys.of_row(), keys.of_head()};
  params.gradients.dv = {static_cast<Element*>(call.dv), keys.of_batch(), keys.of_row(), keys.of_head()};
  params.notes = reinterpret_cast<mk::sm90::RowNotes<Config>*>(workspace + at.notes);
  params.sums = reinterpret_cast<float*>(workspace + at.sums);
  params.turns = reinterpret_cast<uint64_t*>(workspace + at.turns);
  params.counters = reinterpret_cast<mk::bench::BackwardCounters*>(workspace + at.counters);
  if (call.is_causal != 0) params.mask.right = 0;
  if (call.window >= 0) params.mask.left = static_cast<int>(call.window);
  params.batches = static_cast<int>(call.batches);
  params.heads = static_cast<int>(call.heads);
  params.kv_heads = static_cast<int>(call.kv_heads);
  params.heads_at_once =
      call.heads_at_once > 0 ? static_cast<int>(call.heads_at_once) : mk::bench::heads_at_once(queries, call.heads);
  if (call.heads_at_once == 0 && call.is_causal != 0) {  // as the operator
    const int least = 8 * params.kv_heads / params.heads;
    params.heads_at_once = std::min(std::max(params.heads_at_once, least), params.batches * params.kv_heads);
  }
  while (params.batches * params.kv_heads % params.heads_at_once != 0) --params.heads_at_once;
  params.queries = params.keys = static_cast<int>(call.rows);
  params.softmax_scale = 1.0f / std::sqrt(static_cast<float>(call.dim));
  params.score_scale = params.softmax_scale * mk::sm90::kLog2E;
  constexpr size_t kSharedBytes = mk::sm90::kSharedFor<mk::sm90::AttentionBackwardShared<Config, Element>>;
  static_assert(kSharedBytes <= mk::sm90::kSharedLimit);
  const auto kernel = mk::bench::attention_backward_kernel<Config, Element>;
  mk::load_kernel(reinterpret_cast<const void*>(kernel), kSharedBytes);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  mk::check_cuda(cudaMemsetAsync(workspace + at.turns, 0, at.end - at.turns, stream), "clear counters");
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(call.blocks);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  mk::check_cuda(cudaLaunchKernelEx(&config, kernel, params), "launch attention's gradients");
}

}  // namespace

extern "C" {

const char* mk_attention_backward_error() { return last_error.c_str(); }

int64_t mk_attention_backward_bytes(const AttentionBackwardCall* call) {
  int64_t bytes = 0;
  with_config(call->dim, [&]<class Config>() { bytes = workspace_of<Config>(blocks_of<Config>(*call)).end; });
  return bytes;
}

// Not 0: see mk_attention_backward_error.
int mk_attention_backward(const AttentionBackwardCall* call) {
  try {
    if (with_config(call->dim, [&]<class Config>() { launch<Config>(*call); })) return 0;
    last_error = "there is no such configuration";
    return 1;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // extern "C"
