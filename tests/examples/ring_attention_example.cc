// SPDX-License-Identifier: MIT
// tests/examples/ring_attention_example.cc — attention over a sequence that all ranks share, with the public header
// only.
//
// Two nodes of two ranks have a sequence of 256 positions in zigzag order, with a causal mask: of its eight parts, rank
// r has parts r and 7 - r.  All scores are equal, because queries are zero, and the value at position p is p.  So the
// query at position p gets the mean of 0 … p, which is p / 2, and lse is the logarithm of p + 1 keys.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mkernel/ring_attention.h"

namespace {

constexpr int kRanks = 4;
constexpr mk::RingAttentionShape kShape{
    .batch = 1, .rows = 64, .heads = 8, .kv_heads = 2, .dim = 16, .dtype = mk::DType::kFp32};
const mk::RingAttentionOptions kOptions{.mask = {mk::MaskKind::kCausal}, .order = mk::SequenceOrder::kZigzag};

// Of a row of a rank: the first half is part `rank`, the second half part 2·W-1-rank.
int64_t position_of(int rank, int64_t row) {
  const int64_t half = kShape.rows / 2;
  return row < half ? rank * half + row : (2 * kRanks - 1 - rank) * half + row - half;
}

struct RankData {
  std::vector<float> q, k, v, o, lse;
};

bool run(mk::World& world) {
  std::vector<RankData> data(world.size());
  std::vector<mk::RingAttentionArgs> args;
  for (int rank = 0; rank < world.size(); ++rank) {
    RankData& d = data[rank];
    d.q.assign(kShape.rows * kShape.heads * kShape.dim, 0.0f);
    d.k.assign(kShape.rows * kShape.kv_heads * kShape.dim, 1.0f);
    for (int64_t row = 0; row < kShape.rows; ++row) {
      d.v.insert(d.v.end(), kShape.kv_heads * kShape.dim, static_cast<float>(position_of(rank, row)));
    }
    d.o.resize(d.q.size());
    d.lse.resize(kShape.heads * kShape.rows);
    const auto tensor = [](std::vector<float>& values, int64_t heads) {
      return mk::HeadTensor{values.data(), kShape.dtype, kShape.batch, kShape.rows, heads, kShape.dim};
    };
    args.push_back({.q = tensor(d.q, kShape.heads),
                    .k = tensor(d.k, kShape.kv_heads),
                    .v = tensor(d.v, kShape.kv_heads),
                    .o = tensor(d.o, kShape.heads),
                    .lse = d.lse.data()});
  }

  ring_attention(world, args, kOptions);  // returns at once
  world.synchronize();                    // throws mk::Error if a rank failed

  for (int rank = 0; rank < world.size(); ++rank) {
    const RankData& d = data[rank];
    for (int64_t row = 0; row < kShape.rows; ++row) {
      const auto position = static_cast<float>(position_of(rank, row));
      for (int64_t head = 0; head < kShape.heads; ++head) {
        if (std::fabs(d.lse[head * kShape.rows + row] - std::log(position + 1)) > 1e-5f) return false;
        for (int64_t i = 0; i < kShape.dim; ++i) {
          if (std::fabs(d.o[(row * kShape.heads + head) * kShape.dim + i] - position / 2) > 1e-4f) return false;
        }
      }
    }
    std::printf("rank %d: %lld rows, every element is right\n", rank, static_cast<long long>(kShape.rows));
  }
  return true;
}

}  // namespace

int main() {
  try {
    mk::World world = mk::World::local(2, 2, mk::DeviceKind::kCpu, mk::Options::from_env());
    std::printf("workspace: %lld bytes a rank\n",
                static_cast<long long>(ring_attention_workspace_bytes(world, kShape, kOptions)));
    return run(world) ? 0 : 1;
  } catch (const mk::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
