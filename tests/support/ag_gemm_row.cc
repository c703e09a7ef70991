// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_row.cc — AllGather+GEMM, as tests of all operators see it.
//
// In: A, B and, if there is one, the bias; out: C.
#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "tests/support/ag_gemm_reference.h"
#include "tests/support/layout_of.h"

namespace mk::test {
namespace {

using ag_gemm_op::Layout;

// Rows a rank has: 1, a prime, one past a tile.  N and K: the smallest TMA takes, odd multiples of it,
// one step past a tile, one step past a stage of k, past all stages.
constexpr Shape kGpuShapes[] = {{1, 8, 8}, {37, 72, 72}, {129, 264, 24}, {3, 248, 328}};

constexpr std::array<Shape, kShapes.size() + kLargeShapes.size()> kCutShapes = [] {
  std::array<Shape, kShapes.size() + kLargeShapes.size()> all{};
  std::copy(kLargeShapes.begin(), kLargeShapes.end(), std::copy(kShapes.begin(), kShapes.end(), all.begin()));
  return all;
}();

const OpSizes kSizes{.exact = kShapes,
                     .several = {97, 65, 3},
                     .race = {{{33, 7, 5}, {65, 65, 2}}},
                     .race_split = {97, 5, 3},
                     .chaos = {97, 3, 5},
                     .chaos_seeds = 3,
                     .trace = {67, 129, 3},
                     .between_processes = DType::kFp32,
                     .on_gpu = kGpuShapes,
                     .gpu_several = {300, 264, 136},
                     .gpu_crowded = {600, 520, 136},
                     .gpu_replayed = {130, 264, 136}};

// Of the last, intra sits inside.
const Split kCutSplits[] = {{{"compute", 1}, {"intra", 1}, {"send", 1}},
                            {{"compute", 5}, {"intra", 2}, {"send", 1}},
                            {{"compute", 7}, {"intra", 3}, {"send", 2}},
                            {{"compute", 114}, {"intra", 16}, {"send", 2}},
                            {{"compute", 7}, {"send", 2}}};

Roster roles_for(const WorldShape& world, const Split& split) {
  const int send = world.nodes > 1 ? wanted(split, "send") : 0;
  const int compute = wanted(split, "compute");
  if (world.ranks == 1) return ag_gemm_op::roster(0, send, compute);
  if (!split.empty() && !split.contains("intra")) return ag_gemm_op::roster_with_intra_inside(send, compute);
  return ag_gemm_op::roster(wanted(split, "intra"), send, compute);
}

struct Facts {
  // A rank is told by every peer of its node and of its rail that it is ready, and of the arrival of every chunk that
  // is not its own; and of every part that it passes on.
  static size_t signals_used(const Layout& layout) {
    const WorldShape& world = layout.world;
    const size_t others = world.nodes - 1;
    const size_t ready = (world.ranks - 1) + others;
    const size_t landed = world.ranks > 1 ? others * layout.num_parts() : 0;
    return ready + (world.size() - 1) * layout.row_blocks + landed;
  }

  static std::vector<Noted> notes(const Layout& layout, EventKind kind, int rank) {
    const WorldShape& world = layout.world;
    std::vector<Noted> notes;
    const auto note_shard = [&](int source, int peer) {
      for (int chunk = 0; chunk < layout.row_blocks; ++chunk) {
        notes.push_back({layout.chunk_number(source, chunk), peer, layout.parts});
      }
    };
    if (kind == EventKind::kTileBegin || kind == EventKind::kTileEnd) {
      for (int64_t i = 0; i < layout.num_tiles(); ++i) {
        notes.push_back({i, ag_gemm_op::tile_at(layout, rank, i).source});
      }
    }
    if (kind == EventKind::kChunkPut) {  // a shard crosses each rail once
      for (int step = 1; step < world.nodes; ++step) note_shard(rank, rail_peer_at(world, rank, step));
    }
    if (kind == EventKind::kChunkCopied) {  // a rank spreads its rail's chunks in its node once
      for (int node = 0; node < world.nodes; ++node) {
        for (int step = 1; step < world.ranks; ++step) {
          note_shard(world.rank_at(node, world.local_of(rank)), peer_at(world, rank, step));
        }
      }
    }
    return notes;
  }

