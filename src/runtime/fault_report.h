// SPDX-License-Identifier: MIT
// runtime/fault_report.h — fault records in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/fault.h"
#include "core/names.h"

namespace mk::runtime {

// The names of the plan that a record is of.
using NamesOf = std::function<const Names&(const FaultRecord&)>;

// One record: "rank 0 intra 0 waited 200 ms for ready[rank 3] to reach 1 (it holds 0), launch 1, chunk 4".
std::string describe_fault(const FaultRecord& record, int64_t timeout_ms, const Names& names);

// The record that says most, and how many others gave up where.
std::string describe_faults(const std::vector<FaultRecord>& records, int64_t timeout_ms, const NamesOf& names_of);

}  // namespace mk::runtime
