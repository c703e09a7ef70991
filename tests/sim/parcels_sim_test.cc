// SPDX-License-Identifier: MIT
// tests/sim/parcels_sim_test.cc — values, stamps and thresholds under virtual time: seeds are clean, mutants are found.
#include <gtest/gtest.h>

#include <map>

#include "target/sim/random.h"
#include "target/sim/sim_machine.h"
#include "tests/support/parcels_data.h"

namespace mk::test {
namespace {

using parcels::Data;
using parcels::Layout;

// What a seed decides; complaints of its run are the result.
template <class M>
std::vector<sim::Complaint> complaints_of(uint64_t seed) {
  sim::Random random(seed);
  const auto draw = [&](int most) { return 1 + static_cast<int>(random.below(most)); };
  const WorldShape world{draw(3), draw(3)};
  const Layout layout = parcels::layout_of(world, draw(2), draw(3), draw(3));
  const int launches = 2 + draw(3);
  const Data data(world, seed);
  std::map<std::tuple<int, uint64_t, int>, std::vector<std::byte>> inputs;
  sim::SimSpec spec;
  spec.world = world;
  spec.roles = layout.roles;
  spec.window_bytes = window_bytes(layout);
  spec.num_signals = layout.num_signals();
  spec.names = {Layout::kRoles, [layout](uint32_t signal) { return signal_name(layout, signal); }};
  spec.with_data = true;
  spec.put_lanes = std::max(1, layout.most_puts());
  spec.input = [&](int rank, uint64_t epoch, int input) {
    auto& bytes = inputs[{rank, epoch, input}];
    if (bytes.empty()) bytes = input == 0 ? data.rows(rank, epoch) : data.counts(rank, epoch);
    return bytes.data();
  };
  spec.seed = random.next();
  spec.disturbance = sim::Disturbance::Kind::kFuzz;
  spec.ring_capacity = 1u << random.below(4);
  sim::SimWorld sim(spec);
  sim.run(launches, [&](sim::Worker& worker) {
    M machine(sim, worker);
    parcels::work(machine, layout, worker.post);
  });
  for (int rank = 0; rank < world.size() && !sim.core().stopped(); ++rank) {
    const std::byte* const received = sim.memory().at({parcels::kReceivedWindow, rank, 0}, launches);
    for (int launch = 1; launch <= launches; ++launch) {
      const auto right = data.has_arrived(layout, rank, launch, received, sim::SimMemory::kPoison);
      if (!right) sim.core().complain("result", right.message());
    }
  }
  return sim.core().complaints();
}

TEST(ParcelsSim, EverySeedIsClean) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto complaints = complaints_of<sim::SimMachine>(seed);
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}

// Of so many seeds at least one finds the mutant, and says it in these words.
template <class M>
testing::AssertionResult is_found(const std::string& kind) {
  std::string said;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const auto complaints = complaints_of<M>(seed);
    if (complaints.empty()) continue;
    if (complaints[0].kind == kind) return testing::AssertionSuccess();
    said = complaints[0].kind + ": " + complaints[0].text;
  }
  return testing::AssertionFailure() << (said.empty() ? "nobody complains" : said);
}

struct StampsTheWrongEpoch : sim::SimMachine {
  using SimMachine::SimMachine;
  void stamp(const Signal& signal, uint64_t stamp) { SimMachine::stamp(signal, stamp + (uint64_t{1} << 32)); }
};
TEST(ParcelsSimMutant, AStampOfTheNextLaunchLetsItsReaderThroughTooEarly) {
  EXPECT_TRUE(is_found<StampsTheWrongEpoch>("visibility"));
}

struct StampsAnOldEpoch : sim::SimMachine {
  using SimMachine::SimMachine;
  bool put(Put put, int64_t subject) {
    if (put.stamp != 0) put.stamp -= uint64_t{1} << 32;
    return SimMachine::put(put, subject);
  }
};
TEST(ParcelsSimMutant, AStampOfTheLaunchBeforeIsWaitedForInVain) {
  EXPECT_TRUE(is_found<StampsAnOldEpoch>("deadlock"));
}

