// SPDX-License-Identifier: MIT
// tests/moe/moe_layer_sim_test.cc — a layer of experts under virtual time: seeds are clean, and bugs are found.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ops/fuzz_case.h"
#include "ops/moe/moe_layer_host_body.h"
#include "target/sim/sim_machine.h"
#include "tests/support/moe_layer_data.h"

namespace mk::test {
namespace {

constexpr float kPoison = -12345;

struct Resolve {
  sim::SimWorld* world;
  uint64_t epoch;
  std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
};

// A seed's world, layout, launches and what they bring.
class MoeLayerSim {
 public:
  explicit MoeLayerSim(uint64_t seed) : random_(seed) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(random_.below(most)); };
    const WorldShape world{draw(3), draw(3)};
    const int local_experts = draw(3);
    const int topk = draw(std::min(4, local_experts * world.size()));
    const int max_tokens = draw(9);
    problem_ = layer_problem(world, local_experts, topk, max_tokens, 0, draw(5), draw(4));
    if (draw(4) == 1) problem_.shape.max_rows = draw(max_tokens * topk);  // some launches are refused then
    const moe::Cut cut{
        .tile_m = 4, .tile_n = draw(4), .slice_tokens = draw(4), .chunk_rows = draw(4), .bundle_rows = 2};
    const Roster roles{{draw(4)}, {world.nodes > 1 ? draw(2) : 0}, {draw(3)}};
    layout_ = moe::make_layer_layout(problem_, {cut, draw(3), draw(6)}, roles);
    const int launches = 2 + draw(3);
    for (int i = 0; i < launches; ++i) {
      launches_.emplace_back(problem_, kRoutings[random_.below(std::size(kRoutings))], random_.next());
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
      const MoeRank& own = launches_[epoch - 1].routing().rank(rank);
      const void* const inputs[] = {own.x.data(), own.ids.data(), own.weights.data()};
      return static_cast<const std::byte*>(inputs[input]);
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
  std::vector<float>& out(int rank, uint64_t epoch) {
    std::vector<float>& out = out_[{rank, epoch}];
    const size_t size = launches_[epoch - 1].routing().rank(rank).tokens * problem_.shape.hidden;
    if (out.size() != size) out.assign(size, kPoison);
    return out;
  }

  moe::LayerOperands operands(int rank, uint64_t epoch) {
    const MoeLayerData& data = launches_[epoch - 1];
    moe::LayerOperands operands{
        .routing = {}, .w13 = data.w13(rank).data(), .w2 = data.w2(rank).data(), .out = out(rank, epoch).data()};
    operands.routing.tokens = data.routing().rank(rank).tokens;
    operands.routing.has_weights = true;
    return operands;
  }

  // A tile takes its time.  Where a mutant reads what is not there, places lie anywhere: nothing is written then.
  template <class M>
  struct Body : moe::LayerHostBody<float, Resolve> {
    using Base = moe::LayerHostBody<float, Resolve>;
    Body(MoeLayerSim& sim, M& machine, sim::SimWorld& world, const sim::Worker& worker)
        : Base(sim.layout_, worker.rank, sim.operands(worker.rank, worker.epoch), {&world, worker.epoch}),
          m(machine),
          layout(sim.layout_) {}
    bool goes_on() const { return !m.sim().core().stopped(); }
    void list(M& machine, int slice) {
      machine.load(layout.totals_at(machine.rank()), layout.histogram_bytes());
      machine.load(layout.histogram_at(machine.rank(), slice), layout.histogram_bytes());
      if (goes_on()) Base::list(machine, slice);
    }
    void activate(const moe::LayerTile& tile) {
      m.compute({1e6}, tile.number);
      if (goes_on()) Base::activate(tile);
    }
    void multiply(const moe::LayerTile& tile) {
      m.compute({1e6}, tile.number);
      if (goes_on()) Base::multiply(tile);
    }
    template <class ToAt>
    void return_rows(const moe::LayerTile& tile, int first, int some, const ToAt& to_at) {
      if (goes_on()) Base::return_rows(tile, first, some, to_at);
    }
    void add(const Place& from) {
      if (goes_on()) Base::add(from);
    }
    void store_sum(const Place& to) {
      if (goes_on()) Base::store_sum(to);
    }
    M& m;
    const moe::LayerLayout& layout;
  };

  void check(sim::SimWorld& world, uint64_t epoch) {
    const MoeLayerData& data = launches_[epoch - 1];
    bool fits = true;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      fits = fits && data.routing().rows_on(rank) <= layout_.max_rows;
    }
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      const std::vector<float>& seen = out(rank, epoch);
      if (!fits) {
        if (std::ranges::count(seen, kPoison) != std::ssize(seen)) world.core().complain("result", "was refused");
      } else if (const auto right = data.is_right(rank, seen); !right) {
        world.core().complain("result", right.message());
      }
    }
  }

  sim::Random random_;
  moe::LayerProblem problem_;
  moe::LayerLayout layout_;
  std::vector<MoeLayerData> launches_;
  std::map<std::pair<int, uint64_t>, std::vector<float>> out_;
};

TEST(MoeLayerSimSeeds, AreClean) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto complaints = MoeLayerSim(seed).run<sim::SimMachine>();
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}

// Of so many seeds at least one finds the bug, and says so.
template <class M>
testing::AssertionResult is_found(const std::string& kinds) {
  std::string said;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto complaints = MoeLayerSim(seed).run<M>();
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
struct DoesNotReturnItsRows : sim::SimMachine {
  using SimMachine::SimMachine;
  void store(const Place& to, uint64_t bytes) {
    if (to.window != moe::kReturnedWindow) SimMachine::store(to, bytes);
  }
};

TEST(MoeLayerSimMutant, IsFound) {
  EXPECT_TRUE(is_found<DoesNotWaitFor<kActivated>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<kReturned>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<kRecordsLanded>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<kSumsLanded>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotReturnItsRows>("visibility"));
  EXPECT_TRUE(is_found<DoesNotSettle>("visibility"));
}

}  // namespace
}  // namespace mk::test
