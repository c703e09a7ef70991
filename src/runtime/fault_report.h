// SPDX-License-Identifier: MIT
// runtime/fault_report.h — fault records in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/fault.h"

namespace mk::runtime {

using SignalNamer = std::function<std::string(const FaultRecord&)>;

// One record: "rank 0 intra 0 waited 200 ms for ready[rank 3] to reach 1 (it holds 0), launch 1, chunk or tile 4".
std::string describe_fault(const FaultRecord& record, int64_t timeout_ms, const SignalNamer& signal_name);

// The record that says most, and how many others gave up where.
std::string describe_faults(const std::vector<FaultRecord>& records, int64_t timeout_ms,
                            const SignalNamer& signal_name);

}  // namespace mk::runtime
