// SPDX-License-Identifier: MIT
// tests/moe/moe_sim_test.cc — dispatch of tokens under virtual time: seeds are clean, and bugs are found.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "ops/fuzz_case.h"
#include "ops/moe/moe_host_body.h"
#include "target/sim/sim_machine.h"
#include "tests/support/claiming_sim.h"
#include "tests/support/moe_data.h"

namespace mk::test {
namespace {

constexpr float kPoison = -12345;

struct Resolve {
  sim::SimWorld* world;
  uint64_t epoch;
  std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
};

// A seed's world, layout, launches and what they bring.
class MoeSim {
 public:
  explicit MoeSim(uint64_t seed) : random_(seed) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(random_.below(most)); };
    const WorldShape world{draw(3), draw(3)};
    const int local_experts = draw(3);
    const int topk = draw(std::min(4, local_experts * world.size()));
    const int max_tokens = draw(9);
    problem_ = moe_problem(world, local_experts, topk, max_tokens, 0, draw(3), draw(6));
    if (draw(3) == 1) problem_.shape.max_rows = draw(max_tokens * topk);  // some launches are refused then, or …
    if (draw(2) == 1) problem_.shape.overflow = MoeOverflow::kDrop;
    const moe::Cut cut{.tile_m = 4,
                       .tile_n = 4,
                       .phase_tokens = draw(9),
                       .slice_tokens = draw(4),
                       .early_eighths = 4 * draw(2),
                       .chunk_rows = draw(4),
                       .bundle_rows = 2};
    const Roster roles{{draw(4)}, {world.nodes > 1 ? draw(2) : 0}, {draw(3)}};
    layout_ = moe::make_layout(problem_, cut, roles);
    launches_.emplace(layout_, problem_, 2 + draw(3), random_.next());
  }

  template <class M>
  std::vector<sim::Complaint> run() {
    sim::SimSpec spec;
    spec.world = layout_.world;
    spec.roles = layout_.roles;
    spec.window_bytes = window_bytes(layout_);
    spec.num_signals = layout_.num_signals();
    spec.names = {moe::Layout::kRoles, [layout = layout_](uint32_t signal) { return signal_name(layout, signal); }};
    spec.with_data = true;
    spec.put_lanes = static_cast<int>(std::max<int64_t>(1, layout_.most_puts()));
    spec.input = [&](int rank, uint64_t epoch, int input) {
      const MoeRank& own = (*launches_)[epoch].rank(rank);
      const void* const inputs[] = {own.x.data(), own.ids.data(), own.weights.data()};
      return static_cast<const std::byte*>(inputs[input]);
    };
    disturb(spec, random_, random_.next());
    sim::SimWorld world(spec);
    world.run(launches_->count(), [&](sim::Worker& worker) {
      M machine(world, worker);
      Body<M> body(*this, machine, world, worker);
      moe::work(machine, layout_, worker.post, body);
    });
    for (int epoch = 1; epoch <= launches_->count() && !world.core().stopped(); ++epoch) check(world, epoch);
    return world.core().complaints();
  }

 private:
  struct Output {
    std::vector<float> y;
    std::vector<int32_t> origins, expert_rows, expert_ends;
  };

  Output& output(int rank, uint64_t epoch) {
    Output& out = outputs_[{rank, epoch}];
    if (!out.y.empty()) return out;
    out.y.assign(problem_.shape.max_rows * problem_.shape.n, kPoison);
    out.origins.assign(problem_.shape.max_rows * 4, -1);
    out.expert_rows.assign(problem_.local_experts(), -1);
    out.expert_ends.assign(problem_.local_experts(), -1);
    return out;
  }

  moe::Operands operands(int rank, uint64_t epoch) {
    MoeRank& own = (*launches_)[epoch].rank(rank);
    Output& out = output(rank, epoch);
    moe::Operands operands;
    operands.tokens = own.tokens;
    operands.has_weights = true;
    operands.w.data = own.w.data();
    operands.y.data = out.y.data();
    operands.origins = out.origins.data();
    operands.expert_rows = out.expert_rows.data();
    operands.expert_ends = out.expert_ends.data();
    return operands;
  }

  // A tile takes its time.
  template <class M>
  struct Body : moe::HostBody<float, Resolve> {
    Body(MoeSim& sim, M& machine, sim::SimWorld& world, const sim::Worker& worker)
        : moe::HostBody<float, Resolve>(sim.layout_, worker.rank, sim.operands(worker.rank, worker.epoch),
                                        {&world, worker.epoch}),
          m(machine),
          layout(sim.layout_) {}
    // Where a mutant reads sums that are not there, places lie anywhere.
    void list(M& m, int slice) {
      m.load(layout.histogram().totals_at(m.rank()), layout.histogram().bytes());
      m.load(layout.histogram().slice_at(m.rank(), slice), layout.histogram().bytes());
      if (!m.sim().core().stopped()) moe::HostBody<float, Resolve>::list(m, slice);
    }
    void multiply(const moe::ExpertTile& tile) {
      m.compute({1e6}, tile.number);
      if (!m.sim().core().stopped()) moe::HostBody<float, Resolve>::multiply(tile);
    }
    M& m;
    const moe::Layout& layout;
  };

