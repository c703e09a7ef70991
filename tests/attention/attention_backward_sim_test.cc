// SPDX-License-Identifier: MIT
// tests/attention/attention_backward_sim_test.cc — gradients of attention under virtual time: seeds are clean, and bugs
// are found.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/attention/ring_attention_backward_host_body.h"
#include "ops/attention/ring_attention_backward_protocol.h"
#include "ops/fuzz_case.h"
#include "target/sim/sim_machine.h"
#include "tests/attention/attention_cases.h"
#include "tests/attention/strided_heads.h"

namespace mk::test {
namespace {

using attention::BackwardLayout;
using attention::QueryBlock;

struct Resolve {
  sim::SimWorld* world;
  uint64_t epoch;
  std::byte* operator()(const Place& place) const { return world->memory().at(place, epoch); }
};

// What a rank brings to a launch, and what it got.
struct RankLaunch {
  std::vector<float> q, k, v, o, dout, lse, dq, dk, dv;
  std::vector<double> right_dq, right_dk, right_dv;
};

// A seed's world, layout and launches.
class AttentionBackwardSim {
 public:
  explicit AttentionBackwardSim(uint64_t seed) : random_(seed) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(random_.below(most)); };
    const WorldShape world{draw(4), draw(3)};
    AttentionForm form;
    form.order = draw(2) == 1 ? SequenceOrder::kContiguous : SequenceOrder::kZigzag;
    form.mask.kind = draw(3) == 1 ? MaskKind::kFull : MaskKind::kCausal;
    if (form.mask.kind == MaskKind::kCausal && draw(2) == 1) form.mask.window = draw(20);
    if (draw(3) == 1) form.packing = draw(100);
    form_ = form;
    const int kv_heads = draw(2);
    problem_ = attention_problem(world, form, 2 * draw(5), draw(2), kv_heads * draw(2), kv_heads, draw(2));
    const attention::BackwardCut cut{.block_rows = draw(4),
                                     .key_rows = draw(5),
                                     .part_bytes = 24 * draw(8),
                                     .chunks_of_piece = draw(3),
                                     .share_rows = draw(4),
                                     .heads_together = draw(3),
                                     .slots = draw(3)};
    layout_ = attention::make_backward_layout(problem_, cut, backward_roster(world, draw(2), draw(3)));
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
    spec.names = {BackwardLayout::kRoles, [layout = layout_](uint32_t signal) { return signal_name(layout, signal); }};
    spec.with_data = true;
    spec.put_lanes = static_cast<int>(std::max<int64_t>(1, layout_.most_puts()));
    spec.input = [&](int rank, uint64_t epoch, int input) {
      const RankLaunch& own = launches(epoch)[rank];
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
  // A tile takes its time.
  template <class M>
  struct Body : attention::BackwardHostBody<float, Resolve> {
    using Base = attention::BackwardHostBody<float, Resolve>;
    Body(AttentionBackwardSim& sim, M& machine, sim::SimWorld& world, const sim::Worker& worker)
        : Base(sim.layout_, worker.rank, operands(sim, worker), {&world, worker.epoch}), m(machine) {}
    static attention::BackwardOperands operands(AttentionBackwardSim& sim, const sim::Worker& worker) {
      RankLaunch& own = sim.launches(worker.epoch)[worker.rank];
      const RingAttentionShape& shape = sim.problem_.shape;
      const HeadStrides strides = attention::without_gaps(shape.rows, shape.heads, shape.dim);
      return {.q = {own.q.data(), strides},
              .k = {own.k.data() + sim.keys_.first, sim.keys_.strides},
              .v = {own.v.data() + sim.values_.first, sim.values_.strides},
              .o = {own.o.data(), strides},
              .dout = {own.dout.data(), strides},
              .lse = own.lse.data(),
              .dq = {own.dq.data(), strides},
              .dk = {own.dk.data() + sim.keys_.first, sim.keys_.strides},
              .dv = {own.dv.data() + sim.values_.first, sim.values_.strides},
              .scale = sim.problem_.scale_of_scores()};
    }
    void attend(const QueryBlock& block) {
      m.compute({1e6}, block.number);
      if (!m.sim().core().stopped()) Base::attend(block);
    }
    M& m;
  };

  // Of all ranks, with what is right.
  std::vector<RankLaunch>& launches(uint64_t epoch) {
    std::vector<RankLaunch>& all = launches_[epoch];
    if (!all.empty()) return all;
    all.resize(layout_.world.size());
    const RingAttentionShape& shape = problem_.shape;
    const int64_t queries = shape.batch * shape.rows * shape.heads * shape.dim;
    const auto draw = [&](std::vector<float>& to, int64_t elements) {
      to.resize(elements);
      for (float& value : to) value = static_cast<float>(random_.below(2001)) / 1000 - 1;
    };
    for (RankLaunch& own : all) {
      draw(own.q, queries);
      draw(own.k, keys_.count);
      draw(own.v, values_.count);
      draw(own.dout, queries);
      own.o.resize(own.q.size());
      own.lse.resize(shape.batch * shape.heads * shape.rows);
      own.dq.assign(own.q.size(), NAN);
      own.dk.assign(own.k.size(), kUntouched);
      own.dv.assign(own.v.size(), kUntouched);
      own.right_dq.assign(own.q.size(), 0);
      own.right_dk.assign(own.k.size(), kUntouched);
      own.right_dv.assign(own.v.size(), kUntouched);
      for (int64_t i = 0; i < shape.batch * shape.rows * shape.kv_heads; ++i) {
        const int64_t row = i / shape.kv_heads;
        for (const auto& [memory, right] : {std::pair{&keys_, &own.right_dk}, std::pair{&values_, &own.right_dv}}) {
          const int64_t at = element_of(*memory, row / shape.rows, row % shape.rows, i % shape.kv_heads);
          std::fill_n(right->begin() + at, shape.dim, 0);
        }
      }
    }
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      for (int64_t i = 0; i < shape.batch * shape.rows * shape.heads; ++i) {
        differentiate(all, rank, i / shape.heads / shape.rows, i / shape.heads % shape.rows, i % shape.heads);
      }
    }
    return all;
  }

