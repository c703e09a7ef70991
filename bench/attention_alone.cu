// SPDX-License-Identifier: MIT
// bench/attention_alone.cu — attention on one GPU as C functions, for attention_vs_torch.py.
#include <exception>
#include <string>

#include "bench/attention_kernel.cuh"
#include "bench/attention_launch.h"
#include "target/sm90/with_config.cuh"

// As attention_vs_torch.py has it.
struct AttentionCall {
  int64_t batches;
  int64_t rows;
  int64_t heads;
  int64_t kv_heads;
  int64_t dim;
  int64_t tile_n;   // 0: the first configuration that has the dimension
  int64_t variant;  // how many of those to pass over
  int64_t is_causal;
  int64_t window;  // keys to the left, or -1
  int64_t is_claimed;
  int64_t heads_at_once;  // 0: as many as the L2 holds
  int64_t blocks;
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  uint64_t* claimed;
  void* stream;
};

namespace {

using mk::sm90::AttentionConfig;
using mk::sm90::AttentionMask;

using Configs = std::tuple<AttentionConfig<128, 160>, AttentionConfig<128, 128>, AttentionConfig<64, 192>,
                           AttentionConfig<256, 64>>;

thread_local std::string last_error;

template <class Config>
void launch(const AttentionCall& call) {
  using Element = __nv_bfloat16;
  constexpr mk::DType kType = mk::DType::kBf16;
  const mk::bench::RowsOfHeads queries{call.batches, call.rows, call.heads, call.dim};
  const mk::bench::RowsOfHeads keys{call.batches, call.rows, call.kv_heads, call.dim};
  mk::bench::AttentionParams<Element> params{};
  params.q = queries.map(call.q, kType, Config::kTileM);
  params.parts[0].k = keys.map(call.k, kType, Config::kTileN);
  params.parts[0].v = keys.map(call.v, kType, Config::kTileN);
  params.parts[0].keys = static_cast<int>(call.rows);
  params.output = {static_cast<Element*>(call.o), queries.of_batch(), queries.of_row(), queries.of_head(), call.lse,
                   call.heads * call.rows,        call.rows};
  if (call.is_causal != 0) params.mask.right = 0;
  if (call.window >= 0) params.mask.left = static_cast<int>(call.window);
  params.claimed = call.is_claimed != 0 ? call.claimed : nullptr;
  params.batches = static_cast<int>(call.batches);
  params.heads = static_cast<int>(call.heads);
  params.group = static_cast<int>(call.heads / call.kv_heads);
  params.heads_at_once =
      call.heads_at_once > 0 ? static_cast<int>(call.heads_at_once) : mk::bench::heads_at_once(keys, call.heads);
  params.queries = static_cast<int>(call.rows);
  params.softmax_scale = 1.0f / sqrtf(static_cast<float>(call.dim));
  constexpr size_t kSharedBytes = mk::sm90::kSharedFor<mk::sm90::AttentionShared<Config, Element>>;
  static_assert(kSharedBytes <= mk::sm90::kSharedLimit);
  const auto kernel = mk::bench::attention_kernel<Config, Element>;
  mk::load_kernel(reinterpret_cast<const void*>(kernel), kSharedBytes);
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (params.claimed != nullptr) {
    mk::check_cuda(cudaMemsetAsync(params.claimed, 0, sizeof(uint64_t), stream), "clear a counter");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(call.blocks);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  mk::check_cuda(cudaLaunchKernelEx(&config, kernel, params), "launch attention");
}

}  // namespace

extern "C" {

const char* mk_attention_error() { return last_error.c_str(); }

// Not 0: see mk_attention_error.
int mk_attention(const AttentionCall* call) {
  try {
    bool is_done = false;
    int64_t passed_over = 0;
    mk::sm90::for_each_config<Configs>([&]<class Config>() {
      if (is_done || Config::kHeadDim != call->dim || (call->tile_n != 0 && Config::kTileN != call->tile_n)) return;
      if (passed_over++ < call->variant) return;
      launch<Config>(*call);
      is_done = true;
    });
    last_error = is_done ? "" : "there is no such configuration";
    return is_done ? 0 : 1;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // extern "C"
