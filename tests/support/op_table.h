// SPDX-License-Identifier: MIT
// tests/support/op_table.h — the operators, as tests of all of them see them: a row each.
//
// A row says what a launch brings and what is right, how the operator is called, planned and launched, what it must
// move and hold, and how large a problem each kind of test takes.  Tests go through kOps; an operator joins them with
// a row in op_table.cc.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "mkernel/mkernel.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"
#include "tests/support/matrix.h"
#include "tests/support/worlds.h"

namespace mk::test {

enum class Op { kAgGemm, kGemmRs, kGemmAr, kGemmArOneShot };
inline constexpr std::array<Op, 4> kOps = {Op::kAgGemm, Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot};

std::string name_of(Op op);
inline void PrintTo(Op op, std::ostream* out) { *out << name_of(op); }

// Exact data are whole numbers in [-4, 4], so that sums of products are exact in fp32; uniform data lie in
// [-1, 1).
enum class Data { kExact, kUniform };

// What else a call may ask for: an operator without bias and activation takes the order of B.
struct GemmForm {
  BOrder b_order = BOrder::kKN;
  Activation activation = Activation::kNone;
  bool has_bias = false;
};

// "NK_bias_GELU"
std::string name_of(const GemmForm& form);

// What a launch is of.
struct OpCase {
  Shape shape = {};
  DType dtype = DType::kFp32;
  GemmForm form = {};
  int64_t more_rows = 0;  // where the world need not divide M
};

// The tensors of a rank; the row knows which is which.
struct RankData {
  std::vector<Matrix> in;
  std::vector<Matrix> out;
};

struct LaunchData {
  WorldShape world;
  OpCase at;
  Data data = Data::kExact;
  std::vector<RankData> ranks;
};

// What a rank brings to a call.  Tensors are in the order of its RankData.
struct OpArgs {
  std::vector<Tensor> in;
  std::vector<Tensor> out;
  GemmForm form = {};
  Stream stream = nullptr;
};

struct OpSettings {
  Split split = {};
  TileSize tile = {};  // for those that let the caller choose
};

// Per rank and launch.
struct Traffic {
  uint64_t nvlink_bytes = 0;
  uint64_t network_bytes = 0;
};

// How large a problem each kind of test takes.  The host checks every element; where every rank multiplies all rows,
// they are fewer.
struct OpSizes {
  std::span<const Shape> exact;  // all there are, on CPUs
  Shape several;                 // several row blocks a shard
  std::array<Shape, 2> race;     // for ThreadSanitizer,
  Shape race_split;              // and with several workers in a role
  Shape chaos;                   // many puts, little else
  uint64_t chaos_seeds = 2;
  Shape trace;                             // several row blocks and columns of tiles a shard
  DType between_processes = DType::kBf16;  // on CPUs
  std::span<const Shape> on_gpu;           // with every tail that a GPU's tiles have
  Shape gpu_several;                       // several row blocks a shard
  Shape gpu_crowded;                       // dozens of tiles for one block
  Shape gpu_replayed;                      // by a graph
};

class AnyLayout;
struct OpCut;

class OpRow {
 public:
  virtual ~OpRow() = default;
  virtual const char* name() const = 0;
  virtual const OpSizes& sizes() const = 0;

  // The inputs of a rank, filled, and its outputs as they are to be.
  virtual RankData make(const WorldShape& world, const OpCase& at, Data data, std::mt19937_64& random) const = 0;
  // Names the first element of any rank that is wrong.
  virtual testing::AssertionResult judge(const LaunchData& launch) const = 0;

  // The public call, for the ranks that are here; and what it is made of, for tests that launch some of the ranks.
  virtual void call(World& world, std::span<const OpArgs> args, const OpSettings& settings) const = 0;
  virtual const runtime::Plan& plan(runtime::WorldState& world, std::span<const OpArgs> args,
                                    const OpSettings& settings) const = 0;
  virtual void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, int rank,
                           const OpArgs& args) const = 0;

  // One worker in each role the operator has in this world.
  virtual Split smallest_split(const WorldShape& world) const = 0;

  virtual int64_t workspace_bytes(const World& world, const OpCase& at) const = 0;
  // By formula, the workspace on a CPU, whose tiles decide how many signals there are.
  virtual int64_t expected_workspace(const WorldShape& world, const OpCase& at) const = 0;
  virtual Traffic expected_traffic(const WorldShape& world, const OpCase& at) const = 0;

  // How it is cut, for tests where nothing runs (op_layouts.h): wanted workers of each role, of which a role without
  // work gets none; the shapes; and a few workers in each role.
  virtual std::span<const Split> cut_splits() const = 0;
  virtual std::span<const Shape> cut_shapes() const = 0;
  virtual Split few_workers() const = 0;
  virtual std::unique_ptr<AnyLayout> layout(const WorldShape& world, const OpCut& cut) const = 0;
};

const OpRow& row_of(Op op);

// A row for each file that has some.
const OpRow& ag_gemm_row();
const OpRow& gemm_rs_row();
const OpRow& gemm_ar_row(AllReducePath path);

// As the operators that sum take them.
std::vector<GemmArgs> gemm_args_of(std::span<const OpArgs> args);

// What rows are made of.
void fill(Matrix& matrix, Data data, std::mt19937_64& random);
Matrix matrix_b(const OpCase& at, Data data, std::mt19937_64& random);  // k × n, in its order
std::vector<float> values_of_b(const Matrix& b, const OpCase& at);      // as [k, n]

}  // namespace mk::test