  void check(sim::SimWorld& world, uint64_t epoch) {
    const MoeLaunchData& data = (*launches_)[epoch];
    bool fits = true;
    for (int rank = 0; rank < layout_.world.size(); ++rank) fits = fits && data.rows_on(rank) <= layout_.max_rows;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      const Output& out = output(rank, epoch);
      if (!fits) {
        if (std::ranges::count(out.y, kPoison) != std::ssize(out.y)) world.core().complain("result", "was refused");
        continue;
      }
      const auto right = data.is_right(rank, out.y, out.origins, out.expert_rows, out.expert_ends, kPoison);
      if (!right) world.core().complain("result", right.message());
    }
  }

  sim::Random random_;
  moe::Problem problem_;
  moe::Layout layout_;
  std::optional<MoeLaunches> launches_;
  std::map<std::pair<int, uint64_t>, Output> outputs_;
};

template <class M>
void seeds_are_clean(uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ClaimingSim::claims().clear();
    const auto complaints = MoeSim(seed).run<M>();
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}
TEST(MoeSimSeeds, AreClean) { seeds_are_clean<sim::SimMachine>(1500); }
TEST(MoeSimSeeds, ClaimedTilesAreClean) { seeds_are_clean<ClaimingSim>(500); }

// Of so many seeds at least one finds the bug, and says so.
template <class M>
testing::AssertionResult is_found(const std::string& kinds, uint64_t seeds = 150) {
  std::string said;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto complaints = MoeSim(seed).run<M>();
    if (complaints.empty()) continue;
    if (kinds.find(complaints[0].kind) != std::string::npos) return testing::AssertionSuccess();
    said = complaints[0].kind + ": " + complaints[0].text;
  }
  return testing::AssertionFailure() << (said.empty() ? "nobody complains" : said);
}

struct DeliversBeforeOthersHaveBegun : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    const bool is_counted = signal < static_cast<uint32_t>(2 * world().size());
    return is_counted || SimMachine::wait_stamp(signal, stamp, subject);
  }
};
struct ListsAreNotWaitedFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_listed = signal == static_cast<uint32_t>(2 * world().size()) + 2;
    return is_listed || SimMachine::wait(signal, wanted, subject);
  }
};
struct HistogramsAreNotWaitedFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return signal == static_cast<uint32_t>(2 * world().size()) || SimMachine::wait(signal, wanted, subject);
  }
};
struct SumsAreNotWaitedFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return signal == static_cast<uint32_t>(2 * world().size()) + 1 || SimMachine::wait(signal, wanted, subject);
  }
};
struct ComputesBeforeItsRowsCome : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_arrived = signal > static_cast<uint32_t>(2 * world().size()) + 3;
    return is_arrived || SimMachine::wait(signal, wanted, subject);
  }
};
struct ComputesBeforeItsLastRowComes : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_arrived = signal > static_cast<uint32_t>(2 * world().size()) + 3;
    return SimMachine::wait(signal, is_arrived ? wanted - 1 : wanted, subject);
  }
};
struct DoesNotWaitForWhatCrosses : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    const bool is_counted = signal < static_cast<uint32_t>(2 * world().size());
    return !is_counted || SimMachine::wait_stamp(signal, stamp, subject);
  }
};
// A list is waited for without a row in hand only where the launch is refused.
struct LeavesRefusedLaunchesAtOnce : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    const bool is_list = sim().core().spec.names.signal(signal).starts_with("list_landed");
    return (is_list && subject < 0) || SimMachine::wait_stamp(signal, stamp, subject);
  }
};
struct TellsBeforeItsRows : sim::SimMachine {
  using SimMachine::SimMachine;
  void copy(const Place& to, const Place& from, uint64_t bytes) {
    if (to.window != moe::kOriginsWindow) return SimMachine::copy(to, from, bytes);
    late = {to, from, bytes};
  }
  void add(const Signal& signal, uint64_t amount) {
    SimMachine::add(signal, amount);
    if (const auto kept = std::exchange(late, std::nullopt)) SimMachine::copy(kept->to, kept->from, kept->bytes);
  }
  struct Copy {
    Place to, from;
    uint64_t bytes;
  };
  std::optional<Copy> late;
};
// Of signals that only launches which may drop pairs have.
template <class Name>
struct DoesNotWaitFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool is_it(uint32_t signal) { return sim().core().spec.names.signal(signal).starts_with(Name::kName); }
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return is_it(signal) || SimMachine::wait(signal, wanted, subject);
  }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    return is_it(signal) || SimMachine::wait_stamp(signal, stamp, subject);
  }
};
struct Tallies {
  static constexpr const char* kName = "tallied";
};
struct TallySums {
  static constexpr const char* kName = "tallies_summed";
};
struct Claims {
  static constexpr const char* kName = "claimed";
};
struct Cuts {
  static constexpr const char* kName = "cut";
};
struct DoesNotSettle : sim::SimMachine {
  using SimMachine::SimMachine;
  bool settle() { return true; }
};

TEST(MoeSimMutant, IsFound) {
  EXPECT_TRUE(is_found<DeliversBeforeOthersHaveBegun>("visibility deadlock result"));
  EXPECT_TRUE(is_found<ListsAreNotWaitedFor>("visibility"));
  EXPECT_TRUE(is_found<HistogramsAreNotWaitedFor>("visibility"));
  EXPECT_TRUE(is_found<SumsAreNotWaitedFor>("visibility"));
  EXPECT_TRUE(is_found<ComputesBeforeItsRowsCome>("visibility"));
  EXPECT_TRUE(is_found<ComputesBeforeItsLastRowComes>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitForWhatCrosses>("visibility"));
  EXPECT_TRUE(is_found<LeavesRefusedLaunchesAtOnce>("visibility", 2000));
  EXPECT_TRUE(is_found<TellsBeforeItsRows>("visibility"));
  EXPECT_TRUE(is_found<DoesNotSettle>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Tallies>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<TallySums>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Claims>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Cuts>>("visibility"));
}

}  // namespace
}  // namespace mk::test
