// SPDX-License-Identifier: MIT
// ops/dense/dense_problem.h — the checks that operators around one dense GEMM share.
//
// Every check throws Error(kInvalidArgument) with a sentence that begins with the argument's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/roles.h"
#include "core/world_shape.h"
#include "mkernel/gemm_args.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "runtime/members.h"

namespace mk::dense {

struct Problem {
  WorldShape world;
  int64_t m = 0;  // rows of the whole result
  int64_t n = 0;
  int64_t k = 0;  // of one rank
  DType dtype = DType::kBf16;
  BOrder b_order = BOrder::kKN;
};

struct TileShape {
  int m = 0;
  int n = 0;
  int band = 1;                     // row blocks that share columns in the order of visit
  int cluster = 1;                  // workers that compute a tile together
  int64_t part_bytes = 128 * 1024;  // of its input, moved by one worker
};

// Columns of the result.
int64_t cols_of(const Tensor& b, BOrder order);

// Row blocks of a band: half as many as make a wave of tiles as high as it is wide.  A square reads the least, but
// was slower where several ranks shared a GPU, and no faster where one had it (docs/performance.md).
int band_of(int tile_m, int tile_n, int tiles_at_once);

// The tile of a GPU for a result whose rows are cut into shards, computed by so many blocks.
TileShape gpu_tile(const Problem& problem, int64_t shards, int blocks);

// m, n, k, dtype and b_order for themselves; whether the world divides m is a check of its own.
void check_sizes(const Problem& problem, DeviceKind device);
void check_world_divides_m(const Problem& problem);

// There is a signal for each tile.
void check_num_tiles(const Problem& problem, int64_t tiles);

void check_tensor(const Tensor& tensor, const char* name, int rank, int64_t rows, int64_t cols, DType dtype,
                  DeviceKind device);

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const GemmArgs> args);

// What one rank brings, if its A and C have so many rows.
void check_rank(const Problem& problem, int rank, const GemmArgs& args, int64_t a_rows, int64_t c_rows,
                DeviceKind device);
void check_args(const Problem& problem, const runtime::Members& members, std::span<const GemmArgs> args, int64_t c_rows,
                DeviceKind device);

// Which roles an operator has work for in a world; compute always.
struct RolesNeeded {
  bool intra = false;
  bool send = false;
  bool reduce = false;
  bool intra_may_be_inside = false;  // on a GPU: none of that role then means one beside each compute worker
};

bool is_open(const Split& split);  // the caller leaves it to the operator

// The caller's split as it is, if the operator can work so on a rank's places.
RoleCounts checked_split(const char* op, const WorldShape& world, const Split& asked, const RolesNeeded& needed,
                         const Places& places);

// What a rank does in a launch.
struct RankWork {
  double flops = 0;
  double nvlink_bytes = 0;   // from it to its peers
  double network_bytes = 0;  // from it to other nodes
  double moved_bytes = 0;    // read and written by its communication workers
  double spare = 0.95;       // places more than the pace takes, for when much comes at once
};

// How long a rank's places compute and its links carry, in seconds, on an H200.
struct RankTime {
  double compute = 0;
  double links = 0;

  double slowest() const { return compute > links ? compute : links; }
};
RankTime time_of(const Places& places, const RankWork& work);

// Bytes a second that a communication worker reads and writes, where eight share a place.
constexpr double kMovedPerWorkerSecond = 10e9;

// How many workers each of so many communication roles should have.  Where they share places, all together get as
// many places as keep pace with the slowest of compute, NVLink and network, and the spare; where each has its own,
// eight of a kind keep NVLink busy.
int fair_share(const Places& places, int roles, const RankWork& work);

// The same in a world of one node for roles that sum, which have the last wave of the rank's own `tiles` still before
// them when compute is over: at least as many, and more where a launch is over sooner so (docs/performance.md).
int share_for_sums(const Places& places, int roles, const RankWork& work, int64_t tiles);

// `roles` with compute workers on all places that are left.
RoleCounts filled_up(const WorldShape& world, RoleCounts roles, const Places& places);

// The name of a plan: what its layout follows from.
std::string plan_key(const std::string& op, const Problem& problem, const RoleCounts& roles);

// "intra 1 send 2 reduce 1 compute 3": roles without workers are left out.
std::string in_words(const RoleCounts& roles);

}  // namespace mk::dense
