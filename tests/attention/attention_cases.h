// SPDX-License-Identifier: MIT
// tests/attention/attention_cases.h — masks and orders that tests of the protocol go through.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/ring_attention_targets.h"
#include "tests/support/worlds.h"

namespace mk::test {

// What a rank sees of others depends on these alone.
struct AttentionForm {
  AttentionMask mask = {};
  SequenceOrder order = SequenceOrder::kContiguous;
};

inline std::string name_of(const AttentionForm& form) {
  std::string name = mk::name_of(form.mask.kind);
  if (form.mask.window.has_value()) name += "_window_" + std::to_string(*form.mask.window);
  return name + "_" + mk::name_of(form.order);
}

// Windows of one key, inside a tile, past a rank's rows of kRows, and past all.
inline std::vector<AttentionForm> attention_forms() {
  std::vector<AttentionForm> forms;
  for (const SequenceOrder order : {SequenceOrder::kContiguous, SequenceOrder::kZigzag}) {
    forms.push_back({{MaskKind::kFull}, order});
    forms.push_back({{MaskKind::kCausal}, order});
    for (const int64_t window : {1, 3, 13, 1000}) forms.push_back({{MaskKind::kCausal, window}, order});
  }
  return forms;
}

inline attention::Problem attention_problem(const WorldShape& world, const AttentionForm& form, int64_t rows,
                                            int64_t batch = 2, int64_t heads = 2, int64_t kv_heads = 1,
                                            int64_t dim = 3) {
  return {world, {batch, rows, heads, kv_heads, dim, DType::kFp32}, form.mask, form.order, {}};
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
