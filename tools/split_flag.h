// SPDX-License-Identifier: MIT
// tools/split_flag.h — `--split compute=12,reduce=2`: how many workers of a rank play each role.
//
// Every operator has some of the roles, and its backward pass may have others.  A command for one operator refuses the
// others; a command for all of them gives each operator those that it has.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "mkernel/options.h"
#include "operators.h"

namespace mk::tools {

void add_split(CLI::App& app, Split& split);

// After parsing; `op` is an operator's name or all.  Throws UsageError if the operator does not have a role.
void check_split(const std::string& op, Direction direction, const Split& split);

// Without the roles that the operator does not have.
Split split_of(const Operator& op, Direction direction, Split split);

}  // namespace mk::tools
