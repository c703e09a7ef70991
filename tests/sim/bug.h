// SPDX-License-Identifier: MIT
// tests/sim/bug.h — a planted bug, and the hunt for it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "target/sim/sim_core.h"

namespace mk::test {

constexpr uint64_t kMostSeeds = 200;

struct Bug {
  std::string name;
  std::string reported_as;                                     // the kinds allowed for the first complaint
  std::function<std::optional<sim::Complaint>(uint64_t)> run;  // a seed's first complaint
};

inline std::string name_of(const Bug& bug) { return bug.name; }
inline void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

// A run of which `spoilt` does one thing wrong.
template <class Run, class Spoilt>
Bug bug_of(const std::string& name, const std::string& reported_as, Spoilt&& spoilt) {
  return {name, reported_as, [spoilt](uint64_t seed) -> std::optional<sim::Complaint> {
            Run run(seed, {});
            spoilt(run);
            if (!run.core().stopped()) return std::nullopt;
            return run.core().complaints().front();
          }};
}

// Prints a row of the table in docs/simulation.md.
inline void expect_found(const Bug& bug) {
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const std::optional<sim::Complaint> complaint = bug.run(seed);
    if (!complaint) continue;
    EXPECT_NE(bug.reported_as.find(complaint->kind), std::string::npos) << complaint->text;
    const std::string first_line = complaint->text.substr(0, complaint->text.find('\n'));
    fmt::print("| {} | {}: {} | {} |\n", bug.name, complaint->kind, first_line, seed);
    return;
  }
  FAIL() << bug.name << " passed " << kMostSeeds << " seeds";
}

}  // namespace mk::test
