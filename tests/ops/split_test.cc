// SPDX-License-Identifier: MIT
// tests/ops/split_test.cc — how many workers communicate if nobody says.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorlds[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 8}, {2, 8}, {3, 4}};
constexpr Seats kOfAGpu[] = {{132, 8}, {33, 8}, {8, 8}, {5, 8}, {2, 8}};

gemm::Problem problem_of(const WorldShape& world, int64_t k) {
  return {world, 1024 * world.size(), 4096, k, DType::kBf16, BOrder::kKN};
}

// Calls body(roles, problem, seats) with the operators' own choices.
template <class Body>
void for_each_choice(Body&& body) {
  for (const WorldShape& world : kWorlds) {
    for (const Seats& seats : kOfAGpu) {
      for (const int64_t k : {64, 4096, 65536}) {
        const gemm::Problem problem = problem_of(world, k);
        body(ag_gemm_op::choose_roles(problem, {}, seats), problem, seats);
        body(gemm_rs_op::choose_roles(problem, {}, seats), problem, seats);
        body(gemm_ar_op::choose_roles(problem, AllReducePath::kOneShot, {}, seats), problem, seats);
        body(gemm_ar_op::choose_roles(problem, AllReducePath::kTwoShot, {}, seats), problem, seats);
      }
    }
  }
}

TEST(Split, FillsTheRanksSeatsAndNoMore) {
  for_each_choice([](const Roster& roles, const gemm::Problem&, const Seats& seats) {
    EXPECT_EQ(seats.needed_by(roles), seats.count);
    EXPECT_GE(roles.num_compute(), 1);
  });
}

TEST(Split, AWorldOfOneRankOnlyComputes) {
  for_each_choice([](const Roster& roles, const gemm::Problem& problem, const Seats&) {
    EXPECT_EQ(roles.total() == roles.num_compute(), problem.world.size() == 1);
  });
}

TEST(Split, NobodyIsAskedToReduceNothing) {
  constexpr Seats kSeats{33, 8};
  const gemm::Problem one_tile{{1, 4}, 4, 128, 128, DType::kBf16, BOrder::kKN};
  EXPECT_EQ(gemm_rs_op::choose_roles(one_tile, {}, kSeats).count(gemm_rs_op::Layout::kReduce), 1);
  const Roster in_one_shot = gemm_ar_op::choose_roles(one_tile, AllReducePath::kOneShot, {}, kSeats);
  EXPECT_EQ(in_one_shot.count(gemm_ar_op::OneShotLayout::kReduce), 1);
}

TEST(Split, CommunicationTakesAQuarterOfTheSeatsAtMost) {
  for_each_choice([](const Roster& roles, const gemm::Problem&, const Seats& seats) {
    EXPECT_LE(seats.outside(roles), std::max(1, seats.count / 4));
  });
}

// Where the links bind, compute gives one place more than keeps them busy, and no more than that.
TEST(Split, LinksBindWhateverIsLeftToCompute) {
  constexpr Seats kSeats{33, 8};
  for (const int64_t n : {8, 64, 512}) {
    const gemm::Problem problem{{2, 2}, 8192, n, 8192, DType::kBf16, BOrder::kKN};
    const Roster roles = ag_gemm_op::choose_roles(problem, {}, kSeats);
    EXPECT_EQ(kSeats.outside(roles), 3) << n;
  }
}

// Staging ahead of the network gains nothing, and what computes longer needs even fewer.
TEST(Split, SendersKeepPaceWithTheSlowest) {
  constexpr Seats kSeats{33, 8};
  const auto senders = [](int64_t m, int64_t n, const Seats& seats) {
    return ag_gemm_op::choose_roles({{2, 2}, m, n, 4096, DType::kBf16, BOrder::kKN}, {}, seats)
        .count(ag_gemm_op::Layout::kSend);
  };
  for (const int64_t m : {1024, 8192, 65536}) EXPECT_EQ(senders(m, 1536, kSeats), 3) << m;
  EXPECT_EQ(senders(8192, 7680, kSeats), 1);
}

// Copies of a node go on beside the maths and cost no place; those that feed on the network have seats of their own.
TEST(Split, InsideANodeEverySeatComputes) {
  for_each_choice([](const Roster&, const gemm::Problem& problem, const Seats& seats) {
    const Roster roles = ag_gemm_op::choose_roles(problem, {}, seats);
    const bool is_one_node = problem.world.nodes == 1 && problem.world.ranks > 1;
    EXPECT_EQ(roles.has_inside(), is_one_node);
    EXPECT_TRUE(!is_one_node || roles.num_compute() == seats.count);
  });
}

