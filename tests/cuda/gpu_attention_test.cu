// SPDX-License-Identifier: MIT
// tests/cuda/gpu_attention_test.cu — the attention engine: every element beside fp64, in one visit and in several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "bench/attention_kernel.cuh"
#include "bench/attention_launch.h"
#include "tests/cuda/attention_reference.cuh"
#include "tests/cuda/device_array.h"
#include "tests/cuda/exact_data.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using bench::RowsOfHeads;
using test::DeviceArray;
using test::Precision;

struct Part {
  int row;
  int keys;
  int position;
};

struct AttentionCase {
  const char* name;
  int batches = 1;
  int queries = 1;
  int keys = 1;
  int heads = 1;
  int kv_heads = 1;
  int position = 0;  // of the first query
  AttentionMask mask = {};
  std::vector<Part> parts = {};  // none: all keys are one, from position 0
  int parts_of_pass = bench::kMostParts;
  bool has_sinks = false;
  int blocks = 3;
  float spread = 1;  // of queries: the larger, the fewer keys count

  std::vector<Part> all_parts() const { return parts.empty() ? std::vector<Part>{{0, keys, 0}} : parts; }
  bool is_claimed() const { return parts_of_pass >= static_cast<int>(parts.size()); }
};

constexpr AttentionMask kCausal{.right = 0};

// In visits of their own, where there are several passes.
const std::vector<AttentionCase> kCases = {
    {.name = "one key"},
    {.name = "one query", .keys = 500, .heads = 2},
    {.name = "full, tails", .queries = 257, .keys = 263, .heads = 2},
    {.name = "full, whole tiles", .batches = 2, .queries = 256, .keys = 640, .heads = 2},
    {.name = "one past a tile", .batches = 2, .queries = 129, .keys = 321, .heads = 3},
    {.name = "causal", .queries = 521, .keys = 521, .heads = 4, .mask = kCausal},
    {.name = "causal, whole tiles", .queries = 384, .keys = 384, .mask = kCausal},
    {.name = "causal, later queries", .batches = 2, .queries = 131, .keys = 394, .position = 263, .mask = kCausal},
    {.name = "few keys count", .queries = 300, .keys = 700, .heads = 2, .spread = 8},
    {.name = "window", .queries = 601, .keys = 601, .heads = 2, .mask = {.left = 100, .right = 0}},
    {.name = "window of one key", .queries = 200, .keys = 200, .mask = {.left = 0, .right = 0}},
    {.name = "window to both sides", .queries = 333, .keys = 411, .mask = {.left = 37, .right = 81}},
    {.name = "four heads to one", .queries = 140, .keys = 333, .heads = 8, .kv_heads = 2, .mask = kCausal},
    {.name = "eight heads to one", .batches = 3, .queries = 70, .keys = 200, .heads = 8, .kv_heads = 1},
    {.name = "rows without keys", .queries = 300, .keys = 200, .mask = kCausal, .parts = {{0, 200, 150}}},
    {.name = "no row has keys", .queries = 130, .keys = 64, .heads = 2, .mask = kCausal, .parts = {{0, 64, 1000}}},
    {.name = "sinks", .queries = 200, .keys = 300, .heads = 4, .has_sinks = true},
    {.name = "sinks, rows without keys",
     .queries = 300,
     .keys = 200,
     .heads = 2,
     .mask = kCausal,
     .parts = {{0, 200, 150}},
     .has_sinks = true},
    {.name = "three segments",
     .queries = 500,
     .keys = 500,
     .heads = 2,
     .position = 100,
     .mask = kCausal,
     .parts = {{100, 300, 300}, {0, 100, 0}, {400, 100, 100}}},
    {.name = "two visits",
     .batches = 2,
     .queries = 261,
     .keys = 517,
     .heads = 2,
     .parts = {{0, 200, 0}, {200, 317, 200}},
     .parts_of_pass = 1},
    {.name = "four visits, the first to later keys",
     .queries = 400,
     .keys = 400,
     .heads = 2,
     .mask = kCausal,
     .parts = {{300, 100, 300}, {100, 100, 100}, {0, 100, 0}, {200, 100, 200}},
     .parts_of_pass = 1},
    {.name = "two visits of two segments",
     .queries = 400,
     .keys = 400,
     .heads = 4,
     .kv_heads = 2,
     .mask = {.left = 150, .right = 0},
     .parts = {{300, 100, 300}, {0, 100, 0}, {100, 100, 100}, {200, 100, 200}},
     .parts_of_pass = 2,
     .has_sinks = true,
     .blocks = 2},
    {.name = "zigzag",
     .queries = 128,
     .keys = 512,
     .heads = 2,
     .position = 384,
     .mask = kCausal,
     .parts = {{384, 128, 384}, {0, 128, 0}, {128, 128, 128}, {256, 128, 256}},
     .parts_of_pass = 1,
     .spread = 4},
};

