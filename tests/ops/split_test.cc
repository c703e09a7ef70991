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
constexpr Places kOfAGpu[] = {{132, 8}, {33, 8}, {8, 8}, {5, 8}, {2, 8}};

dense::Problem problem_of(const WorldShape& world, int64_t k) {
  return {world, 1024 * world.size(), 4096, k, DType::kBf16, BOrder::kKN};
}

// Calls body(roles, problem, places) with the operators' own choices.
template <class Body>
void for_each_choice(Body&& body) {
  for (const WorldShape& world : kWorlds) {
    for (const Places& places : kOfAGpu) {
      for (const int64_t k : {64, 4096, 65536}) {
        const dense::Problem problem = problem_of(world, k);
        body(ag_gemm_op::choose_roles(problem, {}, places), problem, places);
        body(gemm_rs_op::choose_roles(problem, {}, places), problem, places);
        body(gemm_ar_op::choose_roles(problem, AllReducePath::kOneShot, {}, places), problem, places);
        body(gemm_ar_op::choose_roles(problem, AllReducePath::kTwoShot, {}, places), problem, places);
      }
    }
  }
}

TEST(Split, FillsTheRanksPlacesAndNoMore) {
  for_each_choice([](const RoleCounts& roles, const dense::Problem&, const Places& places) {
    EXPECT_EQ(places.needed_by(roles), places.count);
    EXPECT_GE(roles.compute, 1);
  });
}

TEST(Split, AWorldOfOneRankOnlyComputes) {
  for_each_choice([](const RoleCounts& roles, const dense::Problem& problem, const Places&) {
    EXPECT_EQ(roles.communicating() == 0, problem.world.size() == 1);
  });
}

TEST(Split, NobodyIsAskedToReduceNothing) {
  constexpr Places kPlaces{33, 8};
  const dense::Problem one_tile{{1, 4}, 4, 128, 128, DType::kBf16, BOrder::kKN};
  EXPECT_EQ(gemm_rs_op::choose_roles(one_tile, {}, kPlaces).reduce, 1);
  EXPECT_EQ(gemm_ar_op::choose_roles(one_tile, AllReducePath::kOneShot, {}, kPlaces).reduce, 1);
}

TEST(Split, CommunicationTakesAQuarterOfThePlacesAtMost) {
  for_each_choice([](const RoleCounts& roles, const dense::Problem&, const Places& places) {
    EXPECT_LE(places.of_communication(roles), std::max(1, places.count / 4));
  });
}

// Where the links bind, compute gives one place more than keeps them busy, and no more than that.
TEST(Split, LinksBindWhateverIsLeftToCompute) {
  constexpr Places kPlaces{33, 8};
  for (const int64_t n : {8, 64, 512}) {
    const dense::Problem problem{{2, 2}, 8192, n, 8192, DType::kBf16, BOrder::kKN};
    const RoleCounts roles = ag_gemm_op::choose_roles(problem, {}, kPlaces);
    EXPECT_EQ(kPlaces.of_communication(roles), 3) << n;
  }
}

// Staging ahead of the network gains nothing, and what computes longer needs even fewer.
TEST(Split, SendersKeepPaceWithTheSlowest) {
  constexpr Places kPlaces{33, 8};
  const auto senders = [](int64_t m, int64_t n, const Places& places) {
    return ag_gemm_op::choose_roles({{2, 2}, m, n, 4096, DType::kBf16, BOrder::kKN}, {}, places).send;
  };
  for (const int64_t m : {1024, 8192, 65536}) EXPECT_EQ(senders(m, 1536, kPlaces), 3) << m;
  EXPECT_EQ(senders(8192, 7680, kPlaces), 1);
}

// Copies of a node go on beside the maths and cost no place; those that feed on the network have places of their own.
TEST(Split, InsideANodeEveryPlaceComputes) {
  for_each_choice([](const RoleCounts&, const dense::Problem& problem, const Places& places) {
    const RoleCounts roles = ag_gemm_op::choose_roles(problem, {}, places);
    const bool is_one_node = problem.world.nodes == 1 && problem.world.ranks > 1;
    EXPECT_EQ(roles.intra_inside, is_one_node);
    EXPECT_TRUE(!is_one_node || roles.compute == places.count);
  });
}

