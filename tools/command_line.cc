// SPDX-License-Identifier: MIT
// tools/command_line.cc — see command_line.h.
//
#include "command_line.h"

#include <algorithm>
#include <limits>

#include "attention_flags.h"
#include "bench_flags.h"
#include "build_info.h"
#include "flags.h"
#include "mkernel/options.h"
#include "netbench_flags.h"
#include "operators.h"
#include "sim_flags.h"
#include "split_flag.h"
#include "topo_flags.h"
#include "usage.h"

namespace mk::tools {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 every row is correct; 1 a row is wrong or a launch failed; 2 wrong usage.";

template <class T>
std::string per_device(T Defaults::*field) {
  return fmt::format("[cpu {}, cuda {}]", kCpuDefaults.*field, kCudaDefaults.*field);
}

template <class T>
std::string per_device(T MoeDefaults::*field) {
  return fmt::format("[cpu {}, cuda {}]", kCpuMoeDefaults.*field, kCudaMoeDefaults.*field);
}

template <class T>
std::string per_device(T AttentionDefaults::*field) {
  return fmt::format("[cpu {}, cuda {}]", kCpuAttentionDefaults.*field, kCudaAttentionDefaults.*field);
}

void add_moe_flags(CLI::App& app, RunRequest& run) {
  add_number<int64_t>(
      app, "--tokens", run.tokens,
      "moe_*: tokens of a rank, in the first launch; others have fewer " + per_device(&MoeDefaults::tokens));
  add_number<int64_t>(app, "--hidden", run.hidden, "moe_*: elements of a token " + per_device(&MoeDefaults::hidden));
  add_number<int64_t>(app, "--inter", run.inter,
                      "moe_*: columns of an expert, or of its gate " + per_device(&MoeDefaults::inter));
  add_number<int>(app, "--experts", run.experts,
                  "moe_*: experts of the world, a multiple of its ranks [for each rank: cpu " +
                      fmt::format("{}, cuda {}]", kCpuMoeDefaults.local_experts, kCudaMoeDefaults.local_experts));
  add_number<int>(app, "--topk", run.topk,
                  "moe_*: experts of a token, at most --experts " + per_device(&MoeDefaults::topk));
  add_flag(app, "--routing", "KIND",
           "moe_*: uniform, zipf, one_expert, one_rank, none or random_drop; new in each launch [uniform]",
           [&run](const std::string& text) { run.routing = choice("--routing", text, kRoutings); });
  add_flag(app, "--clamp", "L",
           "moe_layer: bound of gate from above, and of up on both sides, before SwiGLU; 0: none [0]",
           [&run](const std::string& text) { run.clamp = real("--clamp", text); });
  add_number<int64_t>(app, "--max-rows", run.max_rows,
                      "moe_*: rows that a rank may get; what is more is dropped, the last slots first [no limit]");
}

void add_attention_flags(CLI::App& app, RunRequest& run) {
  add_number<int64_t>(app, "--batch", run.batch, "ring_attention: sequences [1]");
  add_number<int64_t>(
      app, "--seq", run.seq,
      "ring_attention: length of a sequence over all ranks, or of all that are --packed; a multiple of their parts " +
          per_device(&AttentionDefaults::seq));
  add_number<int64_t>(app, "--heads", run.heads,
                      "ring_attention: heads of queries " + per_device(&AttentionDefaults::heads));
  add_number<int64_t>(
      app, "--kv-heads", run.kv_heads,
      "ring_attention: heads of keys and values, a divisor of --heads " + per_device(&AttentionDefaults::kv_heads));
  add_number<int64_t>(app, "--head-dim", run.head_dim,
                      "ring_attention: elements of a head " + per_device(&AttentionDefaults::head_dim));
  add_flag(app, "--mask", "KIND",
           "ring_attention: full, causal, or window=N: causal, and at most N keys a query [causal]",
           [&run](const std::string& text) { run.mask = mask_of(text); });
  add_flag(app, "--layout", "KIND",
           "ring_attention: contiguous, a part of the sequence a rank, or zigzag, two of twice as many [zigzag]",
           [&run](const std::string& text) { run.layout = order_of(text); });
  add_flag(app, "--scale", "X", "ring_attention: what multiplies scores, 1e-6 to 1e6 [1 / the root of --head-dim]",
           [&run](const std::string& text) { run.scale = real("--scale", text); });
  app.add_flag("--sink", run.sink, "ring_attention: each head has a sink, a score without a value")
      ->disable_flag_override();
  app.add_option_function<std::string>(
         "--packed", [&run](const std::string& text) { run.packed = lengths_of(text); },
         "ring_attention: sequences of these lengths, separated by commas, one after the other in --seq positions; "
         "without a value of uneven lengths, as many as --batch [8]")
      ->type_name("LENGTHS")
      ->option_text("[LENGTHS]")
      ->expected(0, 1);
}

void add_run_flags(CLI::App& app, RunRequest& run) {
  app.add_option("operator", run.op, fmt::format("all, or one of: {} [all]", operator_names()))->option_text(" ");
  add_flag(
      app, "--device", "KIND",
      "auto (a Hopper GPU if there is one, for each process where there are several, else cpu), cpu or cuda [auto]",
      [&run](const std::string& text) {
        run.device = choice("--device", text, {DeviceKind::kAuto, DeviceKind::kCpu, DeviceKind::kCuda});
      });
  add_number<int>(app, "--nodes", run.nodes,
                  fmt::format("nodes of the world [{}, with --launcher env its own]", kNodes));
  add_number<int>(app, "--ranks", run.ranks,
                  fmt::format("ranks of each node [{}, with --launcher env its own]", kRanks));
  add_flag(app, "--launcher", "KIND",
           "thread (all ranks in this process), fork (a process each), env (this process is one of those that "
           "torchrun, mpirun or srun started) or auto (env where there are several such, else thread) [auto]",
           [&run](const std::string& text) {
             run.launcher =
                 choice("--launcher", text, {Launcher::kAuto, Launcher::kThread, Launcher::kFork, Launcher::kEnv});
           });
  add_number<int64_t>(app, "--m", run.m,
                      "M, rows of the gathered input or of the whole result " + per_device(&Defaults::m));
  add_number<int64_t>(app, "--n", run.n, "N, columns of a rank's output " + per_device(&Defaults::n));
  add_number<int64_t>(app, "--k", run.k, "K, length of a rank's sums " + per_device(&Defaults::k));
  add_moe_flags(app, run);
  add_attention_flags(app, run);
  add_flag(app, "--direction", "KIND",
           backward_operator_names() + ": fwd, or bwd, the gradients of inputs and weights [fwd]",
           [&run](const std::string& text) {
             run.direction = choice("--direction", text, {Direction::kForward, Direction::kBackward});
           });
  add_flag(app, "--dtype", "TYPE", "bf16, fp16 or fp32 (cpu only) [bf16]", [&run](const std::string& text) {
    run.dtype = choice("--dtype", text, {DType::kBf16, DType::kFp16, DType::kFp32});
  });
  add_number<int>(
      app, "--launches", run.launches,
      "launches, each with its own data and checked; queued back to back, as many at once as memory holds " +
          per_device(&Defaults::launches));
  add_number<uint64_t>(app, "--seed", run.seed, fmt::format("seed of the input data [{}]", run.seed));
  add_number<int64_t>(
      app, "--timeout-ms", run.timeout_ms,
      fmt::format("longest single wait in milliseconds [$MKERNEL_TIMEOUT, else {}]", Options{}.timeout_ms));
  add_flag(
      app, "--net", "FABRIC",
      "between nodes: loopback, shm, tcp, verbs, efa, or auto (loopback between threads, else the first of efa, verbs "
      "and tcp that all ranks have); info says which there are [$MKERNEL_NET, else auto]",
      [&run](const std::string& text) { run.net = text; });
  app.add_flag("--stats", run.stats, "print below each row what its proxies carried")->disable_flag_override();
  add_split(app, run.split);
  add_flag(app, "--json", "FILE", "append one JSON object a row to FILE [none]",
           [&run](const std::string& text) { run.json = text; });
}

void check_run(const RunRequest& run) {
  const Operator* const named = find_operator(run.op);
  check_usage(run.op == "all" || named != nullptr, "operator is '{}'; it must be all or one of {}", run.op,
              operator_names());
  check_usage(run.direction == Direction::kForward || (named != nullptr && named->has_backward()),
              "--direction is bwd; only {} have it, and the operator is {}", backward_operator_names(), run.op);
  check_usage(run.clamp == 0 || run.op == "moe_layer", "--clamp is {}; only moe_layer has it, and the operator is {}",
              run.clamp, run.op);
  check_usage(!run.max_rows || *run.max_rows >= 1, "--max-rows is {}; it must be at least 1", run.max_rows.value_or(0));
  check_split(run.op, run.direction, run.split);
  constexpr int kMostLaunches = 10'000'000;  // their times are kept
  check_usage(!run.launches || (*run.launches >= 1 && *run.launches <= kMostLaunches),
              "--launches is {}; it must be 1 to {}", run.launches.value_or(0), kMostLaunches);
}

// What CLI11 says, in one line that names the flag.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (const size_t end = text.find(" was given a disallowed flag override"); end != text.npos) {
    return fmt::format("--{} takes no value", text.substr(0, end));
  }
  return text;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app("mkernel: operators that fuse compute, NVLink and network traffic into one kernel.", "mkernel");
  app.set_version_flag("--version", fmt::format("mkernel {} ({})", MKERNEL_VERSION, MKERNEL_COMMIT));
  app.footer(kExitCodes);
  CLI::App* run = app.add_subcommand("run", "Run operators in a world of ranks, check every element, print a table");
  add_run_flags(*run, line.run);
  run->footer(kExitCodes);
  const CLI::App* info =
      app.add_subcommand("info", "Print version, build options, devices, and what is missing and why");
  const CLI::App* fuzz = add_fuzz_command(app, line.fuzz);
  const CLI::App* sim = add_sim_command(app, line.sim);
  const CLI::App* bench = add_bench_command(app, line.bench);
  const CLI::App* topo = add_topo_command(app, line.topo);
  const CLI::App* netbench = add_netbench_command(app, line.netbench);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help("", CLI::AppFormatMode::All);
    return line;
  } catch (const CLI::CallForVersion& version) {
    line.text = std::string(version.what()) + "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    throw UsageError(in_one_line(error.what()) + " (see mkernel --help)");
  }
  const std::pair<const CLI::App*, Action> commands[] = {
      {run, Action::kRun},     {info, Action::kInfo}, {fuzz, Action::kFuzz},        {sim, Action::kSim},
      {bench, Action::kBench}, {topo, Action::kTopo}, {netbench, Action::kNetbench}};
  int named = 0;
  for (const auto& [command, action] : commands) {
    if (!command->parsed()) continue;
    ++named;
    line.action = action;
  }
  check_usage(named == 1,
              "one command is required: run, info, topo, fuzz, sim, bench or netbench (see mkernel --help)");
  if (line.action == Action::kRun) check_run(line.run);
  if (line.action == Action::kFuzz) check_fuzz(line.fuzz);
  if (line.action == Action::kSim) check_sim(line.sim);
  if (line.action == Action::kBench) check_bench(line.bench);
  if (line.action == Action::kNetbench) check_netbench(line.netbench);
  return line;
}

}  // namespace mk::tools
