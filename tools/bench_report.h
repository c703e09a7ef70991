// SPDX-License-Identifier: MIT
// tools/bench_report.h — what `mkernel bench` found, as rows of a table and as JSON objects.
#pragma once

#include <string>

#include "bench/measure.h"
#include "bench_request.h"

namespace mk::tools {

std::string bench_header();
std::string bench_row(const bench::Measurement& result);
std::string to_json(const bench::Measurement& result, const BenchRequest& request);

std::string fixed_cost_header();
std::string fixed_cost_row(const bench::FixedCost& cost);
std::string to_json(const bench::FixedCost& cost, const BenchRequest& request);

}  // namespace mk::tools
