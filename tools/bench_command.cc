// SPDX-License-Identifier: MIT
// tools/bench_command.cc — `mkernel bench`: the fused operators beside their baselines, a row a shape.
#include <fmt/format.h>

#include <set>
#include <vector>

#include "bench/moe_case.h"
#include "bench/shapes.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "mkernel/error.h"
#include "operators.h"
#include "output_file.h"
#include "runtime/device.h"
#include "split_flag.h"
#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {
namespace {

using bench::BenchCase;
using bench::OpKind;

class Rows {
 public:
  explicit Rows(const std::optional<std::string>& json) : file_("--json", json) {}

  void print(const std::string& line) { print_line("{}", line); }
  void append(const std::string& object) { file_.append(object); }
  void close() { file_.close(); }

 private:
  OutputFile file_;
};

// Of all operators those that the flags fit: whose shape is named, if any is.
bool fits(OpKind op, const BenchRequest& request) {
  if (request.op != "all") return request.op == bench::name_of(op);
  const bool names_attention = !request.attention.is_empty();
  const bool names_moe = !request.moe.is_empty();
  const bool names_none = !request.m && !names_moe && !names_attention;
  if (bench::is_gemm(op)) return names_none || request.m;
  if (request.mode != BenchMode::kShapes || request.dtype != DType::kBf16) return false;
  return names_none || (bench::is_moe(op) ? names_moe : names_attention);
}

std::vector<OpKind> ops_of(const BenchRequest& request) {
  std::vector<OpKind> ops;
  for (const OpKind op : bench::kOpKinds) {
    if (fits(op, request)) ops.push_back(op);
  }
  return ops;
}

std::vector<BenchCase> shapes_of(OpKind op, const BenchRequest& request) {
  const WorldShape world{request.nodes, request.ranks};
  if (bench::is_moe(op)) return bench::moe_cases(op, world, request.moe);
  if (op == OpKind::kRingAttention) return bench::attention_cases(world, request.attention);
  if (!request.m) return bench::default_shapes(op, world, request.dtype);
  return {{op, world, *request.m, *request.n, *request.k, request.dtype}};
}

// What the request asks of one operator.
BenchRequest request_of(OpKind op, BenchRequest request) {
  request.split = split_of(*find_operator(bench::name_of(op)), Direction::kForward, request.split);
  return request;
}

bench::MeasureOptions options_of(const BenchRequest& request) {
  bench::MeasureOptions options;
  options.pace = request.pace;
  options.split = request.split;
  options.repetitions = request.repetitions;
  options.fused_only = request.fused_only;
  options.world = Options::from_env();
  options.world.timeout_ms = request.timeout_ms.value_or(options.world.timeout_ms);
  return options;
}

int bench_shapes(const BenchRequest& request, bench::MeasureOptions options, Rows& rows) {
  std::set<std::string> notes;
  int64_t wrong = 0;
  rows.print(fmt::format("device {}; pace {}, of which a rank has 1/{}; medians of {} in microseconds",
                         runtime::describe_cuda(), bench::name_of(request.pace), request.nodes * request.ranks,
                         request.repetitions));
  rows.print(bench_header());
  for (const OpKind op : ops_of(request)) {
    const BenchRequest own = request_of(op, request);
    options.split = own.split;
    for (const BenchCase& shape : shapes_of(op, request)) {
      const bench::Measurement result = bench::measure(shape, options);
      rows.print(bench_row(result));
      rows.append(to_json(result, own));
      wrong += result.check.wrong;
      if (!result.why_no_fused.empty()) notes.insert(fmt::format("{}: {}", bench::name_of(op), result.why_no_fused));
    }
  }
  for (const std::string& note : notes) rows.print(note);
  return wrong == 0 ? kExitCorrect : kExitFailed;
}

int bench_fixed_cost(const BenchRequest& request, bench::MeasureOptions options, Rows& rows) {
  const WorldShape world{request.nodes, request.ranks};
  int64_t wrong = 0;
  rows.print(fmt::format("device {}; M {}, N and K 128, not paced; medians of {} in microseconds",
                         runtime::describe_cuda(), world.size(), request.repetitions));
  rows.print(fixed_cost_header());
  for (const OpKind op : ops_of(request)) {
    const BenchRequest own = request_of(op, request);
    options.split = own.split;
    const bench::FixedCost cost = bench::measure_fixed_cost(op, world, request.dtype, options);
    rows.print(fixed_cost_row(cost));
    rows.append(to_json(cost, own));
    wrong += cost.check.wrong;
  }
  return wrong == 0 ? kExitCorrect : kExitFailed;
}

}  // namespace

std::string why_no_bench() { return {}; }

int bench_command(const BenchRequest& request) {
  const std::string missing = runtime::why_no_cuda();
  check_usage(missing.empty(), "--device is cuda: {}", missing);
  Rows rows(request.json);
  const bench::MeasureOptions options = options_of(request);
  try {
    const int code = request.mode == BenchMode::kFixedCost ? bench_fixed_cost(request, options, rows)
                                                           : bench_shapes(request, options, rows);
    rows.close();
    return code;
  } catch (const Error& error) {
    check_usage(error.code() != ErrorCode::kUnavailable, "bench: {}", error.what());
    throw;
  }
}

}  // namespace mk::tools
