// SPDX-License-Identifier: MIT
// ops/gemm/gemm_sim.h — the protocols of GEMM operators under virtual time.
//
// GemmData holds the inputs and outputs of every launch, so that a run on a small problem is checked element by
// element. Predictions of large problems have no data.  With data, the load, maths and store jobs of a compute block
// are separate fibres, as they are separate warps on a GPU.  Without data, one fibre does all of a tile: the costs are
// fitted to that, and large worlds fit into memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/gemm/gemm_compute.h"
#include "ops/gemm/gemm_host_body.h"
#include "target/h200.h"
#include "target/sim/gate.h"
#include "target/sim/sim_machine.h"

namespace mk::gemm {

// Small whole numbers in fp32: every sum is exact, in any order.
class GemmData {
 public:
  // What a row of C is: the product of one rank's rows with the own B, or the sum of all ranks' products.
  enum class Result { kOfOneRank, kOfAllRanks };

  struct Shape {
    int ranks = 0;
    int64_t m = 0;       // rows of the whole result
    int64_t a_rows = 0;  // of a rank
    int64_t k = 0;
    TileImage image;
    Output output = Output::kShard;
    Result result = Result::kOfAllRanks;
  };

  GemmData(const Shape& shape, int launches, uint64_t seed);

  const std::byte* a(int rank, uint64_t epoch) const {
    return reinterpret_cast<const std::byte*>(a_[index(rank, epoch)].data());
  }
  GemmOperands operands(int rank, uint64_t epoch);
  void count_write(int rank, uint64_t epoch, const Tile& tile);

  // Empty if every element of every launch is right and was written once; else the first that is not.
  std::string first_error() const;

 private:
  size_t index(int rank, uint64_t epoch) const { return (epoch - 1) * shape_.ranks + rank; }
  int64_t c_rows() const { return shape_.output == Output::kAll ? shape_.m : shape_.image.rows; }
  float product(const std::vector<float>& a, const std::vector<float>& b, int64_t row, int64_t col) const;
  float exact(int rank, uint64_t epoch, int64_t row, int64_t col) const;

  Shape shape_;
  int launches_;
  BOrder b_order_;
  std::vector<std::vector<float>> a_, b_, c_;  // [launch · ranks + rank]
  std::vector<std::vector<int>> visits_;       // of each tile of C
};

template <class Layout>
GemmData make_data(const Layout& layout, int launches, uint64_t seed) {
  return GemmData({layout.world.size(), layout.m(), layout.a_rows(), layout.k, layout.image(), Layout::kOutput,
                   Layout::kGathers ? GemmData::Result::kOfOneRank : GemmData::Result::kOfAllRanks},
                  launches, seed);
}

// What a world needs to run this layout; `data` may be null.
template <class Layout>
sim::SimSpec sim_spec(const Layout& layout, const GemmData* data) {
  sim::SimSpec spec;
  spec.world = layout.world;
  spec.roles = layout.roles;
  spec.window_bytes = window_bytes(layout);
  spec.num_signals = layout.num_signals();
  spec.names = {Layout::kRoles, [layout](uint32_t signal) { return signal_name(layout, signal); }};
  spec.put_lanes = static_cast<int>(layout.most_puts() > 0 ? layout.most_puts() : 1);
  spec.with_data = data != nullptr;
  spec.separate_jobs = data != nullptr;
  if (data != nullptr) spec.input = [data](int rank, uint64_t epoch, int) { return data->a(rank, epoch); };
  return spec;
}

// What the workers of a block do inside a tile in one launch: its cost, and with data the maths itself.
template <class Layout>
class SimBody {
 public:
  SimBody(sim::SimWorld& world, const Layout& layout, int rank, uint64_t epoch, GemmData* data)
      : layout_(layout), image_(layout.image()), rank_(rank), epoch_(epoch), data_(data) {
    if (data != nullptr) host_.emplace(layout, rank, data->operands(rank, epoch), Resolve{&world, epoch});
  }

  // As shared memory takes rows: what happens to them later does not matter.
  void load(const Tile& tile) {
    if (!host_) return;
    const auto* const rows = reinterpret_cast<const float*>(host_resolve(layout_.rows_place(rank_, tile)));
    loaded_.emplace_back(rows, rows + layout_.rows_bytes(tile) / sizeof(float));
  }
  void multiply(const Tile& tile) {
    if (!host_) return;
    host_->multiply(tile, loaded_.front().data());
    loaded_.pop_front();
  }
  void hand_over() {
    if (host_) host_->hand_over();
  }
  void store(const Tile& tile, const Place& to) {
    if (host_) host_->store(tile, to);
  }
  void sum(const Tile& tile, const sums::Addends& addends, const Place& to) {
    if (host_) host_->sum(tile, addends, to);
  }
  void write(const Tile& tile) {
    if (wrote(tile)) host_->write(tile);
  }
  void finish(const Tile& tile, const sums::NodeSums& all) {
    if (wrote(tile)) host_->finish(tile, all);
  }
  void finish_to(const Tile& tile, const sums::NodeSums& all, const Place& to) {
    if (wrote(tile)) host_->finish_to(tile, all, to);
  }
  void take(const Tile& tile, const Place& from) {
    if (wrote(tile)) host_->take(tile, from);
  }

  // A short tile costs an SM as much as a whole one.
  sim::TileWork work() const {
    return {2.0 * static_cast<double>(image_.tile_m) * image_.tile_n * static_cast<double>(layout_.k)};
  }

 private:
  struct Resolve {
    sim::SimWorld* world;
    uint64_t epoch;
    std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
  };
  std::byte* host_resolve(const Place& place) const { return host_->resolve()(place); }

  // Counts a write of a tile of C; false without data.
  bool wrote(const Tile& tile) {
    if (host_) data_->count_write(rank_, epoch_, tile);
    return host_.has_value();
  }

