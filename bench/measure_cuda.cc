// SPDX-License-Identifier: MIT
// bench/measure_cuda.cc — see measure.h.
//
// Every contender runs on another set of inputs than the one before it, so that old results cannot pass for new ones.
// Outputs are NaN before each run.  In the first and the last repetition intermediate buffers are NaN too, and the
// outputs are checked.
#include <algorithm>
#include <functional>
#include <vector>

#include "bench/empty.h"
#include "bench/measure.h"
#include "bench/nics.h"
#include "bench/subject.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

constexpr int kTrials = 5;  // to choose a chunk count

// Asked for before anything of CUDA is made: the answer also sees to enough hardware queues.
const BenchCase& where_it_can_run(const BenchCase& bench_case) {
  const std::string missing = runtime::why_no_cuda();
  if (!missing.empty()) throw Error(ErrorCode::kUnavailable, missing);
  return bench_case;
}

// Everything one problem needs; members go in reverse order.
struct Bench {
  Bench(const BenchCase& bench_case, const MeasureOptions& options)
      : shape(where_it_can_run(bench_case)),
        options(options),
        nics(shape.world, ns_per_byte(options.pace.network_gb_s, shape.world.size())),
        world(runtime::make_local_world(shape.world, DeviceKind::kCuda, options.world, nics.hook())),
        rig(*world, options.pace, CopyPath::kAny),
        subject(make_subject(rig, shape)),
        link_words(world->device(), shape.world.size() * kWordStride) {
    for (int rank = 0; rank < shape.world.size(); ++rank) {
      auto* const word = reinterpret_cast<uint64_t*>(link_words.as() + rank * kWordStride);
      paces.push_back({{word, ns_per_byte(options.pace.nvlink_gb_s, shape.world.size())}, nics.queue(rank)});
    }
  }

  static constexpr size_t kWordStride = 256;  // no two ranks' words in one cache line

  BenchCase shape;
  const MeasureOptions& options;
  Nics nics;
  std::unique_ptr<runtime::WorldState> world;
  Rig rig;
  std::unique_ptr<Subject> subject;
  runtime::Buffer link_words;
  std::vector<RankPace> paces;
};

struct Contender {
  std::function<void(int set)> queue;
  std::function<tools::CheckResult(int set)> check;  // null: nothing to check
  std::vector<double> times;
};

// A copy engine leaves the SMs to cuBLAS, if it can carry what the links of the model can.
void choose_copy_path(Bench& bench, Measurement& result) {
  const double needed = bench.options.pace.nvlink_gb_s + bench.options.pace.network_gb_s;
  const double engine = copy_rate_gb_s(bench.rig, CopyPath::kEngine);
  const double any = copy_rate_gb_s(bench.rig, CopyPath::kAny);
  const bool use_engine = engine >= any || (needed > 0 && engine >= needed);
  bench.rig.use(use_engine ? CopyPath::kEngine : CopyPath::kAny);
  result.copy_path = name_of(bench.rig.copy_path());
  result.copy_gb_s = use_engine ? engine : any;
}

int choose_chunks(Bench& bench, Schedule schedule) {
  int best = 0;
  double best_us = 0;
  for (const int chunks : kChunkCounts) {
    bench.rig.run([&] { bench.subject->baseline().queue(0, schedule, chunks); });
    std::vector<double> times;
    for (int i = 0; i < kTrials; ++i) {
      times.push_back(bench.rig.time_us([&] { bench.subject->baseline().queue(i % kInputSets, schedule, chunks); }));
    }
    const double us = Timing::of(times).median_us;
    if (best != 0 && us >= best_us) continue;
    best = chunks;
    best_us = us;
  }
  return best;
}

// Between nodes always: only paced kernels have a warp that plays the NIC.
bool needs_paced_kernel(const Bench& bench) {
  const WorldShape& world = bench.shape.world;
  return world.nodes > 1 || (bench.options.pace.nvlink_gb_s > 0 && world.ranks > 1);
}

std::string why_no_fused(const Bench& bench) {
  if (needs_paced_kernel(bench) && bench.shape.dtype != DType::kBf16) return "the paced kernels are for bf16";
  return {};
}

Contender fused_contender(Bench& bench) {
  const auto queue = [&bench](int set) {
    for (int rank = 0; rank < bench.shape.world.size(); ++rank) bench.rig.compute(rank);  // they join the run
    bench.subject->launch_fused(set, {bench.options.split, needs_paced_kernel(bench), bench.paces});
  };
  const auto check = [&bench](int set) {
    bench.world->check_faults();
    return bench.subject->check_fused(set);
  };
  return {queue, check, {}};
}

Contender baseline_contender(Bench& bench, Schedule schedule, int chunks) {
  return {[&bench, schedule, chunks](int set) { bench.subject->baseline().queue(set, schedule, chunks); },
          [&bench](int set) { return bench.subject->baseline().check(set); },
          {}};
}

