// SPDX-License-Identifier: MIT
// bench/attention_library.cc — ring_attention on one GPU as a C function, for attention_vs_torch.py.
#include <cstdint>
#include <exception>
#include <string>

#include "mkernel/ring_attention.h"

namespace {

thread_local std::string last_error;

}  // namespace

extern "C" {

const char* mk_ring_attention_error() { return last_error.c_str(); }

// bf16, in a world of one rank that stays.  window: keys that a query sees, or 0.  Not 0: see mk_ring_attention_error.
int mk_ring_attention(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads, int64_t dim, int is_causal,
                      int64_t window, void* q, void* k, void* v, void* o, float* lse, void* stream) {
  try {
    static mk::World world = mk::World::local(1, 1, mk::DeviceKind::kCuda, {.timeout_ms = 10'000});
    const auto tensor = [&](void* data, int64_t of_heads) {
      return mk::HeadTensor{data, mk::DType::kBf16, batch, rows, of_heads, dim};
    };
    const mk::RingAttentionArgs args{.q = tensor(q, heads),
                                     .k = tensor(k, kv_heads),
                                     .v = tensor(v, kv_heads),
                                     .o = tensor(o, heads),
                                     .lse = lse,
                                     .stream = stream};
    mk::RingAttentionOptions options;
    if (is_causal != 0) options.mask.kind = mk::MaskKind::kCausal;
    if (window > 0) options.mask.window = window;
    mk::ring_attention(world, {&args, 1}, options);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // extern "C"
