// SPDX-License-Identifier: MIT
// tests/bench/pace_test.cc — links of the scale model: what --pace reads, and when transfers are over.
#include "bench/pace.h"

#include <gtest/gtest.h>

#include <string>

#include "bench/link_clock.h"
#include "bench/pace_spec.h"
#include "tools/usage.h"

namespace mk::bench {
namespace {

TEST(PaceSpec, RealIsNvlinkAndANic) {
  EXPECT_EQ(parse_pace("real"), (PaceSpec{450, 50}));
  EXPECT_EQ(parse_pace("none"), (PaceSpec{0, 0}));
}

TEST(PaceSpec, RatesAreReadByName) {
  EXPECT_EQ(parse_pace("nvlink=370,network=46"), (PaceSpec{370, 46}));
  EXPECT_EQ(parse_pace("network=46,nvlink=370"), (PaceSpec{370, 46}));
  EXPECT_EQ(parse_pace("network=12.5"), (PaceSpec{0, 12.5}));
  EXPECT_EQ(parse_pace("nvlink=900"), (PaceSpec{900, 0}));
}

TEST(PaceSpec, ANameIsReadAsTheSamePace) {
  for (const PaceSpec& pace : {PaceSpec{450, 50}, PaceSpec{}, PaceSpec{0, 12.5}, PaceSpec{370, 0}}) {
    EXPECT_EQ(parse_pace(name_of(pace)), pace) << name_of(pace);
  }
}

TEST(PaceSpec, EverythingElseIsRefusedByTheFlagsName) {
  for (const char* text :
       {"", ",", "fast", "450", "nvlink", "nvlink=", "nvlink=0", "nvlink=-1", "nvlink=1e9", "nvlink=x", "nvlink=4,",
        "nvlink=4,nvlink=5", "pcie=55", "nvlink=4,network=5,network=6", "network=5 "}) {
    try {
      parse_pace(text);
      ADD_FAILURE() << "'" << text << "' was read";
    } catch (const tools::UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("--pace"), std::string::npos) << error.what();
    }
  }
}

TEST(PaceSpec, ARankHasItsShareOfALink) {
  EXPECT_DOUBLE_EQ(ns_per_byte(450, 1), 1 / 450.0);
  EXPECT_DOUBLE_EQ(ns_per_byte(50, 4), 4 / 50.0);
  EXPECT_EQ(ns_per_byte(0, 4), 0);
}

TEST(Reservation, AnIdleLinkStartsNow) {
  constexpr Reservation turn = reserve(/*now=*/1000, /*free_at=*/10, /*bytes=*/64, /*ns_per_byte=*/0.5);
  EXPECT_EQ(turn.begin, 1000u);
  EXPECT_EQ(turn.end, 1032u);
}

TEST(Reservation, ABusyLinkStartsWhenItIsFree) {
  constexpr Reservation turn = reserve(1000, 5000, 64, 0.5);
  EXPECT_EQ(turn.begin, 5000u);
  EXPECT_EQ(turn.end, 5032u);
}

TEST(Reservation, NoTransferIsFasterThanItsLink) {
  for (const uint64_t bytes : {1u, 3u, 7u, 100u, 65536u}) {
    for (const double rate : {1 / 450.0, 4 / 450.0, 4 / 50.0, 1.0}) {
      const Reservation turn = reserve(0, 0, bytes, rate);
      EXPECT_GE(static_cast<double>(turn.end), static_cast<double>(bytes) * rate);
      EXPECT_LT(static_cast<double>(turn.end), static_cast<double>(bytes) * rate + 1);
    }
  }
}

TEST(Reservation, NoBytesTakeNoTime) { EXPECT_EQ(reserve(7, 9, 0, 0.5).end, 9u); }

TEST(LinkClock, TransfersFollowEachOtherWithoutGaps) {
  LinkClock link(1.0);
  EXPECT_EQ(link.carry(0, 100).end, 100u);
  EXPECT_EQ(link.carry(10, 100).end, 200u);
  EXPECT_EQ(link.carry(500, 100).end, 600u);
}

TEST(LinkQueue, ATransferIsOverWhenItsTimeHasPassed) {
  LinkClock link(1.0);
  LinkQueue queue;
  queue.take(link, 0, 100);
  queue.take(link, 0, 50);
  EXPECT_EQ(queue.over(99), 0u);
  EXPECT_EQ(queue.over(100), 1u);
  EXPECT_EQ(queue.over(149), 1u);
  EXPECT_EQ(queue.over(150), 2u);
  EXPECT_TRUE(queue.idle());
}

TEST(LinkQueue, QueuesOfOneLinkShareItsTime) {
  LinkClock link(1.0);
  LinkQueue first;
  LinkQueue second;
  first.take(link, 0, 100);
  second.take(link, 0, 100);
  EXPECT_EQ(first.over(100), 1u);
  EXPECT_EQ(second.over(199), 0u);
  EXPECT_EQ(second.over(200), 1u);
}

}  // namespace
}  // namespace mk::bench
