// SPDX-License-Identifier: MIT
// ops/dense/dense_problem.cc — see dense_problem.h.
#include "ops/dense/dense_problem.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "target/sm90/gemm_config.h"

namespace mk::dense {
namespace {

struct RoleRow {
  const char* name;
  int asked;
  bool needed;
};

}  // namespace

int64_t cols_of(const Tensor& b, BOrder order) { return order == BOrder::kNK ? b.rows : b.cols; }

int band_of(int tile_m, int tile_n, int tiles_at_once) {
  const double square = std::sqrt(static_cast<double>(tiles_at_once) * tile_n / tile_m);
  return std::max(1, static_cast<int>(std::lround(square / 2)));
}

TileShape gpu_tile(const Problem& problem, int64_t shards, int blocks) {
  const sm90::GemmTile tile =
      sm90::choose_tile(sm90::kSoloTiles, {problem.m / shards, shards, problem.n, problem.k}, {.compute = blocks});
  return {.m = tile.m, .n = tile.n, .band = band_of(tile.m, tile.n, blocks)};
}

void check_sizes(const Problem& problem, DeviceKind device) {
  check_arg(problem.m >= 1, "m is {}; it must be at least 1", problem.m);
  check_arg(problem.n >= 1, "n is {}; it must be at least 1", problem.n);
  check_arg(problem.k >= 1, "k is {}; it must be at least 1", problem.k);
  constexpr int64_t kLargest = int64_t{1} << 31;
  check_arg(problem.m < kLargest, "m is {}; it must be below 2^31", problem.m);
  check_arg(problem.n < kLargest, "n is {}; it must be below 2^31", problem.n);
  check_arg(problem.k < kLargest, "k is {}; it must be below 2^31", problem.k);
  check_arg(problem.dtype == DType::kBf16 || problem.dtype == DType::kFp16 || problem.dtype == DType::kFp32,
            "dtype is {}; it must be bf16, fp16 or fp32", static_cast<int>(problem.dtype));
  check_arg(problem.b_order == BOrder::kKN || problem.b_order == BOrder::kNK, "b_order is {}; it must be kKN or kNK",
            static_cast<int>(problem.b_order));
  constexpr int64_t kMostElements = int64_t{1} << 56;  // a window may hold several images of m x n
  check_arg(problem.m <= kMostElements / problem.k && problem.m <= kMostElements / problem.n &&
                problem.k <= kMostElements / problem.n,
            "m, n and k are {}, {} and {}; no tensor may have more than 2^56 elements", problem.m, problem.n,
            problem.k);
  if (device != DeviceKind::kCuda) return;
  check_arg(problem.n % 8 == 0, "n is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.n);
  check_arg(problem.k % 8 == 0, "k is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.k);
  check_arg(problem.dtype != DType::kFp32, "dtype is fp32; on cuda it must be bf16 or fp16");
}

void check_world_divides_m(const Problem& problem) {
  check_arg(problem.m % problem.world.size() == 0, "m is {}; it must be a multiple of the world size {}", problem.m,
            problem.world.size());
}

void check_num_tiles(const Problem& problem, int64_t tiles) {
  constexpr int64_t kMost = int64_t{1} << 28;
  check_arg(tiles <= kMost, "m and n are {} and {}, which makes {} tiles; there may be 2^28 at most", problem.m,
            problem.n, tiles);
}

void check_tensor(const Tensor& tensor, const char* name, int rank, int64_t rows, int64_t cols, DType dtype,
                  DeviceKind device) {
  check_arg(tensor.data != nullptr, "{} of rank {} is a null pointer", name, rank);
  check_arg(tensor.rows == rows && tensor.cols == cols, "{} of rank {} is {}x{}; it must be {}x{}", name, rank,
            tensor.rows, tensor.cols, rows, cols);
  check_arg(tensor.dtype == dtype, "{} of rank {} is {}; a of rank 0 is {} and all tensors must agree", name, rank,
            name_of(tensor.dtype), name_of(dtype));
  const uintptr_t alignment = device == DeviceKind::kCuda ? 16 : size_of(dtype);
  check_arg(reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0,
            "{} of rank {} is at {}; its address must be a multiple of {} bytes", name, rank, tensor.data, alignment);
}

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const GemmArgs> args) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  const GemmArgs& first = args[0];
  return {world, first.a.rows, cols_of(first.b, first.b_order), first.a.cols, first.a.dtype, first.b_order};
}

void check_rank(const Problem& problem, int rank, const GemmArgs& args, int64_t a_rows, int64_t c_rows,
                DeviceKind device) {
  const bool is_kn = problem.b_order == BOrder::kKN;
  check_arg(args.b_order == problem.b_order, "b_order of rank {} is {}; rank 0 has {} and all must agree", rank,
            name_of(args.b_order), name_of(problem.b_order));
  check_tensor(args.a, "a", rank, a_rows, problem.k, problem.dtype, device);
  check_tensor(args.b, "b", rank, is_kn ? problem.k : problem.n, is_kn ? problem.n : problem.k, problem.dtype, device);
  check_tensor(args.c, "c", rank, c_rows, problem.n, problem.dtype, device);
  check_arg(device == DeviceKind::kCuda || args.stream == nullptr,
            "stream of rank {} is set; CPU worlds take null only", rank);
}

void check_args(const Problem& problem, const runtime::Members& members, std::span<const GemmArgs> args, int64_t c_rows,
                DeviceKind device) {
  for (size_t i = 0; i < args.size(); ++i) {
    check_rank(problem, members.first + static_cast<int>(i), args[i], problem.m, c_rows, device);
  }
}

bool is_open(const Split& split) {
  return split.compute == 0 && split.intra == 0 && split.send == 0 && split.reduce == 0;
}

RoleCounts checked_split(const char* op, const WorldShape& world, const Split& asked, const RolesNeeded& needed,
                         const Places& places) {
  const bool is_inside = needed.intra && needed.intra_may_be_inside && places.sharing > 1 && asked.intra == 0;
  const RoleRow rows[] = {{"compute", asked.compute, true},
                          {"intra", asked.intra, needed.intra && !is_inside},
                          {"send", asked.send, needed.send},
                          {"reduce", asked.reduce, needed.reduce}};
  for (const RoleRow& row : rows) {
    check_arg(row.needed ? row.asked >= 1 : row.asked == 0,
              "split.{} is {}; {} in a world of {}x{} ranks takes {} of that role", row.name, row.asked, op,
              world.nodes, world.ranks, row.needed ? "at least 1" : "0");
    // Each for itself, so that no sum overflows.
    const int most = places.count * places.sharing;
    check_arg(row.asked <= most, "split asks for {} workers in one role; a rank of this world has {}", row.asked, most);
  }
  const RoleCounts roles{asked.intra, asked.send, asked.compute, asked.reduce};
  check_arg(places.needed_by(roles) <= places.count,
            "split asks for {} workers on {} places ({} that communicate share one); a rank of this world has {}",
            roles.total(), places.needed_by(roles), places.sharing, places.count);
  return is_inside ? with_intra_inside(roles) : roles;
}

RankTime time_of(const Places& places, const RankWork& work) {
  // What an SM computes (docs/performance.md), and a GPU's links.
  constexpr double kFlopsPerSecond = 6e12;
  constexpr double kSms = 132;
  constexpr double kNvlinkPerSecond = 450e9;
  constexpr double kNetworkPerSecond = 50e9;
  const double part_of_gpu = places.count / kSms;
  return {.compute = work.flops / (kFlopsPerSecond * places.count),
          .links = std::max(work.nvlink_bytes / (kNvlinkPerSecond * part_of_gpu),
                            work.network_bytes / (kNetworkPerSecond * part_of_gpu))};
}

int fair_share(const Places& places, int roles, const RankWork& work) {
  if (places.sharing == 1) return std::clamp(places.count / 16, 1, 8);
  const double moved_per_second = kMovedPerWorkerSecond * kCommunicationWorkersPerSm;
  const double seconds = time_of(places, work).slowest();
  const int wanted = static_cast<int>(std::ceil(work.moved_bytes / moved_per_second / seconds + work.spare));
  return ceil_div(std::clamp(wanted, 1, std::max(1, places.count / 4)) * places.sharing, roles);
}

int share_for_sums(const Places& places, int roles, const RankWork& work, int64_t tiles) {
  const int fair = fair_share(places, roles, work);
  if (places.sharing == 1) return fair;
  constexpr double kBesideCompute = 0.75;  // of the pace that workers have by themselves
  const double moved_per_second = kBesideCompute * kMovedPerWorkerSecond * kCommunicationWorkersPerSm;
  const RankTime time = time_of(places, work);
  const auto seconds = [&](int communicating) {
    const int computing = places.count - communicating;
    const double moving = work.moved_bytes / (communicating * moved_per_second);
    const double last_wave = std::min(1.0, static_cast<double>(computing) / static_cast<double>(tiles));
    const double together = std::max({time.compute * places.count / computing, time.links, moving});
    return together + moving * last_wave;
  };
  int best = 1;
  for (int more = 2; more <= places.count / 4; ++more) {
    if (seconds(more) < seconds(best)) best = more;
  }
  return std::max(fair, ceil_div(best * places.sharing, roles));
}

RoleCounts filled_up(const WorldShape& world, RoleCounts roles, const Places& places) {
  roles.compute = 0;
  roles.compute = std::max(1, places.count - places.of_communication(roles));
  check_arg(places.needed_by(roles) <= places.count,
            "the world has {} ranks, which leaves {} places a rank; {} are needed", world.size(), places.count,
            places.needed_by(roles));
  return roles;
}

std::string plan_key(const std::string& op, const Problem& problem, const RoleCounts& roles) {
  return fmt::format("{} {}x{}x{} {} {}", op, problem.m, problem.n, problem.k, name_of(problem.dtype), in_words(roles));
}

std::string in_words(const RoleCounts& roles) {
  std::string words;
  const auto say = [&](Role role, int count) {
    if (count > 0) words += fmt::format("{}{} {}", words.empty() ? "" : " ", name_of(role), count);
  };
  say(Role::kIntra, roles.intra);
  if (roles.intra_inside) words += " inside";
  say(Role::kSend, roles.send);
  say(Role::kReduce, roles.reduce);
  say(Role::kCompute, roles.compute);
  return words;
}

}  // namespace mk::dense
