// SPDX-License-Identifier: MIT
// tools/report.h — what one run of one operator found, as a row of a table and as a JSON object.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "judge.h"
#include "mkernel/network_stats.h"
#include "mkernel/ring_attention.h"
#include "mkernel/types.h"
#include "moe_routing.h"

namespace mk::tools {

// Of all ranks and launches together.
struct NetworkSum {
  NetworkStats stats;

  std::array<uint64_t, 6> numbers() const {
    return {stats.commands, stats.puts, stats.bytes, stats.batches, stats.largest_batch, stats.full};
  }
  void add(const NetworkStats& other) {
    stats.commands += other.commands;
    stats.puts += other.puts;
    stats.bytes += other.bytes;
    stats.batches += other.batches;
    stats.largest_batch = std::max(stats.largest_batch, other.largest_batch);
    stats.full += other.full;
  }
};

// What only a mixture of experts has.
struct MoeFields {
  int64_t tokens = 0;  // of a rank, at most
  int experts = 0;
  int topk = 0;
  Routing routing = Routing::kUniform;
  Direction direction = Direction::kForward;
  float clamp = 0;                       // of a layer's activation; 0: none
  std::optional<int64_t> max_rows = {};  // of a rank: what is more is dropped; empty: as many as are routed to it
  double crossing_tokens = 0;            // of a rank and launch, on average: once to each node
  double dropped_pairs = 0;              // likewise
};

// What only attention has.
struct AttentionFields {
  Direction direction = Direction::kForward;
  int64_t batch = 1;
  int64_t seq = 0;  // of all ranks together
  int64_t heads = 0;
  int64_t kv_heads = 0;
  AttentionMask mask = {};
  SequenceOrder layout = SequenceOrder::kContiguous;
  float scale = 1;
  bool sink = false;
  std::vector<int32_t> cu_seqlens = {};  // of packed sequences
  double flops = 0;                      // of a rank, on average: only for keys that queries see
};

struct Row {
  std::string op;
  DeviceKind device = DeviceKind::kCpu;
  std::string device_name;
  int nodes = 0;
  int ranks = 0;         // per node
  std::string launcher;  // thread, fork or env
  std::string fabric;    // between nodes; none where there is one
  std::string reach;     // of the fabric: how it gets at windows
  int64_t m = 0;         // of a mixture of experts the rows that a rank gets, on average; of attention a rank's queries
  int64_t n = 0;
  int64_t k = 0;
  int products = 1;  // of M×N×K that a rank multiplies: a layer of experts has three, and twice that backwards
  std::optional<MoeFields> moe;
  std::optional<AttentionFields> attention;  // has --seq keys of K elements for its M queries
  DType dtype = DType::kBf16;
  int launches = 0;
  uint64_t seed = 0;
  double time_us = 0;  // median over launches of the slowest rank's time
  double tflops_per_rank = 0;
  uint64_t nvlink_bytes = 0;  // counted; of the busiest rank, for one launch
  uint64_t network_bytes = 0;
  int64_t workspace_bytes = 0;  // of a rank
  NetworkSum network;
  CheckResult check;

  bool correct() const { return check.wrong == 0; }
};

// What --mask says of it.
std::string mask_text(const AttentionMask& mask);

// The flags that say the shape.
std::string shape_flags(const Row& row);

std::string table_header();
std::string table_row(const Row& row);

// What proxies carried, for people; empty if there is one node.
std::string stats_row(const Row& row);

// One line without its end.  A number that is none (an error of NaN) is null.
std::string to_json(const Row& row);

}  // namespace mk::tools