  // Own rows, the node's, other nodes'.
  static int turn(const WorldShape& world, int rank, int source) {
    return source == rank ? 0 : world.same_node(rank, source) ? 1 : 2;
  }
};

std::vector<AgGemmArgs> typed(std::span<const OpArgs> args) {
  std::vector<AgGemmArgs> all;
  for (const OpArgs& own : args) {
    all.push_back({.a = own.in[0],
                   .b = own.in[1],
                   .c = own.out[0],
                   .bias = own.in.size() > 2 ? own.in[2] : Tensor{},
                   .b_order = own.form.b_order,
                   .activation = own.form.activation,
                   .stream = own.stream});
  }
  return all;
}

class AgGemmRow : public OpRow {
 public:
  const char* name() const override { return "ag_gemm"; }
  const OpSizes& sizes() const override { return kSizes; }

  RankData make(const WorldShape& world, const OpCase& at, Data data, std::mt19937_64& random) const override {
    RankData own;
    fill(own.in.emplace_back(at.dtype, at.shape.shard_rows, at.shape.k), data, random);
    own.in.push_back(matrix_b(at, data, random));
    if (at.form.has_bias) fill(own.in.emplace_back(at.dtype, 1, at.shape.n), data, random);
    own.out.emplace_back(at.dtype, at.shape.shard_rows * world.size(), at.shape.n);
    return own;
  }

  testing::AssertionResult judge(const LaunchData& launch) const override { return judge_ag_gemm(launch); }

  void call(World& world, std::span<const OpArgs> args, const OpSettings& settings) const override {
    ag_gemm(world, typed(args), {settings.split, settings.tile});
  }
  const runtime::Plan& plan(runtime::WorldState& world, std::span<const OpArgs> args,
                            const OpSettings& settings) const override {
    const gemm::Problem problem = ag_gemm_op::problem_of(world.shape(), world.members(), typed(args));
    return ag_gemm_op::plan_for(world, problem, {settings.split, settings.tile});
  }
  void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const OpArgs& args) const override {
    ag_gemm_op::launch_rank(world, plan, rank, typed({&args, 1})[0]);
  }

  Split smallest_split(const WorldShape& world) const override {
    return {{"compute", 1}, {"intra", world.ranks > 1 ? 1 : 0}, {"send", world.nodes > 1 ? 1 : 0}};
  }

  int64_t workspace_bytes(const World& world, const OpCase& at) const override {
    const auto& [shape, dtype, form, more_rows] = at;
    return ag_gemm_workspace_bytes(world, shape.shard_rows * world.size() + more_rows, shape.n, shape.k, dtype);
  }
  // The gathered rows, and a signal for each chunk, rank, and part that is passed on.  A part has 96 bytes.
  int64_t expected_workspace(const WorldShape& world, const OpCase& at) const override {
    const int64_t size = world.size();
    const int64_t row_bytes = at.shape.k * size_of(at.dtype);
    const int64_t chunks = ceil_div<int64_t>(at.shape.shard_rows, 32);
    const int64_t parts = ceil_div<int64_t>(std::min<int64_t>(at.shape.shard_rows, 32) * row_bytes, 96);
    const int64_t passed_on = world.nodes > 1 && world.ranks > 1 ? world.nodes * chunks * parts : 0;
    const int64_t gathered = size == 1 ? 0 : size * at.shape.shard_rows * row_bytes;
    return gathered + (size + size * chunks + passed_on) * 8;
  }
  // Each shard crosses each rail once, and NVLink once for each peer of each node.
  Traffic expected_traffic(const WorldShape& world, const OpCase& at) const override {
    const uint64_t shard = at.shape.shard_rows * at.shape.k * size_of(at.dtype);
    return {world.nodes * (world.ranks - 1) * shard, (world.nodes - 1) * shard};
  }

  std::span<const Split> cut_splits() const override { return kCutSplits; }
  std::span<const Shape> cut_shapes() const override { return kCutShapes; }
  // Several tiles of a worker await one signal.
  Split few_workers() const override { return {{"compute", 3}, {"intra", 2}, {"send", 2}}; }
  std::unique_ptr<AnyLayout> layout(const WorldShape& world, const OpCut& cut) const override {
    return std::make_unique<LayoutOf<Layout, Facts>>(ag_layout(world, cut));
  }
};

}  // namespace

Layout ag_layout(const WorldShape& world, const OpCut& cut) {
  if (cut.tiling == Tiling::kChosen) {
    return ag_gemm_op::layout_for(problem_of(world, cut), {}, gpu_seats(world), DeviceKind::kCuda);
  }
  const auto& tile = cut.tiling == Tiling::kCpu ? ag_gemm_op::kCpuTile : ag_gemm_op::kSm90Tile;
  return ag_gemm_op::make_layout(problem_of(world, cut), tile, roles_for(world, cut.split));
}

const OpRow& ag_gemm_row() {
  static const AgGemmRow row;
  return row;
}

}  // namespace mk::test
