// SPDX-License-Identifier: MIT
// tools/bench_flags.cc — see bench_flags.h.
#include "bench_flags.h"

#include "flags.h"
#include "split_flag.h"

namespace mk::tools {
namespace {

using bench::kOpKinds;

constexpr int kMostRanks = 8;  // more would leave a rank too little of a GPU to model one

std::string op_names() {
  std::string names;
  for (const bench::OpKind op : kOpKinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", bench::name_of(op));
  return names;
}

}  // namespace

CLI::App* add_bench_command(CLI::App& app, BenchRequest& request) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Time operators on a GPU beside cuBLAS and host-driven transfers, links paced to a rank's share");
  bench->add_option("operator", request.op, fmt::format("all, or one of: {} [all]", op_names()))->option_text(" ");
  add_flag(*bench, "--device", "KIND", "cuda, the only one there is [cuda]", [&request](const std::string& text) {
    request.device = choice("--device", text, {DeviceKind::kAuto, DeviceKind::kCpu, DeviceKind::kCuda});
  });
  add_number<int>(*bench, "--nodes", request.nodes, fmt::format("nodes of the world [{}]", request.nodes));
  add_number<int>(*bench, "--ranks", request.ranks, fmt::format("ranks of each node [{}]", request.ranks));
  add_flag(*bench, "--pace", "RATES",
           "speed of a real rank's links, of which the model has 1/(nodes x ranks): real (nvlink=450,network=50), "
           "none, or nvlink=GBs,network=GBs with one or both [real]",
           [&request](const std::string& text) { request.pace = bench::parse_pace(text); });
  add_number<int64_t>(*bench, "--m", request.m, "M, with --n and --k: this shape only [a list of shapes]");
  add_number<int64_t>(*bench, "--n", request.n, "N");
  add_number<int64_t>(*bench, "--k", request.k, "K, length of a rank's sums");
  add_flag(*bench, "--dtype", "TYPE", "bf16 or fp16 [bf16]", [&request](const std::string& text) {
    request.dtype = choice("--dtype", text, {DType::kBf16, DType::kFp16});
  });
  add_number<int>(*bench, "--repetitions", request.repetitions,
                  fmt::format("timed runs of each contender, interleaved [{}]", request.repetitions));
  add_split(*bench, request.split);
  add_number<int64_t>(
      *bench, "--timeout-ms", request.timeout_ms,
      fmt::format("longest single wait in milliseconds [$MKERNEL_TIMEOUT, else {}]", Options{}.timeout_ms));
  add_flag(*bench, "--json", "FILE", "append one JSON object a row to FILE [none]",
           [&request](const std::string& text) { request.json = text; });
  bench
      ->add_flag_callback(
          "--fixed-cost", [&request] { request.mode = BenchMode::kFixedCost; },
          "what a launch costs with next to nothing to do, unpaced, instead of shapes")
      ->disable_flag_override();
  bench
      ->add_flag_callback(
          "--fused-only", [&request] { request.fused_only = true; },
          "time the fused operators alone, without baselines: to compare two builds")
      ->disable_flag_override();
  bench->footer("Exit codes: 0 every result is correct; 1 one is wrong or a launch failed; 2 wrong usage.");
  return bench;
}

void check_bench(const BenchRequest& request) {
  bool known = request.op == "all";
  for (const bench::OpKind op : kOpKinds) known = known || request.op == bench::name_of(op);
  check_usage(known, "operator is '{}'; it must be all or one of {}", request.op, op_names());
  check_usage(request.device != DeviceKind::kCpu, "--device is cpu; bench times a GPU, it must be cuda");
  check_usage(request.nodes >= 1 && request.nodes <= kMostRanks, "--nodes is {}; it must be 1 to {}", request.nodes,
              kMostRanks);
  check_usage(request.ranks >= 1 && request.ranks <= kMostRanks, "--ranks is {}; it must be 1 to {}", request.ranks,
              kMostRanks);
  const int size = request.nodes * request.ranks;
  check_usage(size <= kMostRanks, "--nodes x --ranks is {}; the ranks that share a GPU must be at most {}", size,
              kMostRanks);
  check_split(request.op, request.split);
  check_usage(request.repetitions >= 1, "--repetitions is {}; it must be at least 1", request.repetitions);
  const int named = request.m.has_value() + request.n.has_value() + request.k.has_value();
  check_usage(named == 0 || named == 3, "--m, --n and --k go together: name all three or none");
  check_usage(!request.fused_only || request.mode == BenchMode::kShapes,
              "--fixed-cost and --fused-only exclude each other");
  check_usage(named == 0 || request.mode == BenchMode::kShapes, "--fixed-cost has a shape of its own: leave --m away");
  if (named == 0) return;
  const auto check_side = [](const char* flag, int64_t value, int64_t multiple) {
    check_usage(value >= multiple && value % multiple == 0 && value < (int64_t{1} << 31),
                "{} is {}; it must be a multiple of {}, from {} to 2^31", flag, value, multiple, multiple);
  };
  check_side("--m", *request.m, size);
  check_side("--n", *request.n, 8);
  check_side("--k", *request.k, 8);
}

}  // namespace mk::tools
