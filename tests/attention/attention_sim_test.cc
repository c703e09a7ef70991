// SPDX-License-Identifier: MIT
// tests/attention/attention_sim_test.cc — attention over many ranks under virtual time: seeds are clean, and bugs are
// found.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/attention/ring_attention_host_body.h"
#include "ops/attention/ring_attention_protocol.h"
#include "ops/fuzz_case.h"
#include "target/sim/sim_machine.h"
#include "tests/attention/attention_cases.h"
#include "tests/attention/strided_heads.h"

namespace mk::test {
namespace {

using attention::Half;
using attention::Layout;
using attention::QueryTile;
using attention::Segment;

struct Resolve {
  sim::SimWorld* world;
  uint64_t epoch;
  std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
};

// What a rank brings to a launch, and what it got.
struct RankLaunch {
  std::vector<float> q, k, v, o, lse;
};

// A seed's world, layout and launches.
class AttentionSim {
 public:
  explicit AttentionSim(uint64_t seed) : random_(seed) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(random_.below(most)); };
    const WorldShape world{draw(3), draw(4)};
    AttentionForm form;
    form.order = draw(2) == 1 ? SequenceOrder::kContiguous : SequenceOrder::kZigzag;
    form.mask.kind = draw(3) == 1 ? MaskKind::kFull : MaskKind::kCausal;
    if (form.mask.kind == MaskKind::kCausal && draw(2) == 1) form.mask.window = draw(20);
    if (draw(3) == 1) form.packing = draw(100);
    form_ = form;
    const int kv_heads = draw(2);
    problem_ = attention_problem(world, form, 2 * draw(6), draw(2), kv_heads * draw(2), kv_heads, draw(3));
    const attention::Cut cut{.tile_rows = draw(5),
                             .part_bytes = 24 * draw(8),
                             .chunks_of_piece = draw(3),
                             .heads_together = draw(3),
                             .slots = draw(3)};
    layout_ = attention::make_layout(problem_, cut, attention_roster(world, draw(3), draw(2), draw(2), draw(3)));
    const auto lie = draw(2) == 1 ? HeadsLie::kWithoutGaps : kHeadsLies[draw(std::size(kHeadsLies)) - 1];
    std::tie(keys_, values_) = lay_keys(lie, layout_);
    num_launches_ = 2 + draw(2);
  }

  template <class M>
  std::vector<sim::Complaint> run() {
    sim::SimSpec spec;
    spec.world = layout_.world;
    spec.roles = layout_.roles;
    spec.window_bytes = window_bytes(layout_);
    spec.num_signals = layout_.num_signals();
    spec.names = {Layout::kRoles, [layout = layout_](uint32_t signal) { return signal_name(layout, signal); }};
    spec.with_data = true;
    spec.put_lanes = static_cast<int>(std::max<int64_t>(1, layout_.most_puts()));
    spec.input = [&](int rank, uint64_t epoch, int input) {
      const RankLaunch& own = launch(rank, epoch);
      return reinterpret_cast<const std::byte*>(input == 0   ? own.q.data()
                                                : input == 1 ? own.k.data() + keys_.first
                                                             : own.v.data() + values_.first);
    };
    disturb(spec, random_, random_.next());
    sim::SimWorld world(spec);
    world.run(num_launches_, [&](sim::Worker& worker) {
      M machine(world, worker);
      Body<M> body(*this, machine, world, worker);
      attention::work(machine, layout_, worker.post, body);
    });
    for (int epoch = 1; epoch <= num_launches_ && !world.core().stopped(); ++epoch) check(world, epoch);
    return world.core().complaints();
  }

 private:
  RankLaunch& launch(int rank, uint64_t epoch) {
    RankLaunch& own = launches_[{rank, epoch}];
    if (!own.o.empty()) return own;
    const RingAttentionShape& shape = problem_.shape;
    const auto draw = [&](std::vector<float>& to, int64_t elements) {
      to.resize(elements);
      for (float& value : to) value = static_cast<float>(random_.below(2001)) / 1000 - 1;
    };
    draw(own.q, shape.batch * shape.rows * shape.heads * shape.dim);
    draw(own.k, keys_.count);
    draw(own.v, values_.count);
    own.o.assign(own.q.size(), NAN);
    own.lse.assign(shape.batch * shape.heads * shape.rows, NAN);
    return own;
  }

  // A tile takes its time.
  template <class M>
  struct Body : attention::HostBody<float, Resolve> {
    using Base = attention::HostBody<float, Resolve>;
    Body(AttentionSim& sim, M& machine, sim::SimWorld& world, const sim::Worker& worker)
        : Base(sim.layout_, worker.rank, operands(sim, worker), {&world, worker.epoch}), m(machine) {}
    static attention::Operands operands(AttentionSim& sim, const sim::Worker& worker) {
      RankLaunch& own = sim.launch(worker.rank, worker.epoch);
      const RingAttentionShape& shape = sim.problem_.shape;
      const HeadStrides strides = attention::without_gaps(shape.rows, shape.heads, shape.dim);
      return {.q = {own.q.data(), strides},
              .k = {own.k.data() + sim.keys_.first, sim.keys_.strides},
              .v = {own.v.data() + sim.values_.first, sim.values_.strides},
              .o = {own.o.data(), strides},
              .lse = own.lse.data(),
              .scale = sim.problem_.scale_of_scores()};
    }
    void attend(const QueryTile& tile, int step, const Segment& segment) {
      m.compute({1e6}, tile.number);
      if (!m.sim().core().stopped()) Base::attend(tile, step, segment);
    }
    M& m;
  };