  // One query of one head against all keys of all ranks, position by position.
  void differentiate(std::vector<RankLaunch>& all, int rank, int64_t batch, int64_t row, int64_t head) {
    const RingAttentionShape& shape = problem_.shape;
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const double scale = problem_.scale_of_scores();
    RankLaunch& own = all[rank];
    const int64_t at = ((batch * shape.rows + row) * shape.heads + head) * shape.dim;
    struct Seen {
      int source;
      int64_t k, v;  // elements
      double weight;
    };
    const auto position = [&](int of_rank, int64_t of_row) {
      const int piece = static_cast<int>(of_row / layout_.piece_rows());
      return layout_.positions_of(of_rank, piece).first + of_row % layout_.piece_rows();
    };
    std::vector<Seen> seen;
    double sum = 0;
    for (int source = 0; source < layout_.world.size(); ++source) {
      for (int64_t key = 0; key < shape.rows; ++key) {
        if (!sees(form_, problem_.shape.rows * layout_.world.size(), position(rank, row), position(source, key)))
          continue;
        const int64_t k = element_of(keys_, batch, key, kv_head);
        double score = 0;
        for (int64_t d = 0; d < shape.dim; ++d) score += double{own.q[at + d]} * all[source].k[k + d];
        seen.push_back({source, k, element_of(values_, batch, key, kv_head), std::exp(score * scale)});
        sum += seen.back().weight;
      }
    }
    double delta = 0;
    for (int64_t d = 0; d < shape.dim; ++d) {
      double o = 0;
      for (const Seen& key : seen) o += key.weight / sum * all[key.source].v[key.v + d];
      own.o[at + d] = static_cast<float>(o);
      delta += o * own.dout[at + d];
    }
    own.lse[(batch * shape.heads + head) * shape.rows + row] = static_cast<float>(std::log(sum));
    for (const Seen& key : seen) {
      RankLaunch& theirs = all[key.source];
      const double weight = key.weight / sum;
      double product = -delta;
      for (int64_t d = 0; d < shape.dim; ++d) product += double{own.dout[at + d]} * theirs.v[key.v + d];
      for (int64_t d = 0; d < shape.dim; ++d) {
        theirs.right_dv[key.v + d] += weight * own.dout[at + d];
        theirs.right_dk[key.k + d] += scale * weight * product * own.q[at + d];
        own.right_dq[at + d] += scale * weight * product * theirs.k[key.k + d];
      }
    }
  }