template <class Element>
struct AttentionData {
  std::vector<Element> q, k, v;
  std::vector<float> sinks;

  AttentionData(const AttentionCase& at, int dim) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto values = [&](int rows, int heads, float spread) {
      std::vector<Element> all(static_cast<size_t>(at.batches) * rows * heads * dim);
      for (Element& value : all) value = static_cast<Element>(normal(random) * spread);
      return all;
    };
    q = values(at.queries, at.heads, at.spread);
    k = values(at.keys, at.kv_heads, 1);
    v = values(at.keys, at.kv_heads, 1);
    for (int head = 0; head < at.heads; ++head) sinks.push_back(normal(random) * 4);
  }
};

struct RunOptions {
  int missing_part = -1;
  bool tells = false;
};

template <class Element>
struct AttentionResult {
  std::vector<Element> o;
  std::vector<float> lse;
  std::vector<uint64_t> landed;
};

constexpr int kGuard = 1000;  // elements behind O and LSE, which nobody may touch

template <class Config, class Element>
AttentionResult<Element> run(const AttentionCase& at, const AttentionData<Element>& data,
                             const RunOptions& options = {}) {
  const RowsOfHeads queries{at.batches, at.queries, at.heads, Config::kHeadDim};
  const RowsOfHeads keys{at.batches, at.keys, at.kv_heads, Config::kHeadDim};
  const DType dtype = test::kDTypeOf<Element>;
  Element nan;
  std::memset(&nan, 0xff, sizeof(nan));
  const size_t sums = static_cast<size_t>(at.batches) * at.heads * at.queries;
  const int tiles = at.batches * at.heads * ceil_div(at.queries, Config::kTileM);
  const DeviceArray q(data.q), k(data.k), v(data.v);
  const DeviceArray sinks(data.sinks);
  const DeviceArray o(std::vector<Element>(queries.size() + kGuard, nan));
  const DeviceArray lse(std::vector<float>(sums + kGuard, std::nanf("")));
  const DeviceArray states(std::vector<float>(AttentionState<Config>::kBytes / 4 * tiles, std::nanf("")));
  const DeviceArray landed(std::vector<uint64_t>(bench::kMostParts));
  const DeviceArray claimed(std::vector<uint64_t>(1));

  bench::AttentionParams<Element> params{};
  params.q = queries.map(q.data(), dtype, Config::kTileM);
  const std::vector<Part> parts = at.all_parts();
  params.num_parts = static_cast<int>(parts.size());
  for (int i = 0; i < params.num_parts; ++i) {
    const Part& part = parts[i];
    const int end = part.row + part.keys;
    params.parts[i] = {keys.map(k.data(), dtype, Config::kTileN, end),
                       keys.map(v.data(), dtype, Config::kTileN, end),
                       part.row,
                       part.keys,
                       part.position,
                       options.tells ? landed.data() + i : nullptr};
  }
  params.output = {o.data(),
                   queries.of_batch(),
                   queries.of_row(),
                   queries.of_head(),
                   lse.data(),
                   static_cast<int64_t>(at.heads) * at.queries,
                   at.queries,
                   at.has_sinks ? sinks.data() : nullptr,
                   reinterpret_cast<float4*>(states.data())};
  params.mask = at.mask;
  params.claimed = at.is_claimed() ? claimed.data() : nullptr;
  params.parts_of_pass = at.parts_of_pass;
  params.missing_part = options.missing_part;
  params.batches = at.batches;
  params.heads = at.heads;
  params.group = at.heads / at.kv_heads;
  params.heads_at_once = bench::heads_at_once(keys, at.heads);
  params.queries = at.queries;
  params.position[0] = at.position;
  params.softmax_scale = 1.0f / std::sqrt(static_cast<float>(Config::kHeadDim));
  constexpr size_t kSharedBytes = kSharedFor<AttentionShared<Config, Element>>;
  static_assert(kSharedBytes <= kSharedLimit);
  const auto kernel = bench::attention_kernel<Config, Element>;
  load_kernel(reinterpret_cast<const void*>(kernel), kSharedBytes);
  kernel<<<at.blocks, Config::kThreads, kSharedBytes>>>(params);
  check_cuda(cudaGetLastError(), "launch attention");
  return {o.read(), lse.read(), landed.read()};
}