  // One query of one head against all keys of all ranks, position by position.
  std::vector<double> right(int rank, uint64_t epoch, int64_t batch, int64_t row, int64_t head, double& lse) {
    const RingAttentionShape& shape = problem_.shape;
    const RankLaunch& own = launch(rank, epoch);
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const auto position = [&](int of_rank, int64_t of_row) {
      const int piece = static_cast<int>(of_row / layout_.piece_rows());
      return layout_.positions_of(of_rank, piece).first + of_row % layout_.piece_rows();
    };
    std::vector<double> sum(shape.dim, 0);
    double weights = 0;
    for (int source = 0; source < layout_.world.size(); ++source) {
      const RankLaunch& theirs = launch(source, epoch);
      for (int64_t key = 0; key < shape.rows; ++key) {
        if (!sees(form_, problem_.shape.rows * layout_.world.size(), position(rank, row), position(source, key)))
          continue;
        const float* const k = theirs.k.data() + element_of(keys_, batch, key, kv_head);
        const float* const v = theirs.v.data() + element_of(values_, batch, key, kv_head);
        const float* const q = own.q.data() + ((batch * shape.rows + row) * shape.heads + head) * shape.dim;
        double score = 0;
        for (int64_t d = 0; d < shape.dim; ++d) score += double{q[d]} * k[d];
        const double weight = std::exp(score * problem_.scale_of_scores());
        weights += weight;
        for (int64_t d = 0; d < shape.dim; ++d) sum[d] += weight * v[d];
      }
    }
    for (double& value : sum) value /= weights;
    lse = std::log(weights);
    return sum;
  }

  // Values and scores are at most 3: fp32 keeps six digits.
  static constexpr double kBound = 1e-5;

  void check(sim::SimWorld& world, uint64_t epoch) {
    const RingAttentionShape& shape = problem_.shape;
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      const RankLaunch& own = launch(rank, epoch);
      for (int64_t i = 0; i < shape.batch * shape.rows * shape.heads; ++i) {
        const int64_t head = i % shape.heads;
        const int64_t row = i / shape.heads % shape.rows;
        const int64_t batch = i / shape.heads / shape.rows;
        double lse = 0;
        const std::vector<double> expected = right(rank, epoch, batch, row, head, lse);
        for (int64_t d = 0; d < shape.dim; ++d) {
          if (std::abs(own.o[i * shape.dim + d] - expected[d]) <= kBound) continue;
          return world.core().complain("result", "o of rank " + std::to_string(rank) + ", row " + std::to_string(row));
        }
        if (!(std::abs(own.lse[(batch * shape.heads + head) * shape.rows + row] - lse) <= kBound)) {
          return world.core().complain("result", "lse of rank " + std::to_string(rank));
        }
      }
    }
  }

  sim::Random random_;
  AttentionForm form_;
  attention::Problem problem_;
  attention::KeptLayout layout_;
  HeadsMemory keys_, values_;
  int num_launches_ = 0;
  std::map<std::pair<int, uint64_t>, RankLaunch> launches_;
};

TEST(AttentionSimSeeds, AreClean) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const auto complaints = AttentionSim(seed).run<sim::SimMachine>();
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}

// Of so many seeds at least one finds the bug, and says so.
template <class M>
testing::AssertionResult is_found(const std::string& kinds, uint64_t seeds = 150) {
  std::string said;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto complaints = AttentionSim(seed).run<M>();
    if (complaints.empty()) continue;
    if (kinds.find(complaints[0].kind) != std::string::npos) return testing::AssertionSuccess();
    said = complaints[0].kind + ": " + complaints[0].text;
  }
  return testing::AssertionFailure() << (said.empty() ? "nobody complains" : said);
}

// Signals whose name begins so are not waited for.
template <class Name>
struct DoesNotWaitFor : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return sim().core().spec.names.signal(signal).starts_with(Name::kName) || SimMachine::wait(signal, wanted, subject);
  }
};
struct Arrivals {
  static constexpr const char* kName = "arrived";
};
struct Room {
  static constexpr const char* kName = "room";
};
struct RailRoom {
  static constexpr const char* kName = "rail_room";
};
struct Uses {
  static constexpr const char* kName = "used";
};
// Of keys and values, the last to arrive is not waited for.
struct WaitsForKeysOnly : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const bool is_arrival = sim().core().spec.names.signal(signal).starts_with("arrived");
    return SimMachine::wait(signal, is_arrival ? wanted - 1 : wanted, subject);
  }
};
struct TellsBeforeItsCopies : sim::SimMachine {
  using SimMachine::SimMachine;
  void copy(const Place& to, const Place& from, uint64_t bytes) {
    if (to.window != attention::kLocalWindow) return SimMachine::copy(to, from, bytes);
    late.push_back({to, from, bytes});
  }
  void add(const Signal& signal, uint64_t amount) {
    SimMachine::add(signal, amount);
    for (const Copy& copy : std::exchange(late, {})) SimMachine::copy(copy.to, copy.from, copy.bytes);
  }
  struct Copy {
    Place to, from;
    uint64_t bytes;
  };
  std::vector<Copy> late;
};
struct DoesNotSettle : sim::SimMachine {
  using SimMachine::SimMachine;
  bool settle() { return true; }
};

TEST(AttentionSimMutant, IsFound) {
  EXPECT_TRUE(is_found<DoesNotWaitFor<Arrivals>>("visibility"));
  EXPECT_TRUE(is_found<WaitsForKeysOnly>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Room>>("visibility result"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<RailRoom>>("visibility result"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Uses>>("visibility result", 600));
  EXPECT_TRUE(is_found<TellsBeforeItsCopies>("visibility"));
  EXPECT_TRUE(is_found<DoesNotSettle>("visibility"));
}

}  // namespace
}  // namespace mk::test
