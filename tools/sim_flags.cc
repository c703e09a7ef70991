// SPDX-License-Identifier: MIT
// tools/sim_flags.cc — see sim_flags.h.
#include "sim_flags.h"

#include "flags.h"
#include "operators.h"
#include "split_flag.h"

namespace mk::tools {
namespace {

// "1..1000".
void read_seeds(const std::string& flag, const std::string& text, FuzzRequest& request) {
  const size_t dots = text.find("..");
  check_usage(dots != text.npos && dots > 0 && dots + 2 < text.size(), "{} is '{}'; it must be a range A..B", flag,
              text);
  const std::string where = fmt::format("{} is {}; an end", flag, text);
  request.first_seed = number<uint64_t>(where, text.substr(0, dots));
  request.last_seed = number<uint64_t>(where, text.substr(dots + 2));
  check_usage(request.first_seed <= request.last_seed, "{} is {}, which is empty; it must be A..B with A at most B",
              flag, text);
}

}  // namespace

CLI::App* add_fuzz_command(CLI::App& app, FuzzRequest& request) {
  CLI::App* fuzz = app.add_subcommand("fuzz", "Run operators under virtual time, one disturbed world a seed");
  fuzz->add_option("operator", request.op, fmt::format("all, or one of: {} [all]", gemm_operator_names()))
      ->option_text(" ");
  add_flag(*fuzz, "--seeds", "A..B", "seeds to run [1..1000]", [&request](const std::string& text) {
    read_seeds("--seeds", text, request);
    ++request.seed_flags;
  });
  add_flag(*fuzz, "--seed", "S", "one seed", [&request](const std::string& text) {
    request.first_seed = request.last_seed = number<uint64_t>("--seed", text);
    ++request.seed_flags;
  });
  add_flag(*fuzz, "--trace", "FILE", "with --seed: write the run for chrome://tracing or Perfetto",
           [&request](const std::string& text) { request.trace = text; });
  add_number<int>(*fuzz, "--nodes", request.nodes, "nodes of the world [1 to 4, by the seed]");
  add_number<int>(*fuzz, "--ranks", request.ranks, "ranks of each node [1 to 4, by the seed]");
  add_number<int64_t>(*fuzz, "--m", request.m, "M, a multiple of nodes x ranks [by the seed]");
  add_number<int64_t>(*fuzz, "--n", request.n, "N [by the seed]");
  add_number<int64_t>(*fuzz, "--k", request.k, "K [by the seed]");
  add_number<int>(*fuzz, "--launches", request.launches, "launches in a row [3 to 5, by the seed]");
  fuzz->footer("The last line is 'N passed, N failed'.  Exit codes: 0 all passed; 1 a seed failed; 2 wrong usage.");
  return fuzz;
}

CLI::App* add_sim_command(CLI::App& app, SimRequest& request) {
  CLI::App* sim = app.add_subcommand("sim", "Predict an operator's time on a cluster");
  sim->add_option("operator", request.op, fmt::format("one of: {}", gemm_operator_names()))->option_text(" ");
  add_flag(*sim, "--cluster", "NAME", "a preset (see docs/simulation.md) or a JSON file [h200-2x8-cx7]",
           [&request](const std::string& text) { request.cluster = text; });
  add_number<int64_t>(*sim, "--m", request.m, fmt::format("M, rows over all ranks [{}]", request.m));
  add_number<int64_t>(*sim, "--n", request.n, "N, columns of a rank's output [ag_gemm M / 16, others M]");
  add_number<int64_t>(*sim, "--k", request.k, "K of a rank [ag_gemm M, others M / 16]");
  add_flag(*sim, "--dtype", "TYPE", "bf16 or fp16 [bf16]", [&request](const std::string& text) {
    request.dtype = choice("--dtype", text, {DType::kBf16, DType::kFp16});
  });
  add_split(*sim, request.split);
  add_flag(*sim, "--json", "FILE", "append one JSON object to FILE [none]",
           [&request](const std::string& text) { request.json = text; });
  sim->footer(
      "A cluster file's rates are 0.001 to 1000000 GB/s or TFLOP/s, its times 0 to 1000000 us; at most 2^28 tiles of\n"
      "128 x 256 are simulated.  Exit codes: 0 done; 2 wrong usage.");
  return sim;
}

void check_fuzz(const FuzzRequest& request) {
  check_usage(request.op == "all" || is_gemm_operator(request.op), "operator is '{}'; it must be all or one of {}",
              request.op, gemm_operator_names());
  check_usage(request.seed_flags <= 1, "--seeds and --seed exclude each other");
  check_usage(!request.trace || request.first_seed == request.last_seed,
              "--trace takes one seed: give --seed S with it");
}

void check_sim(const SimRequest& request) {
  check_usage(is_gemm_operator(request.op), "operator is '{}'; it must be one of {}", request.op,
              gemm_operator_names());
  check_split(request.op, Direction::kForward, request.split);
}

}  // namespace mk::tools
