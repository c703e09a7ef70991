// SPDX-License-Identifier: MIT
// tests/support/worlds.h — the worlds and shapes the tests go through.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/types.h"

namespace mk {

inline std::string name_of(const WorldShape& world) {
  return std::to_string(world.nodes) + "x" + std::to_string(world.ranks);
}
inline void PrintTo(const WorldShape& world, std::ostream* out) { *out << name_of(world); }

}  // namespace mk

namespace mk::test {

inline constexpr std::array<WorldShape, 8> kWorlds = {{{1, 1}, {1, 2}, {1, 8}, {2, 1}, {2, 3}, {2, 8}, {3, 4}, {4, 2}}};

inline constexpr std::array<DType, 3> kDTypes = {DType::kFp32, DType::kBf16, DType::kFp16};

inline std::vector<WorldShape> worlds_with_nodes() {
  std::vector<WorldShape> worlds;
  for (const WorldShape& world : kWorlds) {
    if (world.nodes > 1) worlds.push_back(world);
  }
  return worlds;
}

// What a rank brings: [shard_rows, k] times [k, n].
struct Shape {
  int64_t shard_rows;
  int64_t n;
  int64_t k;
};

inline std::string name_of(const Shape& shape) {
  return std::to_string(shape.shard_rows) + " rows a rank, n " + std::to_string(shape.n) + ", k " +
         std::to_string(shape.k);
}

// Ones, primes, a whole CPU tile (32 × 64), one short of it, one past it, and several.
inline constexpr std::array<Shape, 10> kShapes = {{{1, 1, 1},
                                                   {1, 67, 1},
                                                   {7, 5, 3},
                                                   {13, 1, 29},
                                                   {32, 64, 16},
                                                   {31, 63, 37},
                                                   {33, 65, 17},
                                                   {67, 7, 1},
                                                   {2, 131, 65},
                                                   {97, 129, 2}}};

// The same around the GPU's tile (128 × 256).
inline constexpr std::array<Shape, 4> kLargeShapes = {{{128, 256, 64}, {129, 257, 65}, {127, 255, 1}, {521, 1031, 3}}};

// The number of seeded repetitions a test makes is its own; the seeds are spread by this.
constexpr uint64_t seed_of(uint64_t first, uint64_t second) { return first * 1'000'003 + second; }

// For INSTANTIATE_TEST_SUITE_P: the name of the parameter, and "gemm_rs_2x3_bf16", the names of a tuple's members.
template <class T>
std::string case_name(const T& info) {
  return name_of(info.param);
}

struct JoinedNames {
  template <class Info>
  std::string operator()(const Info& info) const {
    std::string names;
    const auto append = [&](const std::string& name) { names += (names.empty() ? "" : "_") + name; };
    std::apply([&](const auto&... member) { (append(name_of(member)), ...); }, info.param);
    return names;
  }
};
inline constexpr JoinedNames joined_names;

}  // namespace mk::test
