// SPDX-License-Identifier: MIT
// tests/support/sum_rows.cc — operators that sum products over ranks, as tests of all operators see them.
//
// In: A and B; out: C.  With S the bytes of a shard (M/W rows), W ranks, R of them a node, N nodes, per rank and
// launch:
//
//   operator            NVLink           network        windows
//   gemm_rs             N·(R-1)·S        (N-1)·S        W·S + 2·(N-1)·S
//   gemm_ar             2·N·(R-1)·S      2·(N-1)·S      W·S + 2·(N-1)·S + N·S
//   gemm_ar, one shot   ·W·S        (N-1)·W·S      R·W·S + N·W·S, the second with several nodes only
//
// and 8 bytes a signal.
#include "base/math.h"
#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_ar/gemm_ar_targets.h"
#include "ops/gemm_rs/gemm_rs_configs.h"
#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "ops/gemm_rs/gemm_rs_targets.h"
#include "tests/support/layout_of.h"
#include "tests/support/sum_reference.h"

namespace mk::test {
namespace {

using gemm_ar_op::OneShotLayout;
using gemm_ar_op::TwoShotLayout;
using RsLayout = gemm_rs_op::Layout;

constexpr std::array<Shape, 6> kExactShapes = {
    {{1, 1, 1}, {7, 5, 3}, {32, 64, 4}, {33, 65, 7}, {2, 131, 35}, {67, 7, 1}}};
constexpr std::array<Shape, 4> kCutShapes = {{{1, 1, 1}, {33, 65, 17}, {67, 7, 1}, {129, 257, 3}}};
constexpr Shape kGpuShapes[] = {{1, 8, 8}, {37, 72, 72}, {65, 264, 24}, {3, 136, 328}};

const Split kCutSplits[] = {{{"compute", 1}, {"intra", 1}, {"reduce", 1}},
                            {{"compute", 5}, {"intra", 3}, {"reduce", 2}},
                            {{"compute", 114}, {"intra", 2}, {"reduce", 8}}};

OpSizes sizes_of(const Shape& trace) {
  return {.exact = kExactShapes,
          .several = {35, 65, 2},
          .race = {{{33, 7, 2}, {5, 65, 2}}},
          .race_split = {65, 5, 1},
          .chaos = {67, 3, 2},
          .trace = trace,
          .on_gpu = kGpuShapes,
          .gpu_several = {130, 264, 72},
          .gpu_crowded = {600, 520, 24},
          .gpu_replayed = {37, 136, 72}};
}

// What the three share.
class SumRow : public OpRow {
 public:
  SumRow(const char* name, SumKeeper keeper, const Shape& trace)
      : name_(name), keeper_(keeper), sizes_(sizes_of(trace)) {}

  const char* name() const override { return name_; }
  const OpSizes& sizes() const override { return sizes_; }

  RankData make(const WorldShape& world, const OpCase& at, Data data, std::mt19937_64& random) const override {
    const int64_t m = rows_of(world.size(), at);
    RankData own;
    fill(own.in.emplace_back(at.dtype, m, at.shape.k), data, random);
    own.in.push_back(matrix_b(at, data, random));
    own.out.emplace_back(at.dtype, keeper_ == SumKeeper::kOwner ? at.shape.shard_rows : m, at.shape.n);
    return own;
  }

  testing::AssertionResult judge(const LaunchData& launch) const override { return judge_sum(launch, keeper_, name_); }

  Split smallest_split(const WorldShape& world) const override {
    const int one = world.size() > 1 ? 1 : 0;
    Split split{{"compute", 1}, {"reduce", one}};
    if (keeper_ == SumKeeper::kAll) split["intra"] = one;
    return split;
  }

  std::span<const Split> cut_splits() const override { return kCutSplits; }
  std::span<const Shape> cut_shapes() const override { return kCutShapes; }
  Split few_workers() const override { return {{"compute", 2}, {"intra", 2}, {"reduce", 2}}; }

