// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_collect_body.cuh — what a warp on an SM does with gradients of keys that come together:
// the body of ring_attention_collect_protocol.h.
#pragma once

#include "ops/attention/ring_attention_backward_params.cuh"
#include "target/sm90/vector.cuh"

namespace mk::attention {

template <class Machine, class Element, class Pace>
class CollectBody {
 public:
  __device__ CollectBody(Machine& machine, const BackwardParams<Element, Pace>& params) : m_(machine), p_(params) {}

  __device__ void add_keys(const Place& to, const Place& from, uint64_t bytes) { m_.add_floats(to, from, bytes); }

  // From sums to the caller: a vector of eight elements for each lane at a time.
  __device__ void finish_keys(Half half, const HeadRow& first, int64_t rows) {
    m_.finish_copies();
    const BackwardLayout& layout = p_.layout;
    const auto* const from = p_.template resolve<const float4>(layout.collected_at(half, p_.view.rank, 0, first));
    const auto& to = half == Half::kKeys ? p_.gradients.dk : p_.gradients.dv;
    Element* const out = to.at(first.batch, first.row, first.kv_head);
    const float by = half == Half::kKeys ? p_.scale : 1;
    const int vectors = layout.dim / 8;  // of a row
    const int all = static_cast<int>(rows) * vectors;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) % 32; i < all; i += 32) {
      const float4 low = __ldcg(from + 2 * i);
      const float4 high = __ldcg(from + 2 * i + 1);
      const sm90::Vector<Element> vector{{low.x * by, low.y * by, low.z * by, low.w * by,  //
                                          high.x * by, high.y * by, high.z * by, high.w * by}};
      *reinterpret_cast<uint4*>(out + i / vectors * to.of_row + i % vectors * 8) = vector.rounded();
    }
  }

 private:
  Machine& m_;
  const BackwardParams<Element, Pace>& p_;
};

}  // namespace mk::attention
