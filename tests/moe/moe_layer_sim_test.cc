// SPDX-License-Identifier: MIT
// tests/moe/moe_layer_sim_test.cc — both passes of a layer of experts under virtual time: seeds are
// clean, and bugs are found.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ops/fuzz_case.h"
#include "ops/moe/moe_backward_host_body.h"
#include "ops/moe/moe_backward_targets.h"
#include "ops/moe/moe_layer_host_body.h"
#include "target/sim/sim_machine.h"
#include "tests/support/claiming_sim.h"
#include "tests/support/moe_backward_data.h"

namespace mk::test {
namespace {

constexpr float kPoison = -12345;

struct Resolve {
  sim::SimWorld* world;
  uint64_t epoch;
  std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
};

// What the two passes differ in.
struct Forward {
  using Layout = moe::LayerLayout;
  using Body = moe::LayerHostBody<float, Resolve>;
  using Result = std::vector<float>;

  static Layout make_layout(const moe::LayerProblem& problem, const moe::LayerCut& cut, const Roster& roles) {
    return moe::make_layer_layout(problem, cut, roles);
  }
  static const void* input(const MoeBackwardData& data, int rank, int input) {
    const MoeRank& own = data.layer().routing().rank(rank);
    const void* const inputs[] = {own.x.data(), own.ids.data(), own.weights.data()};
    return inputs[input];
  }
  static Result poisoned(const MoeBackwardData& data, int rank) {
    return Result(data.layer().routing().rank(rank).tokens * data.layer().problem().shape.hidden, kPoison);
  }
  static bool is_untouched(const Result& seen) { return std::ranges::count(seen, kPoison) == std::ssize(seen); }
  static testing::AssertionResult is_right(const MoeBackwardData& data, int rank, const Result& seen) {
    return data.layer().is_right(rank, seen);
  }
  static moe::LayerOperands operands(const MoeBackwardData& data, int rank, Result& seen) {
    const MoeLayerData& layer = data.layer();
    moe::LayerOperands operands{
        .routing = {}, .w13 = layer.w13(rank).data(), .w2 = layer.w2(rank).data(), .out = seen.data()};
    operands.routing.tokens = layer.routing().rank(rank).tokens;
    operands.routing.has_weights = true;
    return operands;
  }
};

struct Backward {
  using Layout = moe::BackwardLayout;
  using Body = moe::BackwardHostBody<float, Resolve>;
  using Result = MoeGradients;

