// SPDX-License-Identifier: MIT
// tools/netbench_report.h — what `mkernel netbench` found, as rows of tables and as JSON objects.
#pragma once

#include <string>
#include <string_view>

#include "bench/command_rate.h"
#include "bench/net_puts.h"
#include "bench/round_trip.h"

namespace mk::tools {

std::string puts_header();
std::string puts_row(std::string_view fabric, const bench::PutFigures& figures);
std::string to_json(std::string_view fabric, std::string_view ranks_are, const bench::PutFigures& figures);

// A fabric without rows.
std::string unusable_row(std::string_view fabric, const std::string& why);
std::string unusable_json(std::string_view fabric, const std::string& why);

std::string commands_header();
std::string commands_row(const bench::CommandFigures& figures);
std::string to_json(const bench::CommandFigures& figures);

std::string round_trips_header();
std::string round_trips_row(const bench::RoundTripFigures& figures);
std::string to_json(const bench::RoundTripFigures& figures);
std::string no_round_trips_row(const std::string& why);
std::string no_round_trips_json(const std::string& why);

}  // namespace mk::tools