 protected:
  static int64_t rows_of(int size, const OpCase& at) { return at.shape.shard_rows * size + at.more_rows; }
  static int64_t shard_bytes(const OpCase& at) { return at.shape.shard_rows * at.shape.n * size_of(at.dtype); }
  static int64_t tiles_of(int64_t rows, int64_t cols) {
    return ceil_div<int64_t>(rows, 32) * ceil_div<int64_t>(cols, 64);
  }
  static gemm::Problem problem_of(const runtime::WorldState& world, std::span<const OpArgs> args) {
    return gemm::problem_of(world.shape(), world.members(), gemm_args_of(args));
  }

  // Of a ReduceScatter, and of the first half of an AllReduce in two shots.
  static int64_t scattered_bytes(const WorldShape& world, const OpCase& at) {
    const int64_t size = world.size();
    const int64_t windows = size == 1 ? 0 : (size + 2 * (world.nodes - 1)) * shard_bytes(at);
    const int64_t tiles = tiles_of(at.shape.shard_rows, at.shape.n);
    return windows + 8 * (size + (world.nodes > 1 ? 2 : 1) * world.nodes * tiles);
  }

 private:
  const char* const name_;
  const SumKeeper keeper_;
  const OpSizes sizes_;
};

std::vector<Noted> tile_notes(int64_t tiles, const std::function<int(int64_t)>& peer) {
  std::vector<Noted> notes;
  for (int64_t i = 0; i < tiles; ++i) notes.push_back({i, peer(i)});
  return notes;
}

struct RsFacts {
  // Everybody but itself is ready; every tile it reduces; what other nodes send.
  static size_t signals_used(const RsLayout& layout) {
    const WorldShape& world = layout.world;
    return (world.ranks - 1) + (world.nodes - 1) + (2 * world.nodes - 1) * layout.shard.tiles();
  }

  static std::vector<Noted> notes(const RsLayout& layout, EventKind kind, int rank) {
    if (kind == EventKind::kTileBegin || kind == EventKind::kTileEnd) {
      return tile_notes(layout.num_tiles(), [&](int64_t i) { return gemm_rs_op::tile_at(layout, rank, i).source; });
    }
    std::vector<Noted> notes;
    for (int64_t i = 0; layout.world.size() > 1 && i < layout.num_reduced(); ++i) {
      const int owner = gemm_rs_op::reduced_at(layout, rank, i).source;
      // A node's sum crosses the rail once to each owner, and an owner finishes its own tiles once.
      if (kind == EventKind::kTilePut && owner != rank) notes.push_back({i, owner});
      if (kind == EventKind::kTileReduced && owner == rank) notes.push_back({i, rank});
    }
    return notes;
  }

  // Own node last.
  static int turn(const WorldShape& world, int rank, int source) { return world.same_node(rank, source) ? 1 : 0; }
};

struct TwoShotFacts {
  // … and every finished tile that is not its own.
  static size_t signals_used(const TwoShotLayout& layout) {
    return RsFacts::signals_used(layout) + (layout.world.size() - 1) * layout.shard.tiles();
  }

  static std::vector<Noted> notes(const TwoShotLayout& layout, EventKind kind, int rank) {
    const WorldShape& world = layout.world;
    if (kind == EventKind::kTileTaken) {  // every other owner's tiles once, from the holder in the own node
      return tile_notes(layout.num_gathered(), [&](int64_t i) {
        return layout.holder_of(rank, gemm_ar_op::gathered_at(layout, rank, i).source);
      });
    }
    std::vector<Noted> notes = RsFacts::notes(layout, kind, rank);
    for (int64_t i = 0; kind == EventKind::kTilePut && i < layout.num_reduced(); ++i) {  // a finished tile, too
      if (gemm_rs_op::reduced_at(layout, rank, i).source != rank) continue;
      for (int step = 1; step < world.nodes; ++step) notes.push_back({i, rail_peer_at(world, rank, step)});
    }
    return notes;
  }

  static int turn(const WorldShape& world, int rank, int source) { return RsFacts::turn(world, rank, source); }
};

struct OneShotFacts {
  static size_t signals_used(const OneShotLayout& layout) {
    const WorldShape& world = layout.world;
    return (world.ranks - 1) + (world.nodes - 1) + world.nodes * layout.whole.tiles();
  }

