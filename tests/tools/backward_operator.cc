// SPDX-License-Identifier: MIT
// tests/tools/backward_operator.cc — see backward_operator.h.
#include "tests/tools/backward_operator.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace mk::test {
namespace {

using tools::AttentionTensor;

constexpr int64_t kBlock = 16;
constexpr float kLog2E = 1.44269504088896f;

}  // namespace

BackwardOperator::BackwardOperator(const BackwardCase& at, int rank, uint64_t seed, uint64_t launch)
    : at_(at),
      scale_(tools::scale_or_default(at.scale, at.dim)),
      size_{at.batches, at.seq, at.heads, at.kv_heads, at.dim, scale_, at.mask},
      seed_(seed),
      launch_(launch),
      checked_{tools::attention_values_for(size_, seed, launch),
               {at.order, at.ranks, rank, at.seq / at.ranks},
               at.mask.kind,
               scale_,
               tools::SinkUse::kGiven},
      checker_(device_, size_, at.seq / at.ranks, at.dtype),
      log_sums_(checker_.log_sums(checked_)),
      dq_(at.dtype, at.batches * checked_.shard.rows, at.heads * at.dim),
      dk_(at.dtype, at.batches * checked_.shard.rows, at.kv_heads * at.dim),
      dv_(at.dtype, at.batches * checked_.shard.rows, at.kv_heads * at.dim) {}

void BackwardOperator::Sums::clear(size_t size) {
  whole.assign(size, 0);
  block.assign(size, 0);
}

void BackwardOperator::Sums::flush(size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    whole[i] += block[i];
    block[i] = 0;
  }
}

float BackwardOperator::rounded(float value) const {
  if (at_.dtype == DType::kFp32) return value;
  return at_.dtype == DType::kBf16 ? to_float(from_float<Bf16>(value)) : to_float(from_float<Fp16>(value));
}

std::vector<float> BackwardOperator::made(AttentionTensor which, int64_t heads, uint64_t launch, int64_t batch) {
  Matrix matrix(at_.dtype, at_.seq, heads * at_.dim);
  const tools::AttentionValues values = tools::attention_values_for(size_, seed_, launch);
  filler_->fill({matrix.view().data, at_.dtype, 1, at_.seq, heads, at_.dim}, which, values, {.rows = at_.seq}, batch);
  return matrix.values();
}

void BackwardOperator::make_sequence(const BackwardMistake& mistake, int64_t batch) {
  sequence_ = {
      made(AttentionTensor::kQueries, at_.heads, launch_, batch),
      made(AttentionTensor::kKeys, at_.kv_heads, launch_, batch + mistake.batches_on),
      made(AttentionTensor::kValues, at_.kv_heads, launch_, batch + mistake.batches_on),
      made(AttentionTensor::kOutputs, at_.heads, launch_, batch),
      made(AttentionTensor::kGradients, at_.heads, launch_ - static_cast<uint64_t>(mistake.launches_ago), batch),
  };
  dq_sums_.clear(sequence_.q.size());
  dk_sums_.clear(sequence_.k.size());
  dv_sums_.clear(sequence_.k.size());
}

float BackwardOperator::dot(const std::vector<float>& a, int64_t at_a, const std::vector<float>& b, int64_t at_b,
                            float factor) const {
  float sum = 0;
  for (int64_t d = 0; d < at_.dim; ++d) sum += a[at_a + d] * factor * b[at_b + d];
  return sum;
}

float BackwardOperator::delta_of(const BackwardMistake& mistake, const Query& at) const {
  const int64_t row = query_offset((at.position + mistake.deltas_on) % at_.seq, at.head);
  return mistake.deltas * dot(sequence_.o, row, sequence_.dout, row);
}

float BackwardOperator::lse_of(const Query& at, int64_t rows_on) const {
  return log_sums_[(at.batch * at_.heads + at.head) * at_.seq + (at.position + rows_on) % at_.seq];
}

void BackwardOperator::run(const BackwardMistake& mistake, BackwardWay way) {
  dsink_.assign(at_.heads, 0);
  for (int64_t batch = 0; batch < at_.batches; ++batch) {
    make_sequence(mistake, batch);
    for (int64_t head = 0; head < at_.heads; ++head) {
      for (int64_t i = 0; i < at_.seq; ++i) {
        add_query(mistake, way, {batch, head, way == BackwardWay::kBlocks ? at_.seq - 1 - i : i});
        if (i % kBlock == kBlock - 1) dk_sums_.flush(0, sequence_.k.size());
        if (i % kBlock == kBlock - 1) dv_sums_.flush(0, sequence_.k.size());
      }
      for (int64_t row = mistake.sink_rows_lost; row < checked_.shard.rows; ++row) {
        add_sink(mistake, {batch, head, checked_.shard.position_of(row)});
      }
    }
    dk_sums_.flush(0, sequence_.k.size());
    dv_sums_.flush(0, sequence_.k.size());
    write(mistake, way, batch);
  }
}

