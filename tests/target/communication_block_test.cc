// SPDX-License-Identifier: MIT
// tests/target/communication_block_test.cc — the blocks of a launch have every worker once.
#include "target/sm90/communication_block.h"

#include <gtest/gtest.h>

namespace mk::sm90 {
namespace {

constexpr Roster::Row kInside{0, Seating::kInside};
constexpr Roster kRosters[] = {{{1}},
                               {{1}, {0}, {1}},
                               {{6}, {1}, {32}},
                               {{6}, {2}, {32}},
                               {{6}, {3}, {31}},
                               {{4}, {13}, {30}},
                               {kInside, {33}},
                               {kInside, {9}, {31}},
                               {{9}, {2, Seating::kOwn}, {31}},
                               {{3, Seating::kOwn}, kInside, {8}}};

TEST(CommunicationBlock, BlocksHaveTheWorkersInOrder) {
  for (const Roster& roles : kRosters) {
    int next = 0;
    for (int block = 0; block < num_blocks(roles); ++block) {
      const BlockWorkers workers = workers_of(roles, block);
      EXPECT_EQ(workers.first, next);
      EXPECT_GE(workers.count, 1);
      next += workers.count;
    }
    EXPECT_EQ(next, roles.total());
  }
}

TEST(CommunicationBlock, ABlocksWorkersSitAsTheirRolesSay) {
  for (const Roster& roles : kRosters) {
    for (int block = 0; block < num_blocks(roles); ++block) {
      const BlockWorkers workers = workers_of(roles, block);
      const bool computes = roles.post_of(workers.first).role == roles.compute_role();
      EXPECT_EQ(computes, block >= communication_blocks(roles));
      EXPECT_EQ(workers.count == roles.workers_per_compute() || !computes, true);
      for (int worker = workers.first; worker < workers.first + workers.count; ++worker) {
        const Seating seating = roles.seating(roles.post_of(worker).role);
        if (computes) {
          EXPECT_EQ(seating, worker == workers.first ? Seating::kOwn : Seating::kInside);
        } else {
          EXPECT_NE(seating, Seating::kInside);
          EXPECT_LE(workers.count, seating == Seating::kOwn ? 1 : kWorkersPerSm);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mk::sm90
