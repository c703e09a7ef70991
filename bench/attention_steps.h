// SPDX-License-Identifier: MIT
// bench/attention_steps.h — attention of one rank by the engine alone, in one launch or in several: for baselines.
#pragma once

#include <span>

#include "base/cuda_api.h"
#include "bench/attention_case.h"
#include "bench/attention_sets.h"

namespace mk::bench {

// Keys and values of ranks that follow each other from `first_rank` on; positions are those of the case.
struct KeysOfRanks {
  const void* k = nullptr;
  const void* v = nullptr;
  int first_rank = 0;
  int ranks = 1;
};

struct AttentionStep {
  int rank = 0;
  const AttentionRankTensors& own;
  KeysOfRanks keys;
  void* states = nullptr;       // attention_state_bytes; null: the only launch
  bool is_first = true;         // else it goes on with the state
  bool is_last = true;          // else it leaves a state
  uint64_t* claimed = nullptr;  // zero
  int blocks = 1;
};

int64_t attention_state_bytes(const BenchCase& c);

// Whether queries of `rank` see keys of `source`.
bool sees(const BenchCase& c, int rank, int source);

void launch(const BenchCase& c, const AttentionStep& step, cudaStream_t stream);

}  // namespace mk::bench
