// SPDX-License-Identifier: MIT
// tests/transport/staged_fabric_test.cc — slots on their way: a wrong slot is found, and no wait for a slot is
// endless.
#include "transport/staged_fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "tests/support/chaos_fabric.h"
#include "tests/support/slot_world.h"
#include "tests/support/tampered_fabric.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

bool is_credit(const Command& command) { return command.bytes == 0; }

// Only what `rank` puts on the inner fabric goes through the hooks.
auto tampered(int rank, TamperedFabric::Hooks hooks) {
  return [=](int own, std::unique_ptr<Fabric> inner) -> std::unique_ptr<Fabric> {
    if (own != rank) return inner;
    return std::make_unique<TamperedFabric>(std::move(inner), hooks);
  };
}

testing::AssertionResult fails_saying(SlotWorld& world, int rank, const std::string& words) {
  if (!world.run_until([&] { return world.fabric(rank).failure() != ""; })) {
    return testing::AssertionFailure() << "it does not fail";
  }
  if (world.poll(rank) != PutResult::kFailed) return testing::AssertionFailure() << "poll does not say so";
  if (world.fabric(rank).failure().find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "it says: " << world.fabric(rank).failure();
}

struct Damage {
  const char* name;
  void (*to)(SlotHeader&, Piece&);
  const char* said;
};
std::ostream& operator<<(std::ostream& out, const Damage& damage) { return out << damage.name; }

class DamagedSlot : public testing::TestWithParam<Damage> {};
INSTANTIATE_TEST_SUITE_P(
    Fields, DamagedSlot,
    testing::Values(
        Damage{"magic", [](SlotHeader& h, Piece&) { ++h.magic; }, "slot 0 in place of 0"},
        Damage{"from_rank", [](SlotHeader& h, Piece&) { ++h.from_rank; }, "of rank 1"},
        Damage{"number", [](SlotHeader& h, Piece&) { ++h.number; }, "slot 1 in place of 0"},
        Damage{"no_piece", [](SlotHeader& h, Piece&) { h.num_pieces = 0; }, "0 pieces"},
        Damage{"one_piece_more", [](SlotHeader& h, Piece&) { ++h.num_pieces; }, "shorter than its 3 pieces"},
        Damage{"many_pieces", [](SlotHeader& h, Piece&) { h.num_pieces = 0xffffffff; }, "shorter than its"},
        Damage{"slot_too_long", [](SlotHeader& h, Piece&) { h.bytes = 2000; }, "2000 bytes"},
        Damage{"slot_too_short", [](SlotHeader& h, Piece&) { h.bytes = 31; }, "shorter than its"},
        Damage{"piece_beyond_slot", [](SlotHeader&, Piece& p) { p.bytes += 64; }, "shorter than its"},
        Damage{"piece_huge", [](SlotHeader&, Piece& p) { p.bytes = ~uint64_t{0}; }, "shorter than its"},
        Damage{"to_window", [](SlotHeader&, Piece& p) { p.to_window = 2; }, "leaves its window"},
        Damage{"to_offset", [](SlotHeader&, Piece& p) { p.to_offset = 4096 - 99; }, "leaves its window"},
        Damage{"to_offset_huge", [](SlotHeader&, Piece& p) { p.to_offset = ~uint64_t{0}; }, "leaves its window"},
        Damage{"signal_window", [](SlotHeader&, Piece& p) { p.signal_window = 2; }, "leaves its window"},
        Damage{"signal_index", [](SlotHeader&, Piece& p) { p.signal_index = 512; }, "leaves its window"}),
    [](const auto& info) { return std::string(info.param.name); });

// Two pieces in one slot; the second is damaged, and the first does not land either.
TEST_P(DamagedSlot, IsRefusedNamingItsSenderAndNothingOfItIsWritten) {
  SlotWorld* here = nullptr;
  TamperedFabric::Hooks hooks;
  hooks.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    if (!is_credit(command)) {
      std::byte* const slot = here->slots(0) + command.from_offset;
      std::byte* const second = slot + sizeof(SlotHeader) + piece_room(100);
      auto header = read_record<SlotHeader>(slot);
      auto piece = read_record<Piece>(second);
      EXPECT_EQ(header.num_pieces, 2u);
      GetParam().to(header, piece);
      write_record(slot, header);
      write_record(second, piece);
    }
    return inner.put(command, ticket);
  };
  SlotWorld world({.wrap = tampered(0, hooks)});
  here = &world;
  fill(world.data(0), 4096, 1);
  for (const uint64_t i : {0, 1}) {
    ASSERT_EQ(world.fabric(0).put(world.command(1, 0, i * 1000, 100), i), PutResult::kSent);
  }
  EXPECT_TRUE(fails_saying(world, 1, "rank 0 sent rank 1"));
  EXPECT_TRUE(fails_saying(world, 1, GetParam().said));
  EXPECT_TRUE(std::all_of(world.data(1), world.data(1) + 4096, [](std::byte b) { return b == std::byte{}; }));
  for (uint32_t i = 0; i < SlotWorld::kSignals; ++i) EXPECT_EQ(world.seen(1, i), 0u);
}

