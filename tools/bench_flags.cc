// SPDX-License-Identifier: MIT
// tools/bench_flags.cc — see bench_flags.h.
#include "bench_flags.h"

#include <algorithm>
#include <span>

#include "flags.h"
#include "ops/moe/moe_layout.h"
#include "split_flag.h"

namespace mk::tools {
namespace {

using bench::kOpKinds;

constexpr int kMostRanks = 8;  // more would leave a rank too little of a GPU to model one
constexpr int kMostSlots = 64;

std::string names_of(std::span<const bench::OpKind> ops) {
  std::string names;
  for (const bench::OpKind op : ops) names += fmt::format("{}{}", names.empty() ? "" : ", ", bench::name_of(op));
  return names;
}
std::string op_names() { return names_of(kOpKinds); }
std::string gemm_names() { return names_of(bench::kGemmKinds); }

bool is_moe_operator(const std::string& name) {
  return std::ranges::any_of(bench::kMoeKinds, [&](bench::OpKind op) { return name == bench::name_of(op); });
}

void add_moe_flags(CLI::App& bench, bench::MoeWish& wish) {
  add_number<int64_t>(bench, "--tokens", wish.tokens,
                      "moe_*: tokens of each rank: this shape only [a list: 1 to 128, 4096, 16384]");
  add_number<int64_t>(bench, "--hidden", wish.hidden, "moe_*: elements of a token [4096]");
  add_number<int64_t>(bench, "--inter", wish.inter,
                      "moe_*: columns of an expert, or of its gate [moe_dispatch_gemm 2048, moe_layer 1024]");
  add_number<int>(bench, "--experts", wish.experts, "moe_*: experts of the world, a multiple of its ranks [8 a rank]");
  add_number<int>(bench, "--topk", wish.topk, "moe_*: experts of a token, at most --experts [8]");
}

void check_side(const char* flag, int64_t value, int64_t multiple) {
  check_usage(value >= multiple && value % multiple == 0 && value < (int64_t{1} << 31),
              "{} is {}; it must be a multiple of {}, from {} to 2^31", flag, value, multiple, multiple);
}

void check_moe(const BenchRequest& request) {
  const bench::MoeWish& wish = request.moe;
  const int size = request.nodes * request.ranks;
  if (wish.tokens) check_side("--tokens", *wish.tokens, 1);
  if (wish.hidden) check_side("--hidden", *wish.hidden, 8);
  if (wish.inter) check_side("--inter", *wish.inter, 8);
  if (wish.experts) {
    check_side("--experts", *wish.experts, size);
    check_usage(*wish.experts <= moe::kMostGpuExperts, "--experts is {}; it must be at most {}", *wish.experts,
                moe::kMostGpuExperts);
  }
  if (!wish.topk) return;
  const int experts = bench::moe_cases(bench::OpKind::kMoeLayer, {request.nodes, request.ranks}, wish)[0].moe.experts;
  const int most = std::min(kMostSlots, experts);
  check_usage(*wish.topk >= 1 && *wish.topk <= most, "--topk is {}; it must be 1 to {}", *wish.topk, most);
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
  add_number<int64_t>(*bench, "--m", request.m,
                      "M, with --n and --k: this shape only, of operators that have them [a list of shapes]");
  add_number<int64_t>(*bench, "--n", request.n, "N");
  add_number<int64_t>(*bench, "--k", request.k, "K, length of a rank's sums");
  add_moe_flags(*bench, request.moe);
  add_flag(*bench, "--dtype", "TYPE", "bf16, or fp16 where there is --m [bf16]", [&request](const std::string& text) {
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
  check_split(request.op, Direction::kForward, request.split);
  check_usage(request.repetitions >= 1, "--repetitions is {}; it must be at least 1", request.repetitions);
  const int named = request.m.has_value() + request.n.has_value() + request.k.has_value();
  check_usage(named == 0 || named == 3, "--m, --n and --k go together: name all three or none");
  check_usage(!request.fused_only || request.mode == BenchMode::kShapes,
              "--fixed-cost and --fused-only exclude each other");
  const bool names_shape = named > 0 || !request.moe.is_empty();
  check_usage(!names_shape || request.mode == BenchMode::kShapes,
              "--fixed-cost has a shape of its own: leave --m away");
  if (is_moe_operator(request.op)) {
    check_usage(named == 0, "--m is not for {}; it has --tokens, --hidden, --inter, --experts and --topk", request.op);
    check_usage(request.mode == BenchMode::kShapes, "--fixed-cost is not for {}; it is for {}", request.op,
                gemm_names());
    check_usage(request.dtype == DType::kBf16, "--dtype is {}; {} is timed in bf16", name_of(request.dtype),
                request.op);
  } else if (request.op != "all") {
    check_usage(request.moe.is_empty(), "--tokens and what goes with it are not for {}; it has --m, --n and --k",
                request.op);
  }
  check_moe(request);
  if (named == 0) return;
  check_side("--m", *request.m, size);
  check_side("--n", *request.n, 8);
  check_side("--k", *request.k, 8);
}

}  // namespace mk::tools