  // Every rank makes and reduces every tile, and its node's sum goes to every rail peer.
  static std::vector<Noted> notes(const OneShotLayout& layout, EventKind kind, int rank) {
    const WorldShape& world = layout.world;
    if (kind == EventKind::kTileBegin || kind == EventKind::kTileEnd) {
      return tile_notes(layout.num_tiles(), [](int64_t) { return 0; });
    }
    if (kind == EventKind::kTileReduced && world.size() > 1) {
      return tile_notes(layout.num_tiles(), [=](int64_t) { return rank; });
    }
    std::vector<Noted> notes;
    for (int step = 1; kind == EventKind::kTilePut && step < world.nodes; ++step) {
      for (const Noted& note :
           tile_notes(layout.num_tiles(), [&](int64_t) { return rail_peer_at(world, rank, step); })) {
        notes.push_back(note);
      }
    }
    return notes;
  }

  static int turn(const WorldShape&, int, int) { return 0; }
};

class GemmRsRow : public SumRow {
 public:
  GemmRsRow() : SumRow("gemm_rs", SumKeeper::kOwner, {67, 129, 1}) {}

  void call(World& world, std::span<const OpArgs> args, const OpSettings& settings) const override {
    gemm_rs(world, gemm_args_of(args), {settings.split});
  }
  const runtime::Plan& plan(runtime::WorldState& world, std::span<const OpArgs> args,
                            const OpSettings& settings) const override {
    return gemm_rs_op::plan_for(world, problem_of(world, args), settings.split);
  }
  void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const OpArgs& args) const override {
    gemm_rs_op::launch_rank(world, plan, rank, gemm_args_of({&args, 1})[0]);
  }

  int64_t workspace_bytes(const World& world, const OpCase& at) const override {
    return gemm_rs_workspace_bytes(world, rows_of(world.size(), at), at.shape.n, at.shape.k, at.dtype);
  }
  int64_t expected_workspace(const WorldShape& world, const OpCase& at) const override {
    return scattered_bytes(world, at);
  }
  Traffic expected_traffic(const WorldShape& world, const OpCase& at) const override {
    const uint64_t shard = shard_bytes(at);
    return {world.nodes * (world.ranks - 1) * shard, (world.nodes - 1) * shard};
  }

  std::unique_ptr<AnyLayout> layout(const WorldShape& world, const OpCut& cut) const override {
    return std::make_unique<LayoutOf<RsLayout, RsFacts>>(rs_layout(world, cut));
  }
};

class GemmArRow : public SumRow {
 public:
  GemmArRow(const char* name, AllReducePath path, SumKeeper keeper) : SumRow(name, keeper, {35, 65, 1}), path_(path) {}

  void call(World& world, std::span<const OpArgs> args, const OpSettings& settings) const override {
    gemm_ar(world, gemm_args_of(args), {settings.split, path_});
  }
  const runtime::Plan& plan(runtime::WorldState& world, std::span<const OpArgs> args,
                            const OpSettings& settings) const override {
    return gemm_ar_op::plan_for(world, problem_of(world, args), path_, settings.split);
  }
  void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank, const OpArgs& args) const override {
    gemm_ar_op::launch_rank(world, plan, path_, rank, gemm_args_of({&args, 1})[0]);
  }
  int64_t workspace_bytes(const World& world, const OpCase& at) const override {
    return gemm_ar_workspace_bytes(world, rows_of(world.size(), at), at.shape.n, at.shape.k, at.dtype, path_);
  }

 private:
  const AllReducePath path_;
};

class TwoShotRow : public GemmArRow {
 public:
  TwoShotRow() : GemmArRow("gemm_ar", AllReducePath::kTwoShot, SumKeeper::kAll) {}

  int64_t expected_workspace(const WorldShape& world, const OpCase& at) const override {
    const int64_t finished = world.size() == 1 ? 0 : world.nodes * shard_bytes(at);
    return scattered_bytes(world, at) + finished + 8 * world.size() * tiles_of(at.shape.shard_rows, at.shape.n);
  }
  Traffic expected_traffic(const WorldShape& world, const OpCase& at) const override {
    const uint64_t shard = shard_bytes(at);
    return {2 * world.nodes * (world.ranks - 1) * shard, 2 * (world.nodes - 1) * shard};
  }

