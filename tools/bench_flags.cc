// SPDX-License-Identifier: MIT
// tools/bench_flags.cc — see bench_flags.h.
#include "bench_flags.h"

#include <algorithm>
#include <span>

#include "attention_flags.h"
#include "flags.h"
#include "ops/attention/attention_positions.h"
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

bool is_one_of(const std::string& name, std::span<const bench::OpKind> ops) {
  return std::ranges::any_of(ops, [&](bench::OpKind op) { return name == bench::name_of(op); });
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

void add_attention_flags(CLI::App& bench, bench::AttentionWish& wish) {
  add_number<int64_t>(bench, "--seq", wish.seq,
                      "ring_attention: length of the sequence over all ranks: this shape only [a list: 2048 to 16384 "
                      "a rank]");
  add_number<int64_t>(bench, "--heads", wish.heads, "ring_attention: heads of queries, of 128 elements [32]");
  add_number<int64_t>(bench, "--kv-heads", wish.kv_heads,
                      "ring_attention: heads of keys and values, a divisor of --heads [a quarter of them]");
  add_flag(bench, "--mask", "KIND", "ring_attention: full, causal, or window=N [full, and causal]",
           [&wish](const std::string& text) { wish.mask = mask_of(text); });
  add_flag(bench, "--layout", "KIND", "ring_attention: contiguous or zigzag [zigzag, for a full mask contiguous]",
           [&wish](const std::string& text) { wish.order = order_of(text); });
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

void check_attention(const BenchRequest& request) {
  const bench::AttentionWish& wish = request.attention;
  if (wish.heads) check_side("--heads", *wish.heads, 1);
  if (wish.kv_heads) check_side("--kv-heads", *wish.kv_heads, 1);
  for (const bench::BenchCase& c : bench::attention_cases({request.nodes, request.ranks}, wish)) {
    check_usage(c.attention.heads % c.attention.kv_heads == 0, "--heads is {}; it must be a multiple of --kv-heads, {}",
                c.attention.heads, c.attention.kv_heads);
    if (wish.seq) check_side("--seq", *wish.seq, attention::pieces_of(c.attention.order) * c.world.size());
  }
}

// Flags that name a shape, and whose they are.
struct ShapeFlags {
  std::span<const bench::OpKind> ops;
  bool are_given;
  const char* one;
  const char* all;
};

void check_shape_flags(const BenchRequest& request) {
  const ShapeFlags kinds[] = {{bench::kGemmKinds, request.m || request.n || request.k, "--m", "--m, --n and --k"},
                              {bench::kMoeKinds, !request.moe.is_empty(), "--tokens and what goes with it",
                               "--tokens, --hidden, --inter, --experts and --topk"},
                              {bench::kAttentionKinds, !request.attention.is_empty(), "--seq and what goes with it",
                               "--seq, --heads, --kv-heads, --mask and --layout"}};
  const auto own = std::ranges::find_if(kinds, [&](const ShapeFlags& one) { return is_one_of(request.op, one.ops); });
  for (const ShapeFlags& kind : kinds) {
    check_usage(!kind.are_given || request.mode == BenchMode::kShapes,
                "--fixed-cost has a shape of its own: leave {} away", kind.one);
    if (own == std::end(kinds) || kind.ops.data() == own->ops.data()) continue;
    check_usage(!kind.are_given, "{} is not for {}; it has {}", kind.one, request.op, own->all);
  }
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
  add_attention_flags(*bench, request.attention);
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
  check_shape_flags(request);
  if (request.op != "all" && !is_one_of(request.op, bench::kGemmKinds)) {
    check_usage(request.mode == BenchMode::kShapes, "--fixed-cost is not for {}; it is for {}", request.op,
                gemm_names());
    check_usage(request.dtype == DType::kBf16, "--dtype is {}; {} is timed in bf16", name_of(request.dtype),
                request.op);
  }
  check_moe(request);
  check_attention(request);
  if (named == 0) return;
  check_side("--m", *request.m, size);
  check_side("--n", *request.n, 8);
  check_side("--k", *request.k, 8);
}

}  // namespace mk::tools