struct Plain {
  std::vector<double> o;
  std::vector<double> lse;
};

template <class Real, Precision kPrecision, class Element>
Plain plain(const AttentionCase& at, const AttentionData<Element>& data, int dim) {
  std::vector<int> positions(at.keys, -1);
  for (const Part& part : at.all_parts()) {
    for (int i = 0; i < part.keys; ++i) positions[part.row + i] = part.position + i;
  }
  const DeviceArray q(data.q), k(data.k), v(data.v);
  const DeviceArray sinks(data.sinks);
  const DeviceArray at_position(positions);
  const DeviceArray o(std::vector<double>(data.q.size()));
  const DeviceArray lse(std::vector<double>(data.q.size() / dim));
  const test::PlainAttention<Element> params{q.data(),
                                             k.data(),
                                             v.data(),
                                             at_position.data(),
                                             at.has_sinks ? sinks.data() : nullptr,
                                             o.data(),
                                             lse.data(),
                                             at.mask,
                                             at.keys,
                                             at.kv_heads,
                                             dim,
                                             at.position,
                                             1.0f / std::sqrt(static_cast<float>(dim))};
  const dim3 grid(at.queries, at.heads, at.batches);
  test::plain_attention<Real, kPrecision><<<grid, 128, round_up(at.keys, 16) * sizeof(double)>>>(params);
  check_cuda(cudaGetLastError(), "launch the reference");
  return {o.read(), lse.read()};
}

// No element is further from fp64 than twice the furthest of an fp32 computation with weights and results of 16 bits.
template <class Element>
void expect_right(const AttentionCase& at, const AttentionData<Element>& data, int dim,
                  const AttentionResult<Element>& seen) {
  const Plain exact = plain<double, Precision::kExact>(at, data, dim);
  const Plain rounded = plain<float, Precision::kRounded>(at, data, dim);
  double most = 0;
  for (size_t i = 0; i < exact.o.size(); ++i) most = std::max(most, std::abs(rounded.o[i] - exact.o[i]));
  for (size_t i = 0; i < exact.o.size(); ++i) {
    const double off = std::abs(static_cast<double>(static_cast<float>(seen.o[i])) - exact.o[i]);
    ASSERT_LE(off, 2 * most) << "element " << i << " of " << exact.o.size() << ", exact " << exact.o[i];
  }
  double most_of_lse = 0;
  for (size_t i = 0; i < exact.lse.size(); ++i) {
    if (!std::isinf(exact.lse[i])) most_of_lse = std::max(most_of_lse, std::abs(rounded.lse[i] - exact.lse[i]));
  }
  for (size_t i = 0; i < exact.lse.size(); ++i) {
    if (std::isinf(exact.lse[i])) {
      ASSERT_EQ(seen.lse[i], -INFINITY) << "row " << i;
    } else {
      // ex2.approx and lg2.approx are off by 2^-22; products of scores with the scale by 2^-24 of themselves.
      const double approximated = 0x1p-20 * (1 + std::abs(exact.lse[i]));
      ASSERT_LE(std::abs(seen.lse[i] - exact.lse[i]), 2 * most_of_lse + approximated) << "row " << i;
    }
  }
  for (int i = 0; i < kGuard; ++i) {
    ASSERT_TRUE(std::isnan(static_cast<float>(seen.o[exact.o.size() + i]))) << "behind O";
    ASSERT_TRUE(std::isnan(seen.lse[exact.lse.size() + i])) << "behind the sums";
  }
}