struct ReadsAValueBeforeItsWait : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_counted = signal / world().size() == 1;
    return is_counted || SimMachine::wait(signal, wanted, subject);
  }
};
TEST(ParcelsSimMutant, AValueReadBeforeItsWaitIsSeen) { EXPECT_TRUE(is_found<ReadsAValueBeforeItsWait>("visibility")); }

struct StampsBeforeItsCopy : sim::SimMachine {
  using SimMachine::SimMachine;
  void copy(const Place& to, const Place& from, uint64_t bytes) {
    if (to.window != parcels::kSlotsWindow) return SimMachine::copy(to, from, bytes);
    late_to = to;
    late_from = from;
  }
  void stamp(const Signal& signal, uint64_t stamp) {
    SimMachine::stamp(signal, stamp);
    SimMachine::copy(late_to, late_from, parcels::kBytes);
  }
  Place late_to;
  Place late_from;
};
TEST(ParcelsSimMutant, AStampBeforeItsBytesIsSeen) { EXPECT_TRUE(is_found<StampsBeforeItsCopy>("visibility")); }

// The credit of a parcel goes out before the parcel is taken.
struct GivesCreditTooEarly : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    const int from = static_cast<int>(signal - 3 * world().size()) / parcels::kSlots;
    if (world().same_node(rank(), from)) {
      SimMachine::add({from, static_cast<uint32_t>(2 * world().size() + rank())}, 1);
      ++owed;
    }
    return SimMachine::wait_stamp(signal, stamp, subject);
  }
  void add(const Signal& signal, uint64_t amount) {
    const bool is_credit = signal.index / world().size() == 2;
    if (is_credit && owed > 0 && amount == 1) {
      --owed;
      return;
    }
    SimMachine::add(signal, amount);
  }
  int owed = 0;
};
TEST(ParcelsSimMutant, ACreditGivenTooEarlyIsSeen) { EXPECT_TRUE(is_found<GivesCreditTooEarly>("visibility")); }

// The credits of a launch go out in another order: at once, what is given for parcels that do not exist first.
struct PaysOutOfOrder : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    const int from = static_cast<int>(signal - 3 * world().size()) / parcels::kSlots;
    if (subject == 0 && world().same_node(rank(), from)) {
      SimMachine::add({from, static_cast<uint32_t>(2 * world().size() + rank())}, parcels::kMost);
    }
    return SimMachine::wait_stamp(signal, stamp, subject);
  }
  void add(const Signal& signal, uint64_t amount) {
    const bool is_credit = signal.index / world().size() == 2;
    if (!is_credit || amount == parcels::kMost) SimMachine::add(signal, amount);
  }
};
TEST(ParcelsSimMutant, AThresholdPaidOutOfOrderIsSeen) { EXPECT_TRUE(is_found<PaysOutOfOrder>("visibility")); }

struct AwaitsTooLittleCredit : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) {
    return SimMachine::wait_some(signal, wanted == 0 ? 0 : wanted - 1, subject);
  }
};
TEST(ParcelsSimMutant, AThresholdThatIsTooLowIsSeen) { EXPECT_TRUE(is_found<AwaitsTooLittleCredit>("visibility")); }

// One role that puts leaves before its puts have completed; the others settle.
template <int kRole>
struct DoesNotSettle : sim::SimMachine {
  using SimMachine::SimMachine;
  bool settle() { return worker().post.role == kRole || SimMachine::settle(); }
};
TEST(ParcelsSimMutant, ARoleThatDoesNotSettleIsSeenThoughOthersDo) {
  EXPECT_TRUE(is_found<DoesNotSettle<Layout::kCount>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotSettle<Layout::kSend>>("visibility"));
}

}  // namespace
}  // namespace mk::test
