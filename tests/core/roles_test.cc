// SPDX-License-Identifier: MIT
// tests/core/roles_test.cc — every worker has one post, every post one worker.
#include "core/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace mk::test {
namespace {

constexpr Roster::Row own(int count) { return {count, Seating::kOwn}; }
constexpr Roster::Row kInside{0, Seating::kInside};

constexpr Roster kRosters[] = {{{1}},
                               {{0}, {1}},
                               {{1}, {0}, {1}},
                               {{3}, {2}, {7}},
                               {{16}, {4}, {0}, {112}},
                               {{2}, own(3), {5}, {4}},
                               {own(1), {9}, own(2), {30}},
                               {kInside, {1}},
                               {kInside, {3}, {7}},
                               {{2}, kInside, own(4), kInside, {33}},
                               {{1}, {2}, {3}, {4}, {5}, {6}}};

template <class Body>
void for_each_worker(const Roster& roles, Body&& body) {
  for (int worker = 0; worker < roles.total(); ++worker) body(worker, roles.post_of(worker));
}

TEST(Roster, PostsPartitionTheWorkers) {
  for (const Roster& roles : kRosters) {
    std::set<std::pair<int, int>> posts;
    for_each_worker(roles, [&](int, const Post& post) {
      EXPECT_TRUE(posts.insert({post.role, post.index}).second) << "two workers at one post";
      EXPECT_EQ(post.count, roles.count(post.role));
      EXPECT_GE(post.index, 0);
      EXPECT_LT(post.index, post.count);
    });
    EXPECT_EQ(static_cast<int>(posts.size()), roles.total());
  }
}

TEST(Roster, WorkersThatShareComeFirstThenThoseWithTheirOwnSeatThenCompute) {
  for (const Roster& roles : kRosters) {
    for_each_worker(roles, [&](int worker, const Post& post) {
      const bool is_outside = worker < roles.num_outside();
      EXPECT_EQ(is_outside, post.role != roles.compute_role() && roles.seating(post.role) != Seating::kInside);
      EXPECT_EQ(worker < roles.num_shared(), roles.seating(post.role) == Seating::kShared);
    });
  }
}

TEST(Roster, RolesOfOneSeatingFollowEachOtherInTheTablesOrder) {
  for (const Roster& roles : kRosters) {
    std::pair<int, int> before[3] = {{-1, -1}, {-1, -1}, {-1, -1}};  // by seating
    for_each_worker(roles, [&](int worker, const Post& post) {
      if (worker >= roles.num_outside()) return;
      auto& last = before[static_cast<int>(roles.seating(post.role))];
      EXPECT_LT(last, (std::pair{post.role, post.index}));
      last = {post.role, post.index};
    });
  }
}

TEST(Roster, WorkersInsideFollowTheOneThatComputes) {
  for (const Roster& roles : kRosters) {
    for (int index = 0; index < roles.num_compute(); ++index) {
      const int first = roles.compute_worker(index);
      for (int worker = first; worker < first + roles.workers_per_compute(); ++worker) {
        const Post post = roles.post_of(worker);
        EXPECT_EQ(post.index, index);
        EXPECT_EQ(post.count, roles.num_compute());
        EXPECT_EQ(post.role == roles.compute_role(), worker == first);
      }
    }
  }
}

TEST(Roster, ARoleInsideHasAsManyWorkersAsComputeAlsoWhenThatChanges) {
  Roster roles{kInside, {2}, {5}};
  EXPECT_EQ(roles.count(0), 5);
  EXPECT_EQ(roles.total(), 12);
  roles.set_compute(7);
  EXPECT_EQ(roles.count(0), 7);
  roles.set(1, 0);
  EXPECT_EQ(roles.total(), 14);
  EXPECT_TRUE(roles.has_inside());
}

TEST(Seats, WhoComputesHasAnOwnOneAndTheOthersShare) {
  for (const Roster& roles : kRosters) {
    const int own_seats = roles.num_outside() - roles.num_shared();
    EXPECT_EQ(Seats(100).needed_by(roles), roles.num_outside() + roles.num_compute());
    const Seats shared(100, 4);
    const int sharing = shared.outside(roles) - own_seats;
    EXPECT_GE(4 * sharing, roles.num_shared());
    EXPECT_LT(4 * (sharing - 1), std::max(1, roles.num_shared()));
    EXPECT_EQ(shared.needed_by(roles), shared.outside(roles) + roles.num_compute()) << "inside is free";
  }
}

}  // namespace
}  // namespace mk::test
