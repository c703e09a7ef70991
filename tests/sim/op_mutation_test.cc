// SPDX-License-Identifier: MIT
// tests/sim/op_mutation_test.cc — the simulator bites: every planted bug is found within 200 seeds.
//
// Each row prints the bug, how it was reported and the seeds it took; docs/simulation.md holds the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/mutants.h"
#include "tests/sim/op_runs.h"

namespace mk::test {

static std::string name_of(const Bug& bug) { return bug.name; }
static void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

namespace {

constexpr uint64_t kMostSeeds = 200;

using OpBug = std::tuple<Op, Bug>;

std::vector<OpBug> all_bugs() {
  std::vector<OpBug> all;
  for (const Bug& bug : bugs()) {
    for (const Op op : bug.ops) all.emplace_back(op, bug);
  }
  return all;
}

class OpMutations : public testing::TestWithParam<OpBug> {};

INSTANTIATE_TEST_SUITE_P(All, OpMutations, testing::ValuesIn(all_bugs()), joined_names);

TEST_P(OpMutations, IsFoundWithinTwoHundredSeeds) {
  const auto& [op, bug] = GetParam();
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const auto run = run_of(op, seed);
    bug.run(*run);
    if (!run->core().stopped()) continue;
    const sim::Complaint& complaint = run->core().complaints().front();
    EXPECT_NE(bug.reported_as.find(complaint.kind), std::string::npos) << complaint.text;
    const std::string first_line = complaint.text.substr(0, complaint.text.find('\n'));
    fmt::print("| {} | {} | {}: {} | {} |\n", name_of(op), bug.name, complaint.kind, first_line, seed);
    return;
  }
  FAIL() << bug.name << " passed " << kMostSeeds << " seeds";
}

}  // namespace
}  // namespace mk::test
