// SPDX-License-Identifier: MIT
// tests/support/op_layouts.h — how operators are cut, for tests where nothing runs or where what ran is compared.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/event.h"
#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "target/h200.h"
#include "target/ledger/ledger.h"
#include "target/sm90/communication_block.h"
#include "tests/support/op_table.h"

namespace mk::test {

struct Mutation;

// kChosen: tile, band and split are the library's choice on a GPU that the ranks share.
enum class Tiling { kCpu, kGpu, kChosen };

struct OpCut {
  Shape shape = {33, 65, 3};  // two row blocks and two columns of tiles a shard, the last ones short
  Tiling tiling = Tiling::kCpu;
  Split split = {};  // wanted workers: a role without work gets none; empty: one in each
  DType dtype = DType::kBf16;
};

// What a trace should hold.
struct Noted {
  int64_t subject = 0;
  int peer = -1;
  int times = 1;
};

// A layout of whatever operator.
class AnyLayout {
 public:
  virtual ~AnyLayout() = default;

  virtual ledger::Ledger account(int launches) const = 0;
  virtual ledger::Ledger account(int launches, Mutation& mutation) const = 0;

  // By formula, in the whole world.
  virtual size_t signals_used() const = 0;

  // By the schedule, of a rank in a launch.
  virtual std::vector<Noted> notes(EventKind kind, int rank) const = 0;
  // Which rows a rank's workers take first: those of a source with a smaller number.
  virtual int turn(int rank, int source) const = 0;
};

// Calls body(cut) for every shape, tiling and split of an operator.
template <class Body>
void for_each_cut(Op op, Body&& body) {
  for (const Tiling tiling : {Tiling::kCpu, Tiling::kGpu}) {
    for (const Split& split : row_of(op).cut_splits()) {
      for (const Shape& shape : row_of(op).cut_shapes()) {
        SCOPED_TRACE(name_of(shape) + (tiling == Tiling::kCpu ? ", tiles of a CPU, " : ", tiles of a GPU, ") +
                     std::to_string(split.at("compute")) + " compute workers");
        body(OpCut{shape, tiling, split});
      }
    }
  }
  for (const Shape& shape : row_of(op).cut_shapes()) {
    SCOPED_TRACE(name_of(shape) + ", as chosen for a GPU");
    body(OpCut{shape, Tiling::kChosen});
  }
}

// The SMs of a rank that has its share of a GPU.
inline Seats gpu_seats(const WorldShape& world) { return {h200::kSms / world.size(), sm90::kWorkersPerSm}; }

// The same with its layout.
template <class Body>
void for_each_layout(Op op, const WorldShape& world, Body&& body) {
  for_each_cut(op, [&](const OpCut& cut) { body(*row_of(op).layout(world, cut), cut); });
}

ag_gemm_op::Layout ag_layout(const WorldShape& world, const OpCut& cut = {});
gemm_rs_op::Layout rs_layout(const WorldShape& world, const OpCut& cut = {});
gemm_ar_op::TwoShotLayout ar_layout(const WorldShape& world, const OpCut& cut = {});
gemm_ar_op::OneShotLayout one_shot_layout(const WorldShape& world, const OpCut& cut = {});

inline gemm::Problem problem_of(const WorldShape& world, const OpCut& cut) {
  return {world, cut.shape.shard_rows * world.size(), cut.shape.n, cut.shape.k, cut.dtype};
}

// Workers of a role that has work.
inline int wanted(const Split& split, const char* role) { return split.empty() ? 1 : split.at(role); }

}  // namespace mk::test
