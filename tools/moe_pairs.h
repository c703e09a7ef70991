// SPDX-License-Identifier: MIT
// tools/moe_pairs.h — who brings which tokens to which experts in a launch, and what that moves: by plain loops, for
// whoever checks a run.
#pragma once

#include <cstdint>
#include <vector>

#include "core/world_shape.h"
#include "data_engine.h"
#include "mkernel/types.h"
#include "moe_routing.h"
#include "report.h"

namespace mk::tools {

// A row of an expert: a token of a rank and one of its slots.
struct MoePair {
  int rank = 0;
  int64_t pair = 0;  // token · topk + slot
};

struct MoeTraffic {
  uint64_t nvlink_bytes = 0;
  uint64_t network_bytes = 0;
  int64_t crossing_tokens = 0;  // to other nodes: once to each that has an expert of the token
};

class MoePairs {
 public:
  // Of the first launch all ranks have all tokens; of the others each has some of them, or none.  Rows lie as they do
  // on the device.
  MoePairs(const WorldShape& world, const MoeFields& fields, uint64_t seed, int launch, DeviceKind device);

  int64_t tokens(int rank) const { return static_cast<int64_t>(ids_[rank].size()) / fields_.topk; }
  const std::vector<int64_t>& asked_ids(int rank) const { return asked_[rank]; }
  const std::vector<int64_t>& ids(int rank) const { return ids_[rank]; }  // without those that are dropped
  std::vector<int32_t> dropped(int rank) const;                           // how many, of each slot
  const std::vector<MoePair>& of_expert(int expert) const { return by_expert_[expert]; }  // in the order of its rows
  int local_experts() const { return fields_.experts / world_.size(); }
  int64_t rows_on(int rank) const;

  int64_t most_rows() const;  // of an expert

  // What a rank moves: where tokens go to their experts, where results come back as well, and in the backward pass.  A
  // row has `row_bytes`.
  MoeTraffic traffic(int rank, uint64_t row_bytes) const;
  MoeTraffic layer_traffic(int rank, uint64_t row_bytes) const;
  MoeTraffic backward_traffic(int rank, uint64_t row_bytes) const;

 private:
  // Of a token on its way to experts, of a result, and of a sum of results that crosses.
  struct LayerBytes {
    uint64_t token;
    uint64_t result;
    uint64_t sum;
  };
  MoeTraffic there_and_back(int rank, const LayerBytes& bytes) const;
  // Of tokens [first_token, end_token) of a rank, those for experts of the node.
  void add_rows(int rank, int node, int64_t first_token, int64_t end_token);
  bool crosses(int rank, int64_t token, int node) const;
  int64_t crossing(int rank, int node) const;  // tokens of the rank that have an expert in that node

  WorldShape world_;
  MoeFields fields_;
  int64_t phase_tokens_;
  std::vector<std::vector<int64_t>> asked_, ids_;  // [rank][pair]
  std::vector<std::vector<MoePair>> by_expert_;
};

}  // namespace mk::tools