TEST(Split, ACallersSplitWithoutIntraMeansInsideOnAGpu) {
  const auto roles = [](const WorldShape& world, const Split& split, const Seats& seats) {
    return ag_gemm_op::choose_roles(problem_of(world, 4096), split, seats);
  };
  constexpr Seats kGpu{33, 8};
  EXPECT_EQ(roles({1, 4}, {{"compute", 33}}, kGpu).count(ag_gemm_op::Layout::kIntra), 33);
  EXPECT_TRUE(roles({2, 2}, {{"compute", 32}, {"send", 4}}, kGpu).has_inside());
  EXPECT_FALSE(roles({1, 4}, {{"compute", 32}, {"intra", 8}}, kGpu).has_inside());
  EXPECT_FALSE(roles({2, 1}, {{"compute", 32}, {"send", 8}}, kGpu).has_inside()) << "there are no peers";
  EXPECT_TRUE(refuses({"split.intra is 0", "at least 1"}, [&] { roles({1, 4}, {{"compute", 2}}, Seats{33}); }));
  EXPECT_TRUE(refuses({"split asks for 34"}, [&] { roles({1, 4}, {{"compute", 34}}, kGpu); }));
  EXPECT_TRUE(refuses({"split.intra is 0", "at least 1"}, [&] {
    gemm_ar_op::choose_roles(problem_of({1, 4}, 4096), AllReducePath::kTwoShot, {{"compute", 20}, {"reduce", 8}}, kGpu);
  }));
}

// Blocks of a cluster have no room for a worker.
TEST(Split, WithWorkersInsideNoClusterIsChosenOrTaken) {
  const gemm::Problem problem{{1, 2}, 16384, 8192, 512, DType::kBf16, BOrder::kKN};
  const auto tile = [&](const TileSize& asked, const Roster& roles) {
    return ag_gemm_op::choose_tile(problem, asked, DeviceKind::kCuda, roles);
  };
  const Roster inside = ag_gemm_op::roster_with_intra_inside(0, 132);
  EXPECT_EQ(tile({}, inside).cluster, 1);
  EXPECT_EQ(tile({}, ag_gemm_op::roster(16, 0, 130)).cluster, 2) << "without workers inside it would be";
  EXPECT_TRUE(refuses({"tile.cluster is 2", "132 blocks that compute and copy"}, [&] { tile({128, 256, 2}, inside); }));
}

// Threads of a CPU are as many for each byte.
TEST(Split, OnACpuSendersHaveTheirShareOfTheBytes) {
  const Roster roles = ag_gemm_op::choose_roles({{2, 2}, 8192, 1536, 4096, DType::kBf16, BOrder::kKN}, {}, Seats{64});
  EXPECT_EQ(roles.count(ag_gemm_op::Layout::kSend), 1);
  EXPECT_EQ(roles.count(ag_gemm_op::Layout::kIntra), 3);
}

TEST(Split, AllReduceGivesItsLinksMoreWhereTheyTakeTwiceAsLong) {
  constexpr Seats kSeats{33, 8};
  const auto communicating = [&](int64_t k) {
    const gemm::Problem problem{{2, 2}, 8192, 8192, k, DType::kBf16, BOrder::kKN};
    return kSeats.outside(gemm_ar_op::choose_roles(problem, AllReducePath::kTwoShot, {}, kSeats));
  };
  EXPECT_EQ(communicating(3200), communicating(7040) + 2);
}

// The last wave of sums is done when nothing hides it: where a product is small, more workers are worth their seats.
// As swept on an H200 (docs/performance.md).
TEST(Split, InOneNodeSmallSumsGetMoreWorkersThanTheirPaceTakes) {
  const auto problem = [](int ranks, int64_t m, int64_t n, int64_t k) {
    return gemm::Problem{{1, ranks}, m, n, k, DType::kBf16, BOrder::kKN};
  };
  const auto scatters = [&](int ranks, int64_t m, int64_t n, int64_t k) {
    const Seats seats(132 / ranks, 8);
    return seats.outside(gemm_rs_op::choose_roles(problem(ranks, m, n, k), {}, seats));
  };
  const auto gathers = [&](int ranks, int64_t m, int64_t n, int64_t k) {
    const Seats seats(132 / ranks, 8);
    const auto path = AllReducePath::kTwoShot;
    return seats.outside(gemm_ar_op::choose_roles(problem(ranks, m, n, k), path, {}, seats));
  };
  EXPECT_EQ(scatters(4, 2048, 4096, 4096), 4);
  EXPECT_EQ(scatters(4, 8192, 8192, 4096), 2);
  EXPECT_EQ(scatters(2, 8192, 4096, 4096), 4);
  EXPECT_EQ(gathers(4, 2048, 4096, 4096), 5);
  EXPECT_EQ(gathers(2, 8192, 4096, 4096), 6);
}

TEST(Split, TheMoreThereIsToComputeTheFewerCommunicate) {
  constexpr Seats kSeats{132, 8};
  for (const WorldShape& world : kWorlds) {
    int before = 1 << 20;
    for (int64_t k = 64; k <= 65536; k *= 4) {
      const int now = gemm_rs_op::choose_roles(problem_of(world, k), {}, kSeats).num_outside();
      EXPECT_LE(now, before) << k;
      before = now;
    }
  }
}

}  // namespace
}  // namespace mk::test
