// SPDX-License-Identifier: MIT
// tests/core/roles_test.cc — every worker has one post, every post one worker.
#include "core/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace mk::test {
namespace {

// Intra, send, compute, reduce.
constexpr RoleCounts kCounts[] = {{0, 0, 1},    {1, 0, 1},    {0, 1, 4},    {1, 1, 1},    {3, 2, 7},     {8, 2, 2},
                                  {16, 4, 112}, {0, 0, 1, 1}, {0, 0, 5, 3}, {2, 0, 4, 1}, {4, 3, 100, 8}};

// The same with intra workers beside those that compute.
constexpr RoleCounts kInside[] = {with_intra_inside({0, 0, 1}), with_intra_inside({0, 3, 7}),
                                  with_intra_inside({0, 4, 33, 2})};

template <class Body>
void for_each_counts(Body&& body) {
  for (const RoleCounts& counts : kCounts) body(counts);
  for (const RoleCounts& counts : kInside) body(counts);
}

int count_of(const RoleCounts& counts, Role role) {
  switch (role) {
    case Role::kIntra: return counts.intra;
    case Role::kSend: return counts.send;
    case Role::kReduce: return counts.reduce;
    default: return counts.compute;
  }
}

TEST(Roles, PostsPartitionTheWorkers) {
  for_each_counts([](const RoleCounts& counts) {
    std::set<std::pair<Role, int>> posts;
    for (int worker = 0; worker < counts.total(); ++worker) {
      const Post post = counts.post_of(worker);
      EXPECT_TRUE(posts.insert({post.role, post.index}).second) << "two workers at one post";
      EXPECT_EQ(post.count, count_of(counts, post.role));
      EXPECT_GE(post.index, 0);
      EXPECT_LT(post.index, post.count);
    }
    EXPECT_EQ(static_cast<int>(posts.size()), counts.total());
  });
}

TEST(Roles, CommunicationHasTheLowestNumbers) {
  for (const RoleCounts& counts : kCounts) {
    for (int worker = 0; worker < counts.total(); ++worker) {
      EXPECT_EQ(counts.post_of(worker).role == Role::kCompute, worker >= counts.total() - counts.compute);
    }
  }
}

TEST(Roles, AnIntraWorkerInsideComesAfterTheComputeWorkerItIsBeside) {
  for (const RoleCounts& counts : kInside) {
    EXPECT_EQ(counts.intra, counts.compute);
    for (int index = 0; index < counts.compute; ++index) {
      const Post computes = counts.post_of(counts.compute_worker(index));
      const Post copies = counts.post_of(counts.compute_worker(index) + 1);
      EXPECT_EQ(computes.role, Role::kCompute);
      EXPECT_EQ(copies.role, Role::kIntra);
      EXPECT_EQ(computes.index, index);
      EXPECT_EQ(copies.index, index);
    }
    for (int worker = 0; worker < counts.apart(); ++worker) {
      EXPECT_NE(counts.post_of(worker).role, Role::kCompute);
      EXPECT_NE(counts.post_of(worker).role, Role::kIntra);
    }
    EXPECT_EQ(Places(100, 8).needed_by(counts), counts.compute + (counts.send + counts.reduce > 0)) << "inside is free";
  }
}

TEST(Places, ComputeWorkersHaveTheirOwnAndTheOthersShare) {
  for (const RoleCounts& counts : kCounts) {
    EXPECT_EQ(Places(100).needed_by(counts), counts.total());
    const Places shared(100, 4);
    const int communication = shared.of_communication(counts);
    EXPECT_GE(4 * communication, counts.communicating());
    EXPECT_LT(4 * (communication - 1), std::max(1, counts.communicating()));
    EXPECT_EQ(shared.needed_by(counts), communication + counts.compute);
  }
}

TEST(Roles, EveryRoleHasItsOwnName) {
  std::set<std::string> names;
  for (const Role role : {Role::kIntra, Role::kSend, Role::kReduce, Role::kCompute}) {
    names.insert(name_of(role));
  }
  EXPECT_EQ(names.size(), 4u);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace mk::test