TEST(Split, ACallersSplitWithoutIntraMeansInsideOnAGpu) {
  const auto roles = [](const WorldShape& world, const Split& split, const Places& places) {
    return ag_gemm_op::choose_roles(problem_of(world, 4096), split, places);
  };
  constexpr Places kGpu{33, 8};
  EXPECT_EQ(roles({1, 4}, {.compute = 33}, kGpu).intra, 33);
  EXPECT_TRUE(roles({2, 2}, {.compute = 32, .send = 4}, kGpu).intra_inside);
  EXPECT_FALSE(roles({1, 4}, {.compute = 32, .intra = 8}, kGpu).intra_inside);
  EXPECT_FALSE(roles({2, 1}, {.compute = 32, .send = 8}, kGpu).intra_inside) << "there are no peers";
  EXPECT_TRUE(refuses({"split.intra is 0", "at least 1"}, [&] { roles({1, 4}, {.compute = 2}, Places{33}); }));
  EXPECT_TRUE(refuses({"split asks for 34"}, [&] { roles({1, 4}, {.compute = 34}, kGpu); }));
  EXPECT_TRUE(refuses({"split.intra is 0", "at least 1"}, [&] {
    gemm_ar_op::choose_roles(problem_of({1, 4}, 4096), AllReducePath::kTwoShot, {.compute = 20, .reduce = 8}, kGpu);
  }));
}

// Blocks of a cluster have no room for a worker.
TEST(Split, WithWorkersInsideNoClusterIsChosenOrTaken) {
  const dense::Problem problem{{1, 2}, 16384, 8192, 512, DType::kBf16, BOrder::kKN};
  const auto tile = [&](const TileSize& asked, const RoleCounts& roles) {
    return ag_gemm_op::choose_tile(problem, asked, DeviceKind::kCuda, roles);
  };
  const RoleCounts inside = with_intra_inside({.compute = 132});
  EXPECT_EQ(tile({}, inside).cluster, 1);
  EXPECT_EQ(tile({}, {.intra = 16, .compute = 130}).cluster, 2) << "without workers inside it would be";
  EXPECT_TRUE(refuses({"tile.cluster is 2", "132 blocks that compute and copy"}, [&] { tile({128, 256, 2}, inside); }));
}

// Threads of a CPU are as many for each byte.
TEST(Split, OnACpuSendersHaveTheirShareOfTheBytes) {
  const RoleCounts roles =
      ag_gemm_op::choose_roles({{2, 2}, 8192, 1536, 4096, DType::kBf16, BOrder::kKN}, {}, Places{64});
  EXPECT_EQ(roles.send, 1);
  EXPECT_EQ(roles.intra, 3);
}

TEST(Split, AllReduceGivesItsLinksMoreWhereTheyTakeTwiceAsLong) {
  constexpr Places kPlaces{33, 8};
  const auto communicating = [&](int64_t k) {
    const dense::Problem problem{{2, 2}, 8192, 8192, k, DType::kBf16, BOrder::kKN};
    return kPlaces.of_communication(gemm_ar_op::choose_roles(problem, AllReducePath::kTwoShot, {}, kPlaces));
  };
  EXPECT_EQ(communicating(3200), communicating(7040) + 2);
}

// The last wave of sums is done when nothing hides it: where a product is small, more workers are worth their places.
// As swept on an H200 (docs/performance.md).
TEST(Split, InOneNodeSmallSumsGetMoreWorkersThanTheirPaceTakes) {
  const auto problem = [](int ranks, int64_t m, int64_t n, int64_t k) {
    return dense::Problem{{1, ranks}, m, n, k, DType::kBf16, BOrder::kKN};
  };
  const auto scatters = [&](int ranks, int64_t m, int64_t n, int64_t k) {
    const Places places(132 / ranks, 8);
    return places.of_communication(gemm_rs_op::choose_roles(problem(ranks, m, n, k), {}, places));
  };
  const auto gathers = [&](int ranks, int64_t m, int64_t n, int64_t k) {
    const Places places(132 / ranks, 8);
    const auto path = AllReducePath::kTwoShot;
    return places.of_communication(gemm_ar_op::choose_roles(problem(ranks, m, n, k), path, {}, places));
  };
  EXPECT_EQ(scatters(4, 2048, 4096, 4096), 4);
  EXPECT_EQ(scatters(4, 8192, 8192, 4096), 2);
  EXPECT_EQ(scatters(2, 8192, 4096, 4096), 4);
  EXPECT_EQ(gathers(4, 2048, 4096, 4096), 5);
  EXPECT_EQ(gathers(2, 8192, 4096, 4096), 6);
}

TEST(Split, TheMoreThereIsToComputeTheFewerCommunicate) {
  constexpr Places kPlaces{132, 8};
  for (const WorldShape& world : kWorlds) {
    int before = 1 << 20;
    for (int64_t k = 64; k <= 65536; k *= 4) {
      const int now = gemm_rs_op::choose_roles(problem_of(world, k), {}, kPlaces).communicating();
      EXPECT_LE(now, before) << k;
      before = now;
    }
  }
}

}  // namespace
}  // namespace mk::test