template <class Config, class Element>
void expect_right_everywhere() {
  for (const AttentionCase& at : kCases) {
    SCOPED_TRACE(testing::Message() << at.name << ", tile of " << Config::kTileN << " keys of " << Config::kHeadDim);
    const AttentionData<Element> data(at, Config::kHeadDim);
    const auto seen = run<Config, Element>(at, data);
    expect_right(at, data, Config::kHeadDim, seen);
    const auto again = run<Config, Element>(at, data);
    EXPECT_EQ(std::memcmp(seen.o.data(), again.o.data(), seen.o.size() * sizeof(Element)), 0) << "not the same again";
    EXPECT_EQ(std::memcmp(seen.lse.data(), again.lse.data(), seen.lse.size() * sizeof(float)), 0);
    if (testing::Test::HasFailure()) return;
  }
}

using Wide = AttentionConfig<128, 160>;

TEST(GpuAttention, HeadsOf64AreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<AttentionConfig<64, 192>, __nv_bfloat16>();
}

TEST(GpuAttention, HeadsOf64InHalvesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<AttentionConfig<64, 192>, __half>();
}

TEST(GpuAttention, HeadsOf128AreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<AttentionConfig<128, 128>, __nv_bfloat16>();
}

TEST(GpuAttention, WideTilesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<Wide, __nv_bfloat16>();
}

TEST(GpuAttention, WideTilesOfHalvesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<Wide, __half>();
}

TEST(GpuAttention, HeadsOf256AreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<AttentionConfig<256, 64>, __nv_bfloat16>();
}

TEST(GpuAttention, EverySegmentIsHandedBackOnceForEachVisit) {
  MK_NEEDS_GPU();
  const AttentionCase at{.name = "handed back",
                         .batches = 2,
                         .queries = 300,
                         .keys = 400,
                         .heads = 2,
                         .parts = {{300, 100, 300}, {0, 100, 0}, {100, 1, 100}, {101, 199, 101}},
                         .parts_of_pass = 2};
  const AttentionData<__nv_bfloat16> data(at, Wide::kHeadDim);
  const auto seen = run<Wide, __nv_bfloat16>(at, data, {.tells = true});
  expect_right(at, data, Wide::kHeadDim, seen);
  std::vector<uint64_t> of_parts(bench::kMostParts);
  std::fill_n(of_parts.begin(), at.parts.size(), uint64_t{2 * 2 * 3});
  EXPECT_EQ(seen.landed, of_parts);
}

// Every job comes to its end, and nothing is stored of visits whose keys never came.
TEST(GpuAttention, KeysThatDoNotComeEndTheLaunch) {
  MK_NEEDS_GPU();
  const AttentionCase at{.name = "missing",
                         .queries = 700,
                         .keys = 400,
                         .heads = 2,
                         .parts = {{0, 200, 0}, {200, 200, 200}},
                         .parts_of_pass = 1};
  const AttentionData<__nv_bfloat16> data(at, Wide::kHeadDim);
  const auto seen = run<Wide, __nv_bfloat16>(at, data, {.missing_part = 1, .tells = true});
  for (const __nv_bfloat16 value : seen.o) ASSERT_TRUE(std::isnan(static_cast<float>(value)));
  for (const float value : seen.lse) ASSERT_TRUE(std::isnan(value));
  EXPECT_EQ(seen.landed[0], 2u * 6);
  EXPECT_EQ(seen.landed[1], 0u);
}

}  // namespace
}  // namespace mk::sm90