  static Layout make_layout(const moe::LayerProblem& problem, const moe::LayerCut& cut, const Roster& roles) {
    return moe::make_backward_layout(problem, cut, roles);
  }
  static const void* input(const MoeBackwardData& data, int rank, int input) {
    if (input == moe::kTokensInput) return data.dout(rank).data();
    return Forward::input(data, rank, input == moe::kMoreInput ? 0 : input);
  }
  static Result poisoned(const MoeBackwardData& data, int rank) {
    return MoeGradients::filled(data.layer(), rank, kPoison);
  }
  static bool is_untouched(const Result& seen) { return seen.is_all(kPoison); }
  static testing::AssertionResult is_right(const MoeBackwardData& data, int rank, const Result& seen) {
    return data.is_right(rank, seen);
  }
  static moe::BackwardOperands operands(const MoeBackwardData& data, int rank, Result& seen) {
    return {.layer = Forward::operands(data, rank, seen.dx),
            .gates = data.kept(rank).data(),
            .scores = seen.scores.data(),
            .dw13 = seen.dw13.data(),
            .dw2 = seen.dw2.data()};
  }
};

// A seed's world, layout, launches and what they bring.
template <class Pass>
class MoeLayerSim {
 public:
  explicit MoeLayerSim(uint64_t seed) : random_(seed) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(random_.below(most)); };
    const WorldShape world{draw(3), draw(3)};
    const int local_experts = draw(3);
    const int topk = draw(std::min(4, local_experts * world.size()));
    const int max_tokens = draw(9);
    problem_ = with_shared(layer_problem(world, local_experts, topk, max_tokens, 0, draw(5), draw(4)), draw(3) - 1);
    if (draw(3) == 1) problem_.shape.max_rows = draw(max_tokens * topk);  // some launches are refused then, or …
    const bool shared_fit = problem_.shape.max_rows >= problem_.shape.shared * max_tokens;
    if (shared_fit && draw(2) == 1) problem_.shape.overflow = MoeOverflow::kDrop;
    const moe::Cut cut{.tile_m = 4,
                       .tile_n = draw(4),
                       .phase_tokens = draw(9),
                       .slice_tokens = draw(4),
                       .early_eighths = 4 * draw(2),
                       .chunk_rows = draw(4),
                       .bundle_rows = 2};
    const Roster roles{{draw(4)}, {world.nodes > 1 ? draw(2) : 0}, {draw(3)}};
    layout_ = Pass::make_layout(problem_, {cut, draw(3), draw(6)}, roles);
    const int launches = 2 + draw(3);
    for (int i = 0; i < launches; ++i) {
      launches_.emplace_back(problem_, kRoutings[random_.below(std::size(kRoutings))], random_.next());
      launches_.back().layer().routing().set_phases(layout_.phase_tokens);
    }
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
      return static_cast<const std::byte*>(Pass::input(launches_[epoch - 1], rank, input));
    };
    disturb(spec, random_, random_.next());
    sim::SimWorld world(spec);
    world.run(static_cast<int>(launches_.size()), [&](sim::Worker& worker) {
      M machine(world, worker);
      Body<M> body(*this, machine, world, worker);
      moe::work(machine, layout_, worker.post, body);
    });
    for (size_t epoch = 1; epoch <= launches_.size() && !world.core().stopped(); ++epoch) check(world, epoch);
    return world.core().complaints();
  }

 private:
  typename Pass::Result& seen(int rank, uint64_t epoch) {
    const auto at = seen_.find({rank, epoch});
    if (at != seen_.end()) return at->second;
    return seen_.emplace(std::pair{rank, epoch}, Pass::poisoned(launches_[epoch - 1], rank)).first->second;
  }
  auto operands(int rank, uint64_t epoch) { return Pass::operands(launches_[epoch - 1], rank, seen(rank, epoch)); }

  // A tile takes its time.  Where a mutant reads what is not there, places lie anywhere: nothing is written then.
  template <class M>
  struct Body : Pass::Body {
    using Base = typename Pass::Body;
    Body(MoeLayerSim& sim, M& machine, sim::SimWorld& world, const sim::Worker& worker)
        : Base(sim.layout_, worker.rank, sim.operands(worker.rank, worker.epoch), {&world, worker.epoch}),
          m(machine),
          layout(sim.layout_) {}
    bool goes_on() const { return !m.sim().core().stopped(); }
    void list(M& machine, int slice) {
      machine.load(layout.histogram().totals_at(machine.rank()), layout.histogram().bytes());
      machine.load(layout.histogram().slice_at(machine.rank(), slice), layout.histogram().bytes());
      if (goes_on()) Base::list(machine, slice);
    }
    void activate(const moe::LayerTile& tile) {
      m.compute({1e6}, tile.number);
      if (goes_on()) Base::activate(tile);
    }
    template <class Tile>
    void multiply(const Tile& tile) {
      m.compute({1e6}, tile.number);
      if (goes_on()) Base::multiply(tile);
    }
    template <class ToAt>
    void keep_places(int64_t row, int rows, const ToAt& to_at) {
      if (goes_on()) Base::keep_places(row, rows, to_at);
    }
    void add(const Place& from) {
      if (goes_on()) Base::add(from);
    }
    void store_sum(const Place& to) {
      if (goes_on()) Base::store_sum(to);
    }
    M& m;
    const typename Pass::Layout& layout;
  };

  void check(sim::SimWorld& world, uint64_t epoch) {
    const MoeBackwardData& data = launches_[epoch - 1];
    bool fits = true;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      fits = fits && data.layer().routing().rows_on(rank) <= layout_.max_rows;
    }
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      if (!fits) {
        if (!Pass::is_untouched(seen(rank, epoch))) world.core().complain("result", "was refused");
      } else if (const auto right = Pass::is_right(data, rank, seen(rank, epoch)); !right) {
        world.core().complain("result", right.message());
      }
    }
  }

  sim::Random random_;
  moe::LayerProblem problem_;
  typename Pass::Layout layout_;
  std::vector<MoeBackwardData> launches_;
  std::map<std::pair<int, uint64_t>, typename Pass::Result> seen_;
};