  static constexpr float kUntouched = 1e9f;  // of keys, and of gaps between them

  // A key's gradients are sums over up to a hundred queries, of at most 3 each: fp32 keeps five digits.
  static constexpr double kBound = 1e-4;

  void check(sim::SimWorld& world, uint64_t epoch) {
    for (int rank = 0; rank < layout_.world.size(); ++rank) {
      const RankLaunch& own = launches(epoch)[rank];
      const auto is_right = [](const std::vector<float>& found, const std::vector<double>& right) {
        for (size_t i = 0; i < found.size(); ++i) {
          if (!(std::abs(found[i] - right[i]) <= kBound)) return false;
        }
        return true;
      };
      const std::string whose = " of rank " + std::to_string(rank) + " in launch " + std::to_string(epoch);
      if (!is_right(own.dq, own.right_dq)) return world.core().complain("result", "dq" + whose);
      if (!is_right(own.dk, own.right_dk)) return world.core().complain("result", "dk" + whose);
      if (!is_right(own.dv, own.right_dv)) return world.core().complain("result", "dv" + whose);
    }
  }

  sim::Random random_;
  AttentionForm form_;
  attention::Problem problem_;
  attention::KeptBackwardLayout layout_;
  HeadsMemory keys_, values_;
  int num_launches_ = 0;
  std::map<uint64_t, std::vector<RankLaunch>> launches_;
};

TEST(AttentionBackwardSimSeeds, AreClean) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const auto complaints = AttentionBackwardSim(seed).run<sim::SimMachine>();
    ASSERT_TRUE(complaints.empty()) << "seed " << seed << ": " << complaints[0].kind << ": " << complaints[0].text;
  }
}

// Of so many seeds at least one finds the bug, and says so.
template <class M>
testing::AssertionResult is_found(const std::string& kinds, uint64_t seeds = 150) {
  std::string said;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto complaints = AttentionBackwardSim(seed).run<M>();
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
struct Made {
  static constexpr const char* kName = "made";
};
struct InboxRoom {
  static constexpr const char* kName = "inbox_room";
};
struct LandingRoom {
  static constexpr const char* kName = "landing_room";
};
struct Landed {
  static constexpr const char* kName = "landed";
};
struct Taken {
  static constexpr const char* kName = "taken";
};
struct Noted {
  static constexpr const char* kName = "noted";
};
struct AllTurns {
  static constexpr const char* kName = "turn";
};
struct Arrivals {
  static constexpr const char* kName = "arrived";
};
struct TakesNoTurns : sim::SimMachine {
  using SimMachine::SimMachine;
  bool wait_turn(uint32_t, uint64_t, int64_t) { return true; }
};
struct DoesNotSettle : sim::SimMachine {
  using SimMachine::SimMachine;
  bool settle() { return true; }
};
// Says that gradients are there before they are.
struct TellsBeforeItsStores : sim::SimMachine {
  using SimMachine::SimMachine;
  void store(const Place& to, uint64_t bytes) {
    if (to.window != attention::kInboxWindow) return SimMachine::store(to, bytes);
    late.push_back({to, bytes});
  }
  void add(const Signal& signal, uint64_t amount) {
    SimMachine::add(signal, amount);
    for (const auto& [to, bytes] : std::exchange(late, {})) SimMachine::store(to, bytes);
  }
  std::vector<std::pair<Place, uint64_t>> late;
};

TEST(AttentionBackwardSimMutant, IsFound) {
  EXPECT_TRUE(is_found<DoesNotWaitFor<Arrivals>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Made>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<InboxRoom>>("visibility result"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<LandingRoom>>("visibility result", 600));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Landed>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Taken>>("visibility result", 2000));
  EXPECT_TRUE(is_found<DoesNotWaitFor<Noted>>("visibility"));
  EXPECT_TRUE(is_found<DoesNotWaitFor<AllTurns>>("visibility"));
  EXPECT_TRUE(is_found<TakesNoTurns>("visibility"));
  EXPECT_TRUE(is_found<TellsBeforeItsStores>("visibility"));
  EXPECT_TRUE(is_found<DoesNotSettle>("visibility"));
}

}  // namespace
}  // namespace mk::test
