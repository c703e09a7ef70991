// SPDX-License-Identifier: MIT
// transport/assignment.h — the assignment problem: to each row a column of its own, at the least total cost.
//
// Exact, and meant for tens of rows.  Costs must be so small that sums of all rows fit.
#pragma once

#include <cstdint>
#include <vector>

namespace mk {

// The column of each row.  All rows of `cost` are equally long, at least as long as there are rows.  The same
// costs give the same answer.
std::vector<int> assign(const std::vector<std::vector<int64_t>>& cost);

}  // namespace mk