Contender products(Bench& bench, Placement placement) {
  return {[&bench, placement](int set) { bench.subject->baseline().queue_products(set, placement); }, nullptr, {}};
}

enum class Care { kTime, kCheck };

// One run of each contender.
void play_round(Bench& bench, std::vector<Contender>& contenders, int round, Care care, tools::CheckResult& worst) {
  for (size_t i = 0; i < contenders.size(); ++i) {
    Contender& one = contenders[i];
    const int set = (round + static_cast<int>(i)) % kInputSets;
    bench.subject->poison(set);
    if (care == Care::kCheck && one.check) bench.subject->baseline().poison();
    one.times.push_back(bench.rig.time_us([&] { one.queue(set); }));
    bench.world->check_faults();
    if (care == Care::kCheck && one.check) worst.add(one.check(set));
  }
}

// The first round of all is checked and not counted.
void play(Bench& bench, std::vector<Contender>& contenders, tools::CheckResult& worst) {
  for (Contender& one : contenders) {
    bench.rig.run([&] { one.queue(0); });
    bench.world->check_faults();
  }
  play_round(bench, contenders, 0, Care::kCheck, worst);
  for (Contender& one : contenders) one.times.clear();
  const int last = bench.options.repetitions;
  for (int round = 1; round <= last; ++round) {
    play_round(bench, contenders, round, round == last ? Care::kCheck : Care::kTime, worst);
  }
}

}  // namespace

Measurement measure(const BenchCase& bench_case, const MeasureOptions& options) {
  Bench bench(bench_case, options);
  Measurement result;
  result.shape = bench_case;
  result.device_name = bench.world->device().name();
  result.traffic = traffic_of(bench_case);
  result.communication_us = communication_us(result.traffic, options.pace, bench_case.world.size());
  result.why_no_fused = why_no_fused(bench);
  if (options.fused_only) {
    if (!result.why_no_fused.empty()) return result;
    std::vector<Contender> contenders = {fused_contender(bench)};
    play(bench, contenders, result.check);
    result.fused = Timing::of(contenders[0].times);
    return result;
  }
  choose_copy_path(bench, result);
  bench.subject->baseline().prepare();
  result.serial_chunks = choose_chunks(bench, Schedule::kSerial);
  result.overlapped_chunks = choose_chunks(bench, Schedule::kOverlapped);

  std::vector<Contender> contenders;
  contenders.push_back(baseline_contender(bench, Schedule::kSerial, result.serial_chunks));
  contenders.push_back(baseline_contender(bench, Schedule::kOverlapped, result.overlapped_chunks));
  if (result.why_no_fused.empty()) contenders.push_back(fused_contender(bench));
  contenders.push_back(products(bench, Placement::kBackToBack));
  contenders.push_back(products(bench, Placement::kSideBySide));
  play(bench, contenders, result.check);

  const size_t count = contenders.size();
  result.serial = Timing::of(contenders[0].times);
  result.overlapped = Timing::of(contenders[1].times);
  if (result.why_no_fused.empty()) result.fused = Timing::of(contenders[2].times);
  const Timing back_to_back = Timing::of(contenders[count - 2].times);
  const Timing side_by_side = Timing::of(contenders[count - 1].times);
  result.compute = back_to_back.median_us < side_by_side.median_us ? back_to_back : side_by_side;
  return result;
}

FixedCost measure_fixed_cost(OpKind op, const WorldShape& world, DType dtype, const MeasureOptions& options) {
  MeasureOptions unpaced = options;
  unpaced.pace = {};
  constexpr int64_t kSide = 128;
  Bench bench({op, world, world.size(), kSide, kSide, dtype}, unpaced);
  bench.subject->baseline().prepare();
  std::vector<Contender> contenders;
  contenders.push_back(baseline_contender(bench, Schedule::kSerial, 1));
  contenders.push_back(baseline_contender(bench, Schedule::kOverlapped, 1));
  const auto queue_empty = [&](int) {
    for (int rank = 0; rank < world.size(); ++rank) {
      queue_empty_kernel(bench.world->device().seats_per_rank(), bench.rig.compute(rank));
    }
  };
  contenders.push_back({queue_empty, nullptr, {}});
  const bool has_fused = why_no_fused(bench).empty();
  if (has_fused) contenders.push_back(fused_contender(bench));

  FixedCost cost;
  cost.shape = bench.shape;
  cost.device_name = bench.world->device().name();
  play(bench, contenders, cost.check);
  cost.serial = Timing::of(contenders[0].times);
  cost.overlapped = Timing::of(contenders[1].times);
  cost.empty = Timing::of(contenders[2].times);
  if (has_fused) cost.fused = Timing::of(contenders[3].times);
  return cost;
}

}  // namespace mk::bench
