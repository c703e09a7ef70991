// SPDX-License-Identifier: MIT
// tests/attention/attention_cases.h — masks and orders that tests of the protocol go through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/ring_attention_targets.h"
#include "tests/support/worlds.h"

namespace mk::test {

// What a rank sees of others depends on these alone.
struct AttentionForm {
  AttentionMask mask = {};
  SequenceOrder order = SequenceOrder::kContiguous;
  uint64_t packing = 0;  // not 0: the seed of the lengths of packed sequences
};

// cu_seqlens of the form in `seq` positions, empty if nothing is packed: lengths of few, of many, and of most.
inline const std::vector<int32_t>& packed_ends(const AttentionForm& form, int64_t seq) {
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, int64_t>, std::vector<int32_t>> all;  // spans of them stay
  const std::lock_guard lock(mutex);
  std::vector<int32_t>& ends = all[{form.packing, seq}];
  if (form.packing == 0 || !ends.empty()) return ends;
  std::mt19937_64 random(form.packing);
  for (ends = {0}; ends.back() < seq;) {
    const int64_t most[] = {3, seq / 3 + 1, seq};
    const int64_t length = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most[random() % 3]));
    ends.push_back(static_cast<int32_t>(std::min(seq, ends.back() + length)));
  }
  return ends;
}

// By the definition, position by position.
inline bool sees(const AttentionForm& form, int64_t seq, int64_t query, int64_t key) {
  const std::vector<int32_t>& ends = packed_ends(form, seq);
  const auto sequence_of = [&](int64_t position) { return std::ranges::upper_bound(ends, position) - ends.begin(); };
  if (sequence_of(query) != sequence_of(key)) return false;
  if (form.mask.kind == MaskKind::kFull) return true;
  return key <= query && (!form.mask.window.has_value() || query - key < *form.mask.window);
}

inline std::string name_of(const AttentionForm& form) {
  std::string name = mk::name_of(form.mask.kind);
  if (form.mask.window.has_value()) name += "_window_" + std::to_string(*form.mask.window);
  if (form.packing != 0) name += "_packed_" + std::to_string(form.packing);
  return name + "_" + mk::name_of(form.order);
}

// Windows of one key, inside a tile, past a rank's rows of kRows, and past all.
inline std::vector<AttentionForm> attention_forms() {
  std::vector<AttentionForm> forms;
  for (const SequenceOrder order : {SequenceOrder::kContiguous, SequenceOrder::kZigzag}) {
    forms.push_back({{MaskKind::kFull}, order});
    forms.push_back({{MaskKind::kCausal}, order});
    for (const int64_t window : {1, 3, 13, 1000}) forms.push_back({{MaskKind::kCausal, window}, order});
    for (const uint64_t packing : {1, 2}) {
      forms.push_back({{MaskKind::kFull}, order, packing});
      forms.push_back({{MaskKind::kCausal}, order, packing});
      forms.push_back({{MaskKind::kCausal, 3}, order, packing});
    }
  }
  return forms;
}

inline attention::Problem attention_problem(const WorldShape& world, const AttentionForm& form, int64_t rows,
                                            int64_t batch = 2, int64_t heads = 2, int64_t kv_heads = 1,
                                            int64_t dim = 3) {
  if (form.packing != 0) batch = 1;
  return {world,     {batch, rows, heads, kv_heads, dim, DType::kFp32},
          form.mask, form.order,
          {},        packed_ends(form, rows * world.size())};
}

// Workers of each role that has work.
inline Roster attention_roster(const WorldShape& world, int intra, int send, int keep, int compute) {
  const bool has_nodes = world.nodes > 1;
  return {{world.ranks > 1 ? intra : 0}, {has_nodes ? send : 0}, {has_nodes ? keep : 0}, {compute}};
}

// The same for the backward pass; `others` of each role that moves or sums.
inline Roster backward_roster(const WorldShape& world, int others, int compute) {
  const bool has_nodes = world.nodes > 1;
  return {{world.ranks > 1 ? others : 0},
          {has_nodes ? others : 0},
          {has_nodes ? others : 0},
          {world.size() > 1 ? others : 0},
          {compute}};
}

}  // namespace mk::test
