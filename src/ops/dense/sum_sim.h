// SPDX-License-Identifier: MIT
// ops/dense/sum_sim.h — the protocols that sum products over ranks, under virtual time.
//
// SumData holds the inputs and outputs of every launch, so that a run on a small problem is checked
// element by element; predictions of large ones go without.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/dense/host_body.h"
#include "ops/dense/no_body.h"
#include "target/sim/sim_machine.h"

namespace mk::dense {

// Small whole numbers in fp32: every sum is exact, in any order.
class SumData {
 public:
  struct Shape {
    int ranks = 0;
    int64_t m = 0;  // rows of the whole result
    int64_t k = 0;
    TileImage image;
    Output output = Output::kShard;
  };

  SumData(const Shape& shape, int launches, uint64_t seed);

  GemmArgs args(int rank, uint64_t epoch);
  void count_write(int rank, uint64_t epoch, const Tile& tile);

  // Empty if every element of every launch is right and was written once; else the first that is not.
  std::string first_error() const;

 private:
  size_t index(int rank, uint64_t epoch) const { return (epoch - 1) * shape_.ranks + rank; }
  int64_t c_rows() const { return shape_.output == Output::kAll ? shape_.m : shape_.image.rows; }
  float exact(uint64_t epoch, int64_t row, int64_t col) const;

  Shape shape_;
  int launches_;
  BOrder b_order_;
  std::vector<std::vector<float>> a_, b_, c_;  // [launch · ranks + rank]
  std::vector<std::vector<int>> visits_;       // of each tile of C
};

template <class Layout>
SumData make_data(const Layout& layout, int launches, uint64_t seed) {
  return SumData({layout.world.size(), layout.m(), layout.k, layout.image(), Layout::kOutput}, launches, seed);
}

// What a world needs to run this layout.
template <class Layout>
sim::SimSpec sim_spec(const Layout& layout) {
  sim::SimSpec spec;
  spec.world = layout.world;
  spec.roles = layout.roles;
  spec.window_bytes = window_bytes(layout);
  spec.num_signals = layout.num_signals();
  spec.names = {Layout::kRoles, [layout](uint32_t signal) { return signal_name(layout, signal); }};
  spec.put_lanes = static_cast<int>(layout.most_puts() > 0 ? layout.most_puts() : 1);
  return spec;
}

// Tile maths of a simulated worker: its cost, and with data the maths itself.
template <class M>
class SimBody {
 public:
  SimBody(M& m, const TileImage& image, int64_t k, Output output, SumData* data)
      : m_(m), image_(image), k_(k), data_(data) {
    if (data != nullptr) host_.emplace(image, k, data->args(m.rank(), m.epoch()), output, Resolve{&m});
  }

  void multiply(const Tile& tile) {
    // A short tile costs an SM as much as a whole one.
    const double elements = static_cast<double>(image_.tile_m) * image_.tile_n;
    m_.compute(Place{kInputWindow, m_.rank(), 0}, 0, 2 * elements * static_cast<double>(k_), tile.number);
    if (host_) host_->multiply(tile);
  }
  void store(const Tile& tile, const Place& to) {
    if (host_) host_->store(tile, to);
  }
  void sum(const Tile& tile, const Addends& addends, const Place& to) {
    if (host_) host_->sum(tile, addends, to);
  }
  void write(const Tile& tile) {
    if (wrote(tile)) host_->write(tile);
  }
  void finish(const Tile& tile, const NodeSums& sums) {
    if (wrote(tile)) host_->finish(tile, sums);
  }
  void finish_to(const Tile& tile, const NodeSums& sums, const Place& to) {
    if (wrote(tile)) host_->finish_to(tile, sums, to);
  }
  void take(const Tile& tile, const Place& from) {
    if (wrote(tile)) host_->take(tile, from);
  }

 private:
  struct Resolve {
    M* m;
    std::byte* operator()(const Place& place) const { return m->sim().memory().at(place, m->epoch()); }
  };

  // Counts a write of a tile of C; false without data.
  bool wrote(const Tile& tile) {
    if (host_) data_->count_write(m_.rank(), m_.epoch(), tile);
    return host_.has_value();
  }

  M& m_;
  const TileImage image_;
  const int64_t k_;
  SumData* data_;
  std::optional<HostBody<float, Resolve>> host_;
};

// Every launch on a world; with data, a wrong result is a complaint too.
template <class M = sim::SimMachine, class Layout>
void simulate_world(sim::SimWorld& world, const Layout& layout, int launches, SumData* data) {
  world.run(launches, [&](sim::Worker& worker) {
    M machine(world, worker);
    SimBody<M> body(machine, layout.image(), layout.k, Layout::kOutput, data);
    work(machine, layout, worker.post, body);
  });
  if (data == nullptr || world.core().stopped()) return;
  if (const std::string error = data->first_error(); !error.empty()) world.core().complain("result", error);
}

}  // namespace mk::dense
