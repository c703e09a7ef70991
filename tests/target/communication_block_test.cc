// SPDX-License-Identifier: MIT
// tests/target/communication_block_test.cc — the blocks of a launch have every worker once.
#include "target/sm90/communication_block.h"

#include <gtest/gtest.h>

namespace mk::sm90 {
namespace {

// Intra, send, compute, reduce.
constexpr RoleCounts kCounts[] = {{0, 0, 1},
                                  {1, 0, 1},
                                  {6, 1, 32},
                                  {6, 2, 32},
                                  {6, 3, 31},
                                  {4, 0, 30, 13},
                                  with_intra_inside({0, 0, 33}),
                                  with_intra_inside({0, 9, 31})};

TEST(CommunicationBlock, BlocksHaveTheWorkersInOrder) {
  for (const RoleCounts& roles : kCounts) {
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

TEST(CommunicationBlock, NoBlockMixesComputeWithCommunicationUnlessItIsInside) {
  for (const RoleCounts& roles : kCounts) {
    for (int block = 0; block < num_blocks(roles); ++block) {
      const BlockWorkers workers = workers_of(roles, block);
      const bool computes = roles.post_of(workers.first).role == Role::kCompute;
      EXPECT_EQ(computes, block >= communication_blocks(roles));
      const Role last = roles.post_of(workers.first + workers.count - 1).role;
      if (computes && roles.intra_inside) {
        EXPECT_EQ(workers.count, 2);
        EXPECT_EQ(last, Role::kIntra);
      } else {
        EXPECT_LE(workers.count, computes ? 1 : kCommunicationWorkersPerSm);
        EXPECT_EQ(last == Role::kCompute, computes);
      }
    }
  }
}

}  // namespace
}  // namespace mk::sm90