  const Layout& layout_;
  const TileImage image_;
  const int rank_;
  const uint64_t epoch_;
  GemmData* data_;
  std::optional<HostBody<float, Layout, Resolve>> host_;
  std::deque<std::vector<float>> loaded_;
};

// What a block of a GPU does for a tile of the layout: with the tile's own rate, and its overheads in those of a usual
// tile.
template <class Layout>
sim::TileWork gpu_work(const Layout& layout) {
  const TileImage image = layout.image();
  const int cluster = layout.cluster;
  const h200::TileCost its = h200::cost_of_tile(image.tile_m / cluster, image.tile_n, cluster);
  return {its.block_cost() * h200::blocks_of_k(layout.k) * h200::kFlopsPerBlock,
          its.block_cost() * its.border / h200::kUsualBorder, its.block_cost() * its.launch / h200::kUsualLaunch};
}

// The same for one worker: multiply takes its time, and so do writes of the result by those that communicate.
template <class M, class Layout>
class TimedBody : public SimBody<Layout> {
 public:
  using Body = SimBody<Layout>;

  TimedBody(M& machine, sim::SimWorld& world, const Layout& layout, int rank, uint64_t epoch, GemmData* data)
      : Body(world, layout, rank, epoch, data), m_(machine), image_(layout.image()), work_(gpu_work(layout)) {}

  void multiply(const Tile& tile) {
    m_.compute(work_, tile.number);
    work_.fills = 0;  // a launch fills its pipeline once
    Body::multiply(tile);
  }
  void sum(const Tile& tile, const sums::Addends& addends, const Place& to) {
    Body::sum(tile, addends, to);
    m_.sum((addends.count() + 1) * bytes(tile));
  }
  void finish(const Tile& tile, const sums::NodeSums& all) {
    Body::finish(tile, all);
    m_.sum((all.count() + 1) * bytes(tile));
    m_.write_result(bytes(tile));
  }
  void finish_to(const Tile& tile, const sums::NodeSums& all, const Place& to) {
    Body::finish_to(tile, all, to);
    m_.sum((all.count() + 1) * bytes(tile));
    m_.write_result(bytes(tile));
  }
  void take(const Tile& tile, const Place& from) {
    Body::take(tile, from);
    m_.write_result(bytes(tile));
  }

 private:
  uint64_t bytes(const Tile& tile) const { return image_.tile_bytes(tile).count; }

  M& m_;
  const TileImage image_;
  sim::TileWork work_;
};

// What the jobs of a block share in a launch.
template <class Layout>
struct SimBlock {
  SimBlock(sim::SimWorld& world, const Layout& layout, const sim::Worker& worker, GemmData* data)
      : epoch(worker.epoch),
        body(world, layout, worker.rank, worker.epoch, data),
        loaded(world),
        multiplied(world),
        stored(world) {}

  uint64_t epoch;
  SimBody<Layout> body;
  sim::Gate loaded;      // tiles
  sim::Gate multiplied;  // and handed over
  sim::Gate stored;
};

// One job's launch.  The load job runs ahead of the maths; a tile is stored while the next is multiplied, whose product
// stays in registers until the store job has taken the one before.
template <class M, class Layout>
void run_job(sim::SimWorld& world, sim::Worker& worker, M& m, const Layout& layout, SimBlock<Layout>& block) {
  int64_t tiles = 0;
  for_each_tile(layout, m.rank(), worker.post, [&](const Tile& tile) {
    const auto pass = [&](sim::Gate& gate, int64_t times, const char* what) {
      return gate.pass(world, worker, times, what, tile.number);
    };
    const int64_t number = tiles++;
    switch (worker.job) {
      case sim::Job::kLoad:
        if (!pass(block.multiplied, number + 1 - world.core().spec.load_ahead, "a free stage")) return false;
        if (!load_step(m, layout, tile)) return false;
        block.body.load(tile);
        block.loaded.open(world, worker);
        return true;
      case sim::Job::kMaths:
        if (!pass(block.loaded, number + 1, "its operands")) return false;
        m.compute(block.body.work(), tile.number);
        block.body.multiply(tile);
        if (!pass(block.stored, number, "the tile before to leave")) return false;
        block.body.hand_over();
        block.multiplied.open(world, worker);
        return true;
      default:
        if (!pass(block.multiplied, number + 1, "its product")) return false;
        if (!store_step(m, layout, tile, block.body)) return false;
        block.stored.open(world, worker);
        return true;
    }
  });
}

// Every launch on a world; with data, a wrong result is a complaint too.
template <class M = sim::SimMachine, class Layout>
void simulate_world(sim::SimWorld& world, const Layout& layout, int launches, GemmData* data) {
  const int per_rank = layout.roles.num_compute();
  std::vector<std::unique_ptr<SimBlock<Layout>>> blocks(static_cast<size_t>(layout.world.size()) * per_rank);
  world.run(launches, [&](sim::Worker& worker) {
    M machine(world, worker);
    if (worker.job == sim::Job::kAll) {
      TimedBody<M, Layout> body(machine, world, layout, worker.rank, worker.epoch, data);
      return work(machine, layout, in_cluster(layout, worker.post), body);
    }
    // All jobs of a launch have left when the first of the next comes.
    auto& block = blocks[worker.rank * per_rank + worker.post.index];
    if (block == nullptr || block->epoch != worker.epoch) {
      block = std::make_unique<SimBlock<Layout>>(world, layout, worker, data);
    }
    run_job(world, worker, machine, layout, *block);
  });
  if (data == nullptr || world.core().stopped()) return;
  if (const std::string error = data->first_error(); !error.empty()) world.core().complain("result", error);
}

}  // namespace mk::gemm