TEST(StagedFabric, ASlotThatComesTwiceIsFound) {
  TamperedFabric::Hooks hooks;
  hooks.put = [](Fabric& inner, const Command& command, uint64_t ticket) {
    if (!is_credit(command)) inner.put(command, ticket);
    return inner.put(command, ticket);
  };
  SlotWorld world({.wrap = tampered(0, hooks)});
  world.fabric(0).put(world.command(1, 0, 0, 100), 0);
  EXPECT_TRUE(fails_saying(world, 1, "rank 0 sent rank 1 slot 0 before it was free"));
}

// The same once more after it was emptied, in place of what should come.
TEST(StagedFabric, AnOldSlotThatComesAgainIsFound) {
  SlotWorld* here = nullptr;
  std::vector<std::byte> old;
  TamperedFabric::Hooks hooks;
  hooks.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    std::byte* const slot = here->slots(0) + command.from_offset;
    if (!is_credit(command) && old.empty()) old.assign(slot, slot + command.bytes);
    if (!is_credit(command)) std::copy(old.begin(), old.end(), slot);
    return inner.put(command, ticket);
  };
  SlotWorld world({.staged{.slots = 1, .slot_bytes = 1000, .queue_puts = 8}, .wrap = tampered(0, hooks)});
  here = &world;
  for (const uint64_t i : {0, 1}) world.fabric(0).put(world.command(1, 0, 0, 1000), i);
  EXPECT_TRUE(fails_saying(world, 1, "rank 0 sent rank 1 slot 0 in place of 1"));
  EXPECT_EQ(world.seen(1, 0), 1u);
}

TEST(StagedFabric, CreditForMoreThanWasSentIsFound) {
  TamperedFabric::Hooks hooks;
  hooks.put = [](Fabric& inner, const Command& command, uint64_t ticket) {
    Command more = command;
    if (is_credit(command)) ++more.amount;
    return inner.put(more, ticket);
  };
  SlotWorld world({.wrap = tampered(1, hooks)});
  world.fabric(0).put(world.command(1, 0, 0, 100), 0);
  EXPECT_TRUE(fails_saying(world, 0, "rank 1 says that it has emptied 2 slots of rank 0, which sent 1"));
}

TEST(StagedFabric, APeerThatPaysNoCreditIsNamedAtTheDeadline) {
  TamperedFabric::Hooks hooks;
  hooks.put = [](Fabric& inner, const Command& command, uint64_t ticket) {
    return is_credit(command) ? PutResult::kSent : inner.put(command, ticket);
  };
  SlotWorld world({.deadline = milliseconds{1000}, .wrap = tampered(1, hooks)});
  for (const uint64_t i : {0, 1, 2, 3}) world.fabric(0).put(world.command(1, 0, 0, 1000), i);
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 0) == 3; }));
  EXPECT_TRUE(fails_saying(world, 0, "rank 1 took nothing from rank 0 for 1000 ms"));
  EXPECT_EQ(world.seen(1, 0), 3u) << "there are three slots";
}

TEST(StagedFabric, APeerThatDoesNotPollHoldsUpWhatItsSlotsDoNotHold) {
  SlotWorld world({});
  uint64_t num_sent = 0;
  for (int i = 0; i < 1000; ++i) {
    if (world.fabric(0).put(world.command(1, 0, 0, 1000), num_sent) == PutResult::kSent) ++num_sent;
    ASSERT_EQ(world.poll(0), PutResult::kSent);
  }
  EXPECT_EQ(num_sent, 3u + 8u) << "three slots, and eight puts in the queue";
  EXPECT_EQ(world.completed(0).size(), 3u) << "what is in a slot of the peer is complete";
  EXPECT_TRUE(world.run_until([&] { return world.seen(1, 0) == num_sent && world.completed(0).size() == num_sent; }));
}

TEST(StagedFabric, WhatIsCompleteLandsWithoutItsSender) {
  SlotWorld world({});
  fill(world.data(0), 2500, 1);
  const std::vector<std::byte> expected(world.data(0), world.data(0) + 2500);
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 2500), 0), PutResult::kSent);
  ASSERT_TRUE(busily([&] { return world.poll(0) != PutResult::kSent || world.completed(0).size() == 1; }));
  world.destroy_fabric(0);
  std::memset(world.data(0), 0, 2500);
  ASSERT_TRUE(busily([&] { return world.poll(1) != PutResult::kSent || world.seen(1, 0) == 1; }));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), world.data(1)));
}