  std::unique_ptr<AnyLayout> layout(const WorldShape& world, const OpCut& cut) const override {
    return std::make_unique<LayoutOf<TwoShotLayout, TwoShotFacts>>(ar_layout(world, cut));
  }
};

class OneShotRow : public GemmArRow {
 public:
  OneShotRow() : GemmArRow("gemm_ar_one_shot", AllReducePath::kOneShot, SumKeeper::kEach) {}

  int64_t expected_workspace(const WorldShape& world, const OpCase& at) const override {
    const int64_t size = world.size();
    const int64_t other_nodes = world.nodes > 1 ? world.nodes : 0;
    const int64_t windows = size == 1 ? 0 : (world.ranks + other_nodes) * size * shard_bytes(at);
    return windows + 8 * (size + (1 + other_nodes) * tiles_of(size * at.shape.shard_rows, at.shape.n));
  }
  Traffic expected_traffic(const WorldShape& world, const OpCase& at) const override {
    const uint64_t shard = shard_bytes(at);
    return {(world.ranks - 1) * world.size() * shard, (world.nodes - 1) * world.size() * shard};
  }

  std::unique_ptr<AnyLayout> layout(const WorldShape& world, const OpCut& cut) const override {
    return std::make_unique<LayoutOf<OneShotLayout, OneShotFacts>>(one_shot_layout(world, cut));
  }
};

const gemm::TileShape& tile_of(const OpCut& cut) {
  return cut.tiling == Tiling::kCpu ? gemm_rs_op::kCpuTile : gemm_rs_op::kSm90Tile;
}

Roster roles_for(const OpRow& row, const WorldShape& world, const Split& split) {
  const Split least = row.smallest_split(world);
  const auto count = [&](const char* role) { return least.at(role) > 0 ? wanted(split, role) : 0; };
  if (least.contains("intra")) return {{count("intra")}, {count("reduce")}, {count("compute")}};
  return {{count("reduce")}, {count("compute")}};
}

}  // namespace

RsLayout rs_layout(const WorldShape& world, const OpCut& cut) {
  if (cut.tiling == Tiling::kChosen) {
    return gemm_rs_op::layout_for(problem_of(world, cut), {}, gpu_seats(world), DeviceKind::kCuda);
  }
  return gemm_rs_op::make_layout(problem_of(world, cut), tile_of(cut), roles_for(gemm_rs_row(), world, cut.split));
}

TwoShotLayout ar_layout(const WorldShape& world, const OpCut& cut) {
  if (cut.tiling == Tiling::kChosen) {
    return gemm_ar_op::two_shot_for(problem_of(world, cut), {}, gpu_seats(world), DeviceKind::kCuda);
  }
  const Roster roles = roles_for(gemm_ar_row(AllReducePath::kTwoShot), world, cut.split);
  return gemm_ar_op::make_two_shot(problem_of(world, cut), tile_of(cut), roles);
}

OneShotLayout one_shot_layout(const WorldShape& world, const OpCut& cut) {
  if (cut.tiling == Tiling::kChosen) {
    return gemm_ar_op::one_shot_for(problem_of(world, cut), {}, gpu_seats(world), DeviceKind::kCuda);
  }
  const Roster roles = roles_for(gemm_ar_row(AllReducePath::kOneShot), world, cut.split);
  return gemm_ar_op::make_one_shot(problem_of(world, cut), tile_of(cut), roles);
}

std::vector<GemmArgs> gemm_args_of(std::span<const OpArgs> args) {
  std::vector<GemmArgs> all;
  for (const OpArgs& own : args) all.push_back({own.in[0], own.in[1], own.out[0], own.form.b_order, own.stream});
  return all;
}

const OpRow& gemm_rs_row() {
  static const GemmRsRow row;
  return row;
}

const OpRow& gemm_ar_row(AllReducePath path) {
  static const TwoShotRow two_shots;
  static const OneShotRow one_shot;
  return path == AllReducePath::kOneShot ? static_cast<const OpRow&>(one_shot) : two_shots;
}

}  // namespace mk::test
