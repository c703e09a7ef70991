// SPDX-License-Identifier: MIT
// bench/moe_library.cc — moe_dispatch_gemm and moe_layer on one GPU as C functions, for moe_vs_torch.py and
// moe_layer_vs_torch.py.
#include <cstdint>
#include <exception>
#include <string>

#include "bench/moe_alone.h"
#include "mkernel/mkernel.h"

namespace {

struct Bench {
  mk::World world;
  mk::MoeShape shape;
  mk::DType dtype;
  mk::BOrder order;
  mk::Split split;
};

thread_local std::string last_error;

template <class Call>
int said(Call&& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

mk::MoeDispatchGemmArgs dispatch_args(const Bench& bench, void* x, int64_t tokens, void* ids, void* w, void* y,
                                      void* stream) {
  const mk::MoeShape& shape = bench.shape;
  const bool is_nk = bench.order == mk::BOrder::kNK;
  return {.x = {x, bench.dtype, tokens, shape.hidden},
          .topk_idx = {ids, mk::MoeIds::Type::kInt32},
          .w = {w, bench.dtype, shape.experts * (is_nk ? shape.n : shape.hidden), is_nk ? shape.hidden : shape.n},
          .y = {y, bench.dtype, shape.max_rows, shape.n},
          .w_order = bench.order,
          .stream = stream};
}

}  // namespace

extern "C" {

const char* mk_moe_error() { return last_error.c_str(); }

// Null: see mk_moe_error.  compute of 0: the operator chooses.
void* mk_moe_open(int64_t hidden, int64_t n, int experts, int topk, int64_t max_tokens, int64_t max_rows, int is_fp16,
                  int is_nk, int compute) {
  Bench* bench = nullptr;
  said([&] {
    bench = new Bench{
        mk::World::local(1, 1, mk::DeviceKind::kCuda, {.timeout_ms = 10'000}),
        {.hidden = hidden, .n = n, .experts = experts, .topk = topk, .max_tokens = max_tokens, .max_rows = max_rows},
        is_fp16 != 0 ? mk::DType::kFp16 : mk::DType::kBf16,
        is_nk != 0 ? mk::BOrder::kNK : mk::BOrder::kKN,
        {}};
    if (compute > 0) bench->split["compute"] = compute;
  });
  return bench;
}

int mk_moe_launch(void* handle, void* x, int64_t tokens, void* ids, void* w, void* y, void* stream) {
  auto& bench = *static_cast<Bench*>(handle);
  return said([&] {
    const mk::MoeDispatchGemmArgs args = dispatch_args(bench, x, tokens, ids, w, y, stream);
    mk::moe_dispatch_gemm(bench.world, bench.shape, {&args, 1}, {.split = bench.split});
  });
}

// The grouped GEMM alone, of the rows that the last mk_moe_launch brought; w as [N,K], bf16.
int mk_moe_alone(void* handle, void* x, int64_t tokens, void* ids, void* w, void* y, void* stream) {
  auto& bench = *static_cast<Bench*>(handle);
  return said([&] {
    mk::bench::launch_alone(bench.world.state(), bench.shape, bench.split,
                            dispatch_args(bench, x, tokens, ids, w, y, stream));
  });
}

// The same World for a layer: n is its inter.
int mk_moe_layer_launch(void* handle, void* x, int64_t tokens, void* ids, void* weights, void* w13, void* w2, void* out,
                        void* kept, void* stream) {
  auto& bench = *static_cast<Bench*>(handle);
  return said([&] {
    const mk::MoeShape& of = bench.shape;
    const mk::MoeLayerShape shape{of.hidden, of.n, of.experts, of.topk, of.max_tokens, of.max_rows};
    const mk::MoeLayerArgs args{.x = {x, bench.dtype, tokens, shape.hidden},
                                .topk_idx = {ids, mk::MoeIds::Type::kInt32},
                                .topk_weight = static_cast<const float*>(weights),
                                .w13 = {w13, bench.dtype, shape.experts * 2 * shape.inter, shape.hidden},
                                .w2 = {w2, bench.dtype, shape.experts * shape.hidden, shape.inter},
                                .out = {out, bench.dtype, tokens, shape.hidden},
                                .kept = {kept, bench.dtype, shape.max_rows, 2 * shape.inter},
                                .stream = stream};
    mk::moe_layer(bench.world, shape, {&args, 1}, {.split = bench.split});
  });
}

int mk_moe_backward_launch(void* handle, void* x, int64_t tokens, void* ids, void* weights, void* w13, void* w2,
                           void* kept, void* dout, void* dx, void* dweights, void* dw13, void* dw2, void* stream) {
  auto& bench = *static_cast<Bench*>(handle);
  return said([&] {
    const mk::MoeShape& of = bench.shape;
    const mk::MoeLayerShape shape{of.hidden, of.n, of.experts, of.topk, of.max_tokens, of.max_rows};
    const auto tensor = [&](void* data, int64_t rows, int64_t cols) {
      return mk::Tensor{data, bench.dtype, rows, cols};
    };
    const mk::MoeLayerBackwardArgs args{.x = tensor(x, tokens, shape.hidden),
                                        .topk_idx = {ids, mk::MoeIds::Type::kInt32},
                                        .topk_weight = static_cast<const float*>(weights),
                                        .w13 = tensor(w13, shape.experts * 2 * shape.inter, shape.hidden),
                                        .w2 = tensor(w2, shape.experts * shape.hidden, shape.inter),
                                        .kept = tensor(kept, shape.max_rows, 2 * shape.inter),
                                        .dout = tensor(dout, tokens, shape.hidden),
                                        .dx = tensor(dx, tokens, shape.hidden),
                                        .dtopk_weight = static_cast<float*>(dweights),
                                        .dw13 = tensor(dw13, shape.experts * 2 * shape.inter, shape.hidden),
                                        .dw2 = tensor(dw2, shape.experts * shape.hidden, shape.inter),
                                        .stream = stream};
    mk::moe_layer_backward(bench.world, shape, {&args, 1}, {.split = bench.split});
  });
}

int mk_moe_synchronize(void* handle) {
  return said([&] { static_cast<Bench*>(handle)->world.synchronize(); });
}

void mk_moe_close(void* handle) { delete static_cast<Bench*>(handle); }

}  // extern "C"