// The peer has emptied it, but a NIC may have to send it once more.
TEST(StagedFabric, ASlotIsNotUsedAgainBeforeTheInnerFabricIsThroughWithIt) {
  bool holds_back = true;
  std::vector<uint64_t> held;
  TamperedFabric::Hooks hooks;
  hooks.poll = [&](Fabric& inner, std::vector<uint64_t>& completed) {
    const PutResult result = inner.poll(held);
    if (!holds_back) completed.insert(completed.end(), held.begin(), held.end());
    if (!holds_back) held.clear();
    return result;
  };
  SlotWorld world({.wrap = tampered(0, hooks)});
  for (const uint64_t i : {0, 1, 2, 3}) world.fabric(0).put(world.command(1, 0, 0, 1000), i);
  for (int i = 0; i < 1000; ++i) {
    for (const int rank : {0, 1}) ASSERT_EQ(world.poll(rank), PutResult::kSent);
  }
  EXPECT_EQ(world.seen(1, 0), 3u) << "there are three slots";
  EXPECT_TRUE(world.completed(0).empty());
  holds_back = false;
  EXPECT_TRUE(world.run_until([&] { return world.seen(1, 0) == 4 && world.completed(0).size() == 4; }));
}

TEST(StagedFabric, AnInnerFabricThatFailsIsTheReason) {
  TamperedFabric::Hooks hooks;
  hooks.reason = "the cable is out";
  hooks.put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFailed; };
  SlotWorld world({.wrap = tampered(0, hooks)});
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 8), 0), PutResult::kSent);
  EXPECT_TRUE(fails_saying(world, 0, "the cable is out"));
  EXPECT_EQ(world.fabric(0).put(world.command(1, 0, 0, 8), 1), PutResult::kFailed);
}

TEST(StagedFabric, AMoverThatFailsIsTheReason) {
  for (const int num_polls : {0, 1, 5}) {
    SlotWorld world({});
    world.mover(0).fail_after(num_polls, "the GPU is lost");
    for (const uint64_t i : {0, 1, 2, 3}) world.fabric(0).put(world.command(1, 0, 0, 1000), i);
    EXPECT_TRUE(fails_saying(world, 0, "the GPU is lost"));
    EXPECT_EQ(world.fabric(0).put(world.command(1, 0, 0, 8), 9), PutResult::kFailed);
  }
}

// unpin expects it, too.
TEST(StagedFabric, NoCopyIsUnderWayWhenAFabricIsGone) {
  SlotWorld world({});
  world.fabric(0).put(world.command(1, 0, 0, 1000), 0);
  world.poll(0);
  ASSERT_TRUE(world.mover(0).is_busy());
  world.destroy_fabric(0);
  EXPECT_FALSE(world.mover(0).is_busy());
}

TEST(StagedFabric, SmallPutsThatWaitTogetherLeaveTogether) {
  uint64_t num_slots_sent = 0;
  TamperedFabric::Hooks hooks;
  hooks.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    num_slots_sent += is_credit(command) ? 0 : 1;
    return inner.put(command, ticket);
  };
  SlotWorld world({.staged{.slots = 3, .slot_bytes = 1000, .queue_puts = 64}, .wrap = tampered(0, hooks)});
  fill(world.data(0), 4096, 1);
  for (uint32_t i = 0; i < 16; ++i) {
    ASSERT_EQ(world.fabric(0).put(world.command(1, 96 * i, 96 * i, i % 2 == 0 ? 96 : 0, i), i), PutResult::kSent);
  }
  ASSERT_TRUE(world.run_until([&] { return world.completed(0).size() == 16; }));
  ASSERT_TRUE(world.run_until([&] { return world.seen(1, 15) == 1; }));
  EXPECT_EQ(num_slots_sent, 2u) << "a pair takes up 224 bytes, a slot has room for 1088";
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(world.seen(1, i), 1u) << i;
    EXPECT_EQ(std::memcmp(world.data(1) + 96 * i, world.data(0) + 96 * i, i % 2 == 0 ? 96 : 0), 0) << i;
  }
}

