// SPDX-License-Identifier: MIT
// bench/attention_library.cc — ring_attention and its backward pass on one GPU as C functions, for
// attention_vs_torch.py and attention_backward_vs_torch.py.
#include <cstdint>
#include <exception>
#include <string>

#include "mkernel/ring_attention.h"
#include "mkernel/ring_attention_backward.h"

namespace {

thread_local std::string last_error;

// A world of one rank that stays.
mk::World& world() {
  static mk::World one = mk::World::local(1, 1, mk::DeviceKind::kCuda, {.timeout_ms = 10'000});
  return one;
}

mk::RingAttentionOptions options_for(int is_causal, int64_t window) {
  mk::RingAttentionOptions options;
  if (is_causal != 0) options.mask.kind = mk::MaskKind::kCausal;
  if (window > 0) options.mask.window = window;
  return options;
}

// 0, or 1 with the sentence of what was thrown kept.
template <class Call>
int kept(const Call& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // namespace

extern "C" {

const char* mk_ring_attention_error() { return last_error.c_str(); }

// bf16.  window: keys that a query sees, or 0.  Not 0: see mk_ring_attention_error.
int mk_ring_attention(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads, int64_t dim, int is_causal,
                      int64_t window, void* q, void* k, void* v, void* o, float* lse, void* stream) {
  return kept([&] {
    const auto tensor = [&](void* data, int64_t of_heads) {
      return mk::HeadTensor{data, mk::DType::kBf16, batch, rows, of_heads, dim};
    };
    const mk::RingAttentionArgs args{.q = tensor(q, heads),
                                     .k = tensor(k, kv_heads),
                                     .v = tensor(v, kv_heads),
                                     .o = tensor(o, heads),
                                     .lse = lse,
                                     .stream = stream};
    mk::ring_attention(world(), {&args, 1}, options_for(is_causal, window));
  });
}

// Likewise.
int mk_ring_attention_backward(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads, int64_t dim, int is_causal,
                               int64_t window, void* q, void* k, void* v, void* o, void* dout, float* lse, void* dq,
                               void* dk, void* dv, void* stream) {
  return kept([&] {
    const auto tensor = [&](void* data, int64_t of_heads) {
      return mk::HeadTensor{data, mk::DType::kBf16, batch, rows, of_heads, dim};
    };
    const mk::RingAttentionBackwardArgs args{.q = tensor(q, heads),
                                             .k = tensor(k, kv_heads),
                                             .v = tensor(v, kv_heads),
                                             .o = tensor(o, heads),
                                             .dout = tensor(dout, heads),
                                             .lse = lse,
                                             .dq = tensor(dq, heads),
                                             .dk = tensor(dk, kv_heads),
                                             .dv = tensor(dv, kv_heads),
                                             .stream = stream};
    mk::ring_attention_backward(world(), {&args, 1}, options_for(is_causal, window));
  });
}

}  // extern "C"