void BackwardOperator::add_query(const BackwardMistake& mistake, BackwardWay way, const Query& at) {
  const tools::KeyRange seen = checked_.seen_keys(at.position);
  const int64_t row = query_offset(at.position, at.head);
  for (int64_t key = 0; key < at_.seq; ++key) {
    const bool sees = key >= seen.first && key < seen.end;
    const BackwardPair pair{at_.seq, at.position, key, at.head, seen.first, sees};
    if (mistake.in_dq(pair) != 0 || mistake.in_dk(pair) != 0) add_pair(mistake, way, at, pair);
    if (key % kBlock == kBlock - 1) dq_sums_.flush(row, at_.dim);
  }
  dq_sums_.flush(row, at_.dim);
}

void BackwardOperator::add_pair(const BackwardMistake& mistake, BackwardWay way, const Query& at,
                                const BackwardPair& pair) {
  const int64_t kv_head = (at.head / (at_.heads / at_.kv_heads) + mistake.heads_on) % at_.kv_heads;
  const int64_t row = query_offset(at.position, at.head);
  const int64_t key = key_offset(pair.key, kv_head);
  const int64_t value = key_offset((pair.key + mistake.values_on) % at_.seq, kv_head);
  const float scale = scale_ * mistake.scale_of_scores;
  const bool is_before = way == BackwardWay::kScaledQueries;
  const float sum = dot(sequence_.q, row, sequence_.k, key, is_before ? scale : 1);
  const float lse = lse_of(at, mistake.lse_on);
  const float exact_score = is_before ? sum : sum * scale;
  const float weight = way == BackwardWay::kPowersOfTwo ? std::exp2(std::fma(sum, scale * kLog2E, -(lse * kLog2E)))
                                                        : std::exp(exact_score - lse);
  const float product = dot(sequence_.dout, row, sequence_.v, value);
  const float gradient = rounded(weight * (product - delta_of(mistake, at)));
  const bool in_blocks = way == BackwardWay::kBlocks;
  const auto add = [&](Sums& sums, int64_t to, int times, float factor, const std::vector<float>& from, int64_t first) {
    std::vector<float>& own = in_blocks ? sums.block : sums.whole;
    for (int i = 0; i < times; ++i) {
      for (int64_t d = 0; d < at_.dim; ++d) own[to + d] += factor * from[first + d];
    }
  };
  add(dq_sums_, row, mistake.in_dq(pair), gradient, sequence_.k, key);
  const float before = is_before ? scale_ : 1;  // a query that was scaled is what is there
  std::vector<float> query(sequence_.q.begin() + row, sequence_.q.begin() + row + at_.dim);
  for (float& element : query) element *= before;
  add(dk_sums_, key, mistake.in_dk(pair), gradient, query, 0);
  add(dv_sums_, key, mistake.in_dk(pair), rounded(weight), mistake.weighs_outputs ? sequence_.o : sequence_.dout, row);
}

void BackwardOperator::add_sink(const BackwardMistake& mistake, const Query& at) {
  const float weight = std::exp(tools::backward_sink_value(checked_.values, at.head) - lse_of(at, mistake.lse_on));
  dsink_[at.head] -= mistake.sinks * weight * delta_of(mistake, at);
}

void BackwardOperator::write(const BackwardMistake& mistake, BackwardWay way, int64_t batch) {
  const float scale_of_dk = way == BackwardWay::kScaledQueries ? 1 : scale_;
  for (int64_t row = 0; row < checked_.shard.rows; ++row) {
    const int64_t position = checked_.shard.position_of(row);
    const int64_t to = batch * checked_.shard.rows + row;
    for (int64_t i = 0; i < at_.heads * at_.dim; ++i) {
      dq_.set(to, i, dq_sums_.whole[query_offset(position, 0) + i] * scale_ * mistake.scale_of_dq);
    }
    for (int64_t i = 0; i < at_.kv_heads * at_.dim; ++i) {
      dk_.set(to, i, dk_sums_.whole[key_offset(position, 0) + i] * scale_of_dk * mistake.scale_of_dk);
      dv_.set(to, i, dv_sums_.whole[key_offset(position, 0) + i]);
    }
  }
}

tools::BackwardTally BackwardOperator::check() {
  const auto view = [&](Matrix& matrix, int64_t heads) {
    return HeadTensor{matrix.view().data, at_.dtype, at_.batches, checked_.shard.rows, heads, at_.dim};
  };
  return checker_.check(checked_, log_sums_,
                        {view(dq_, at_.heads), view(dk_, at_.kv_heads), view(dv_, at_.kv_heads), dsink_.data()});
}

}  // namespace mk::test