// The fabric below reorders, stalls, is full and completes late; so does the Mover.  Puts of all sizes, none at all and
// many slots, and at each poll every put whose signal has come is whole.  Sources are spoilt when their puts complete.
TEST(StagedFabric, EverySignalComesWithItsBytesWhateverTheFabricBelowDoes) {
  constexpr uint32_t kPuts = 120;
  constexpr uint64_t kMost = 5000;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SlotWorld world({.window_bytes = kPuts * kMost,
                     .staged{.slots = 1 + static_cast<int>(seed % 4), .slot_bytes = 700, .queue_puts = 5},
                     .seed = seed,
                     .wrap = [&](int rank, std::unique_ptr<Fabric> inner) -> std::unique_ptr<Fabric> {
                       return std::make_unique<ChaosFabric>(std::move(inner), seed * 2 + rank);
                     }});
    fill(world.data(0), kPuts * kMost, seed);
    const std::vector<std::byte> expected(world.data(0), world.data(0) + kPuts * kMost);
    std::mt19937_64 random(seed);
    std::vector<uint64_t> bytes(kPuts);
    for (uint64_t& one : bytes) one = random() % 4 == 0 ? 0 : random() % (random() % 4 == 0 ? kMost : 200);
    std::set<uint32_t> missing;
    for (uint32_t i = 0; i < kPuts; ++i) missing.insert(i);
    uint32_t num_sent = 0;
    size_t num_spoilt = 0;
    ASSERT_TRUE(world.run_until([&] {
      const uint64_t at = num_sent * kMost;
      if (num_sent < kPuts &&
          world.fabric(0).put(world.command(1, at, at, bytes[num_sent], num_sent), num_sent) == PutResult::kSent) {
        ++num_sent;
      }
      std::erase_if(missing, [&](uint32_t i) {
        if (world.seen(1, i) == 0) return false;
        EXPECT_EQ(std::memcmp(world.data(1) + i * kMost, expected.data() + i * kMost, bytes[i]), 0)
            << "seed " << seed << ", put " << i;
        return true;
      });
      for (; num_spoilt < world.completed(0).size(); ++num_spoilt) {
        std::memset(world.data(0) + world.completed(0)[num_spoilt] * kMost, 0xee, kMost);
      }
      return missing.empty() && world.completed(0).size() == kPuts;
    })) << "seed "
        << seed << ": " << world.fabric(0).failure() << world.fabric(1).failure();
    for (uint32_t i = 0; i < kPuts; ++i) EXPECT_EQ(world.seen(1, i), 1u);
    std::ranges::sort(world.completed(0));
    EXPECT_TRUE(std::ranges::adjacent_find(world.completed(0)) == world.completed(0).end());
  }
}

TEST(StagedFabric, ManyPeersPutToEachOtherAtOnce) {
  constexpr int kNodes = 9;
  constexpr uint64_t kBytes = 1500;  // two slots
  SlotWorld world({.nodes = kNodes,
                   .window_bytes = 2 * kNodes * kBytes,
                   .wrap = [](int rank, std::unique_ptr<Fabric> inner) -> std::unique_ptr<Fabric> {
                     return std::make_unique<ChaosFabric>(std::move(inner), 77 + rank);
                   }});
  const auto each = [&](auto&& visit) {
    for (int from = 0; from < kNodes; ++from) {
      for (int to = 0; to < kNodes; ++to) {
        if (from != to) visit(from, to);
      }
    }
  };
  for (int rank = 0; rank < kNodes; ++rank) fill(world.data(rank), kNodes * kBytes, rank);
  each([&](int from, int to) {
    const Command command =
        world.command(to, to * kBytes, (kNodes + from) * kBytes, kBytes, static_cast<uint32_t>(from));
    ASSERT_EQ(world.fabric(from).put(command, to), PutResult::kSent);
  });
  ASSERT_TRUE(world.run_until([&] {
    bool all = true;
    each([&](int from, int to) { all &= world.seen(to, static_cast<uint32_t>(from)) == 1; });
    return all;
  }));
  each([&](int from, int to) {
    EXPECT_EQ(std::memcmp(world.data(to) + (kNodes + from) * kBytes, world.data(from) + to * kBytes, kBytes), 0)
        << from << " to " << to;
  });
}

class NapCounter : public Fabric {
 public:
  NapCounter(std::unique_ptr<Fabric> inner, int& naps) : inner_(std::move(inner)), naps_(naps) {}
  PutResult put(const Command& command, uint64_t ticket) override { return inner_->put(command, ticket); }
  PutResult poll(std::vector<uint64_t>& completed) override { return inner_->poll(completed); }
  std::string failure() const override { return inner_->failure(); }
  void nap(std::chrono::microseconds) override { ++naps_; }

 private:
  std::unique_ptr<Fabric> inner_;
  int& naps_;
};

TEST(StagedFabric, NapsWhereTheInnerFabricDoesUnlessCopiesAreUnderWay) {
  int naps = 0;
  SlotWorld world({.wrap = [&](int, std::unique_ptr<Fabric> inner) -> std::unique_ptr<Fabric> {
    return std::make_unique<NapCounter>(std::move(inner), naps);
  }});
  world.fabric(0).nap(std::chrono::microseconds{1});
  EXPECT_EQ(naps, 1);
  world.fabric(0).put(world.command(1, 0, 0, 1000), 0);
  world.poll(0);
  ASSERT_TRUE(world.mover(0).is_busy());
  world.fabric(0).nap(std::chrono::microseconds{1});
  EXPECT_EQ(naps, 1);
}

}  // namespace
}  // namespace mk::test