template <class Pass, class M = sim::SimMachine>
void seeds_are_clean(uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ClaimingSim::claims().clear();
    const auto complaints = MoeLayerSim<Pass>(seed).template run<M>();
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}

TEST(MoeLayerSimSeeds, ForwardIsClean) { seeds_are_clean<Forward>(1000); }
TEST(MoeLayerSimSeeds, BackwardIsClean) { seeds_are_clean<Backward>(500); }
TEST(MoeLayerSimSeeds, ClaimedTilesAreClean) {
  seeds_are_clean<Forward, ClaimingSim>(300);
  seeds_are_clean<Backward, ClaimingSim>(150);
}

// Of so many seeds at least one finds the bug, and says so.
template <class Pass, class M>
testing::AssertionResult is_found(const std::string& kinds) {
  std::string said;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto complaints = MoeLayerSim<Pass>(seed).template run<M>();
    if (complaints.empty()) continue;
    if (kinds.find(complaints[0].kind) != std::string::npos) return testing::AssertionSuccess();
    said = complaints[0].kind + ": " + complaints[0].text;
  }
  return testing::AssertionFailure() << (said.empty() ? "nobody complains" : said);
}

// A signal whose name begins so is not waited for.
template <const char* kName>
struct DoesNotWaitFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool is_it(uint32_t signal) { return sim().core().spec.names.signal(signal).starts_with(kName); }
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return is_it(signal) || SimMachine::wait(signal, wanted, subject);
  }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    return is_it(signal) || SimMachine::wait_stamp(signal, stamp, subject);
  }
};
constexpr char kActivated[] = "activated";
constexpr char kReturned[] = "returned";
constexpr char kRecordsLanded[] = "records_landed";
constexpr char kSumsLanded[] = "sums_landed";

struct DoesNotSettle : sim::SimMachine {
  using SimMachine::SimMachine;
  bool settle() { return true; }
};
template <uint32_t kWindow>
struct DoesNotStoreIn : sim::SimMachine {
  using SimMachine::SimMachine;
  void store(const Place& to, uint64_t bytes) {
    if (to.window != kWindow) SimMachine::store(to, bytes);
  }
};

template <class Pass>
class MoeLayerSimMutant : public testing::Test {};
using Passes = testing::Types<Forward, Backward>;
TYPED_TEST_SUITE(MoeLayerSimMutant, Passes);

TYPED_TEST(MoeLayerSimMutant, IsFound) {
  EXPECT_TRUE((is_found<TypeParam, DoesNotWaitFor<kActivated>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotWaitFor<kReturned>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotWaitFor<kRecordsLanded>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotWaitFor<kSumsLanded>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotStoreIn<moe::kResultsWindow>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotStoreIn<moe::kPlacesWindow>>("visibility")));
  EXPECT_TRUE((is_found<TypeParam, DoesNotSettle>("visibility")));
}

// Mutants of what only the backward pass has.
struct DoesNotWaitForLaterBlocks : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_block = sim().core().spec.names.signal(signal).starts_with(kActivated);
    if (is_block && signal == last_ + 1) return true;
    if (is_block) last_ = signal;
    return SimMachine::wait(signal, wanted, subject);
  }
  uint32_t last_ = 0;
};
struct SendsTheSecondRowOfATokenTwice : sim::SimMachine {
  using SimMachine::SimMachine;
  void copy(const Place& to, Place from, uint64_t bytes) {
    if (from.window == moe::kTokensInput) from.window = moe::kMoreInput;
    SimMachine::copy(to, from, bytes);
  }
};

TEST(MoeBackwardSimMutant, IsFound) {
  EXPECT_TRUE((is_found<Backward, DoesNotWaitForLaterBlocks>("visibility")));
  EXPECT_TRUE((is_found<Backward, DoesNotStoreIn<moe::kScaledWindow>>("visibility")));
  EXPECT_TRUE((is_found<Backward, DoesNotStoreIn<moe::kPartsWindow>>("visibility")));
  EXPECT_TRUE((is_found<Backward, DoesNotStoreIn<moe::kScoresWindow>>("visibility")));
  EXPECT_TRUE((is_found<Backward, SendsTheSecondRowOfATokenTwice>("result")));
}

}  // namespace
}  // namespace mk::test
