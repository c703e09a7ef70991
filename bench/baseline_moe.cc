// SPDX-License-Identifier: MIT
// bench/baseline_moe.cc — see baseline_moe.h.
//
//   step           what                                                           where
//   pack           tokens that cross, without gaps                                a kernel, before compute
//   rail           packed tokens to the rail peer, a chunk at a time              network
//   spread         rows of own tokens to experts of the node                      a kernel, paced as NVLink
//   forward        the same for what came over the rails                          a kernel, paced as NVLink
//   products       of the layer two, with SwiGLU between them                     cuBLAS, and a kernel
//   give back      results to the rank that delivered the row                     a kernel, paced as NVLink
//   sum for rails  weighted sums of tokens that came from other nodes             a kernel, before compute
//   rail           those sums to the rail peer                                    network
//   sum            own tokens                                                     a kernel, before compute
//
// Rows go from where they lie to where they are multiplied: nothing is packed or unpacked for NVLink.  Overlapped, a
// rank multiplies rows of its node's tokens first and those that crossed chunk by chunk; see moe_tables.h.  Streams
// keep their order, so the last sum of a chunk is queued behind the first sum of the next.
#include "bench/baseline_moe.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "bench/grouped_gemm.h"
#include "bench/moe_device_tables.h"
#include "bench/row_kernels.h"
#include "core/schedule.h"

namespace mk::bench {
namespace {

constexpr int kTokensLane = 0;  // of the network
constexpr int kSumsLane = 1;
constexpr int kThereLane = Rig::kKernelLane;  // of NVLink
constexpr int kBackLane = Rig::kKernelLane + 1;

class MoeBaseline : public Baseline {
 public:
  MoeBaseline(Rig& rig, const BenchCase& bench_case, MoeSets& operands)
      : rig_(rig),
        case_(bench_case),
        operands_(operands),
        first_(device(), case_.dtype, is_layer() ? BOrder::kNK : BOrder::kKN, first_cols(), case_.k, world().size()) {
    if (is_layer()) {
      second_ = std::make_unique<GroupedGemm>(device(), case_.dtype, BOrder::kNK, case_.k, case_.n, world().size());
    }
    const int64_t by_node = world().nodes * case_.moe.tokens;
    for (int rank = 0; rank < world().size(); ++rank) {
      int64_t returned = 1;
      for (int set = 0; set < kInputSets; ++set) {
        returned = std::max(returned, returned_rows(world(), operands.pairs(set), rank));
      }
      const int64_t max_rows = operands.max_rows();
      outgoing_.emplace_back(device(), case_.dtype, by_node, case_.k);
      incoming_.emplace_back(device(), case_.dtype, by_node, case_.k);
      rows_.emplace_back(device(), case_.dtype, max_rows, case_.k);
      if (!is_layer()) continue;
      gates_.emplace_back(device(), case_.dtype, max_rows, first_cols());
      activations_.emplace_back(device(), case_.dtype, max_rows, case_.n);
      results_.emplace_back(device(), case_.dtype, max_rows, case_.k);
      returned_.emplace_back(device(), case_.dtype, returned, case_.k);
      sums_out_.emplace_back(device(), case_.dtype, by_node, case_.k);
      sums_in_.emplace_back(device(), case_.dtype, by_node, case_.k);
    }
  }

  void prepare() override {
    for (const std::vector<OwnedTensor>* tensors : {&rows_, &activations_}) {
      for (const OwnedTensor& tensor : *tensors) operands_.engine().fill(tensor.view, {});
    }
    for (int set = 0; set < kInputSets; ++set) {
      for (const Schedule schedule : {Schedule::kSerial, Schedule::kOverlapped}) {
        for (const int num_chunks : kChunkCounts) plan_for(set, schedule, num_chunks);
      }
    }
  }

  void queue_products(int set, Placement placement) override {
    const MoeDeviceTables& plan = plan_for(set, Schedule::kSerial, 1);
    for (int rank = 0; rank < world().size(); ++rank) {
      const cudaStream_t stream = rig_.compute(placement == Placement::kBackToBack ? 0 : rank);
      first_.run(plan.ranks[rank].products[0][0], stream);
      if (is_layer()) second_->run(plan.ranks[rank].products[1][0], stream);
    }
  }

  void queue(int set, Schedule schedule, int num_chunks) override {
    const MoeDeviceTables& plan = plan_for(set, schedule, num_chunks);
    last_ = &plan;
    Run run(plan, world().size());
    for (int phase = 0; phase < plan.tables.own_phases(); ++phase) spread(run, phase);
    for (int chunk = 0; chunk < plan.tables.num_chunks() && world().nodes > 1; ++chunk) cross_and_forward(run, chunk);
    if (schedule == Schedule::kSerial) {
      queue_serial(run);
    } else {
      queue_overlapped(run);
    }
  }

  void poison() override {
    for (const std::vector<OwnedTensor>* tensors :
         {&outgoing_, &incoming_, &rows_, &gates_, &activations_, &results_, &returned_, &sums_out_, &sums_in_}) {
      for (const OwnedTensor& tensor : *tensors) operands_.engine().poison(tensor.view);
    }
  }

  tools::CheckResult check(int set) override {
    if (is_layer()) return operands_.check_layer(set, tools::rounding_of(case_.dtype));
    return operands_.check_rows(set, [&](int rank, int expert) -> const std::vector<tools::MoePair>& {
      return last_->tables.rank(rank).order[expert];
    });
  }

 private:
  // What one queueing remembers.
  struct Run {
    Run(const MoeDeviceTables& of, int num_ranks) : plan(of), num_ranks_(num_ranks) {
      const int phases = of.tables.num_phases();
      delivered.resize(num_ranks * phases);
      multiplied.resize(num_ranks * phases);
      given_back.resize(num_ranks * phases);
      from_rails.resize(num_ranks * of.tables.num_chunks());
    }
    size_t at(int rank, int index) const { return static_cast<size_t>(index) * num_ranks_ + rank; }

    const MoeDeviceTables& plan;
    std::vector<std::vector<cudaEvent_t>> delivered;   // [phase, rank]: what the rank delivered
    std::vector<Mark> multiplied;                      // [phase, rank]
    std::vector<std::vector<cudaEvent_t>> given_back;  // [phase, rank]: by the rank; none if nothing is
    std::vector<std::vector<cudaEvent_t>> from_rails;  // [chunk, rank]: sums of its tokens

   private:
    int num_ranks_;
  };

  bool is_layer() const { return case_.op == OpKind::kMoeLayer; }
  const WorldShape& world() const { return case_.world; }
  runtime::Device& device() { return rig_.world().device(); }
  int64_t row_bytes() const { return token_bytes(case_); }
  int64_t first_cols() const { return is_layer() ? 2 * case_.n : case_.n; }

  // ---- before a run ----

  const MoeDeviceTables& plan_for(int set, Schedule schedule, int num_chunks) {
    std::unique_ptr<MoeDeviceTables>& plan = plans_[{set, schedule, num_chunks}];
    if (plan != nullptr) return *plan;
    std::vector<MoeMemory> memory;
    for (int rank = 0; rank < world().size(); ++rank) memory.push_back(memory_of(set, rank));
    const RowOrder order = schedule == Schedule::kSerial ? RowOrder::kByExpert : RowOrder::kByPhase;
    const std::vector<std::vector<float>> none;
    plan = std::make_unique<MoeDeviceTables>(
        device(),
        MoeTables(case_, operands_.pairs(set), is_layer() ? operands_.weights(set) : none, memory, num_chunks, order));
    for (int rank = 0; rank < world().size(); ++rank) prepare_products(*plan, set, rank);
    return *plan;
  }

  MoeMemory memory_of(int set, int rank) const {
    const MoeRankTensors& own = operands_.set(set)[rank];
    MoeMemory memory{.x = static_cast<const std::byte*>(own.x.data)};
    memory.outgoing = outgoing_[rank].memory.as();
    memory.incoming = incoming_[rank].memory.as();
    memory.rows = rows_[rank].memory.as();
    if (!is_layer()) return memory;
    memory.results = results_[rank].memory.as();
    memory.returned = returned_[rank].memory.as();
    memory.sums_out = sums_out_[rank].memory.as();
    memory.sums_in = sums_in_[rank].memory.as();
    memory.out = static_cast<std::byte*>(own.y.data);
    return memory;
  }

  void prepare_products(MoeDeviceTables& plan, int set, int rank) {
    const MoeRankTensors& own = operands_.set(set)[rank];
    const auto stream = static_cast<cudaStream_t>(device().stream(rank));
    const auto prepare = [&](GroupedGemm& gemm, const Tensor& a, const Tensor& b, int64_t b_rows, const Tensor& c) {
      std::vector<int> numbers;
      for (const std::vector<RowGroup>& groups : plan.tables.rank(rank).groups) {
        std::vector<GemmGroup> of;
        for (const RowGroup& group : groups) {
          of.push_back(
              {group.count,
               {tools::rows_of(a, group.a_row, group.count).data, tools::rows_of(b, group.expert * b_rows, b_rows).data,
                tools::rows_of(c, group.c_row, group.count).data}});
        }
        numbers.push_back(gemm.prepare(of, rank, stream));
      }
      plan.ranks[rank].products.push_back(numbers);
    };
    if (is_layer()) {
      prepare(first_, rows_[rank].view, own.w13, 2 * case_.n, gates_[rank].view);
      prepare(*second_, activations_[rank].view, own.w2, case_.k, results_[rank].view);
    } else {
      prepare(first_, rows_[rank].view, own.w, case_.k, own.y);
    }
  }

  // ---- there ----

  void spread(Run& run, int phase) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const int64_t to_peers = run.plan.tables.rank(rank).spread_to_peers[phase];
      deliver(run, rank, phase, run.plan.ranks[rank].spread.part(phase), to_peers, rig_.start());
    }
  }

  void deliver(Run& run, int rank, int phase, std::span<const RowMove> moves, int64_t to_peers, const Mark& ready) {
    if (moves.empty()) return;
    run.delivered[run.at(rank, phase)].push_back(rig_.send(
        Wire::kNvlink, kThereLane, rank, to_peers * row_bytes(),
        [&](cudaStream_t stream) { queue_moves(moves, row_bytes(), stream); }, ready));
  }

  // Rows of a list by node.
  CopyPiece rail_piece(const std::vector<OwnedTensor>& from, int rank, int node, const std::vector<OwnedTensor>& to,
                       int peer, const Range& rows) const {
    const auto at = [&](const std::vector<OwnedTensor>& of, int owner, int of_node) {
      return of[owner].memory.as() + (of_node * case_.moe.tokens + rows.first) * row_bytes();
    };
    return {at(to, peer, world().node_of(rank)), at(from, rank, node), static_cast<uint64_t>(rows.count * row_bytes())};
  }

  void cross_and_forward(Run& run, int chunk) {
    std::vector<Mark> landed(world().size() * world().nodes);  // [rank, node it came from]
    for (int rank = 0; rank < world().size(); ++rank) {
      const cudaStream_t stream = rig_.reduce(rank);
      queue_moves(run.plan.ranks[rank].pack.part(chunk), row_bytes(), stream);
      const Mark packed = rig_.mark(stream);
      for (int step = 1; step < world().nodes; ++step) {
        const int peer = rail_peer_at(world(), rank, step);
        const Range& rows = run.plan.tables.rank(rank).crossing[world().node_of(peer)][chunk];
        if (rows.count == 0) continue;
        const CopyPiece piece = rail_piece(outgoing_, rank, world().node_of(peer), incoming_, peer, rows);
        rig_.send(Wire::kNetwork, kTokensLane, rank, {&piece, 1}, packed);
        landed[peer * world().nodes + world().node_of(rank)] = rig_.mark(rig_.lane(Wire::kNetwork, kTokensLane, rank));
      }
    }
    for (int rank = 0; rank < world().size(); ++rank) {
      for (int step = 1; step < world().nodes; ++step) {
        const int node = world().node_of(rail_peer_at(world(), rank, step));
        const int part = chunk * world().nodes + node;
        deliver(run, rank, run.plan.tables.crossed_phase(chunk), run.plan.ranks[rank].forward.part(part),
                run.plan.tables.rank(rank).forwarded_to_peers[part], landed[rank * world().nodes + node]);
      }
    }
  }

  // A rank has all rows of a phase.
  void after_rows(cudaStream_t stream, int rank, const Run& run, int phase) {
    for (int step = 0; step < world().ranks; ++step) {
      const int from = peer_at(world(), rank, step);
      for (const cudaEvent_t event : run.delivered[run.at(from, phase)]) rig_.after(stream, event);
    }
  }

  // ---- products ----

  // Groups `number`, whose rows are these.
  void multiply(const Run& run, int rank, int number, const Range& rows) {
    const MoeDeviceTables::Rank& own = run.plan.ranks[rank];
    const cudaStream_t stream = rig_.compute(rank);
    first_.run(own.products[0][number], stream);
    if (!is_layer()) return;
    const auto at = [&](const OwnedTensor& tensor) { return tools::rows_of(tensor.view, rows.first, rows.count).data; };
    queue_swiglu(at(gates_[rank]), at(activations_[rank]), rows.count, case_.n, stream);
    second_->run(own.products[1][number], stream);
  }

  // ---- back ----

  void give_back(Run& run, int phase) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const std::span<const RowMove> moves = run.plan.ranks[rank].give_back.part(phase);
      if (moves.empty()) continue;
      run.given_back[run.at(rank, phase)].push_back(rig_.send(
          Wire::kNvlink, kBackLane, rank, moves.size() * row_bytes(),
          [&](cudaStream_t stream) { queue_moves(moves, row_bytes(), stream); }, run.multiplied[run.at(rank, phase)]));
    }
  }

  // A rank has all results of a phase that it delivered.
  void after_results(cudaStream_t stream, int rank, const Run& run, int phase) {
    rig_.after(stream, run.multiplied[run.at(rank, phase)].event);
    for (int step = 1; step < world().ranks; ++step) {
      const int from = peer_at(world(), rank, step);
      for (const cudaEvent_t event : run.given_back[run.at(from, phase)]) rig_.after(stream, event);
    }
  }

  void sum_for_rails(Run& run, int chunk) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const MoeDeviceTables::Rank& own = run.plan.ranks[rank];
      const cudaStream_t stream = rig_.reduce(rank);
      after_results(stream, rank, run, run.plan.tables.crossed_phase(chunk));
      for (int step = 1; step < world().nodes; ++step) {
        const int peer = rail_peer_at(world(), rank, step);
        const Range& rows = run.plan.tables.rank(peer).crossing[world().node_of(rank)][chunk];
        if (rows.count == 0) continue;
        queue_weighted_sums(own.for_rails.part(chunk * world().nodes + world().node_of(peer)), own.terms.part(0).data(),
                            row_bytes(), stream);
        const CopyPiece piece = rail_piece(sums_out_, rank, world().node_of(peer), sums_in_, peer, rows);
        run.from_rails[run.at(peer, chunk)].push_back(
            rig_.send(Wire::kNetwork, kSumsLane, rank, {&piece, 1}, rig_.mark(stream)));
      }
    }
  }

  void sum_own(const Run& run, int chunk) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const MoeDeviceTables::Rank& own = run.plan.ranks[rank];
      const cudaStream_t stream = rig_.reduce(rank);
      after_results(stream, rank, run, run.plan.tables.own_phase(chunk));
      for (const cudaEvent_t event : run.from_rails[run.at(rank, chunk)]) rig_.after(stream, event);
      queue_weighted_sums(own.own.part(chunk), own.terms.part(0).data(), row_bytes(), stream);
    }
  }

  // ---- runs ----

  void queue_serial(Run& run) {
    const MoeTables& tables = run.plan.tables;
    for (int rank = 0; rank < world().size(); ++rank) {
      for (int phase = 0; phase < tables.num_phases(); ++phase) {
        after_rows(rig_.compute(rank), rank, run, phase);
      }
    }
    rig_.meet();  // ranks on GPUs of their own begin to multiply together
    for (int rank = 0; rank < world().size(); ++rank) multiply(run, rank, 0, {0, tables.rank(rank).num_rows});
    if (!is_layer()) return;
    rig_.meet();  // and are done together
    for (int rank = 0; rank < world().size(); ++rank) {
      const Mark done = rig_.mark(rig_.compute(rank));
      for (int phase = 0; phase < tables.num_phases(); ++phase) run.multiplied[run.at(rank, phase)] = done;
    }
    for (int phase = 0; phase < tables.num_phases(); ++phase) give_back(run, phase);
    for (int chunk = 0; chunk <= tables.num_chunks(); ++chunk) {
      if (chunk < tables.num_chunks() && world().nodes > 1) sum_for_rails(run, chunk);
      if (chunk > 0) sum_own(run, chunk - 1);
    }
  }

  void queue_overlapped(Run& run) {
    const MoeTables& tables = run.plan.tables;
    int next = 0;  // chunk whose own tokens are to be summed
    for (int phase = 0; phase < tables.num_phases(); ++phase) {
      for (int rank = 0; rank < world().size(); ++rank) {
        after_rows(rig_.compute(rank), rank, run, phase);
        multiply(run, rank, phase, tables.rank(rank).rows[phase]);
        if (is_layer()) run.multiplied[run.at(rank, phase)] = rig_.mark(rig_.compute(rank));
      }
      if (!is_layer()) continue;
      give_back(run, phase);
      if (world().nodes > 1 && phase == 0) continue;
      if (world().nodes > 1) sum_for_rails(run, phase - 1);
      if (phase > (world().nodes > 1 ? 1 : 0)) sum_own(run, next++);
    }
    for (; is_layer() && next < tables.num_chunks(); ++next) sum_own(run, next);
  }

  Rig& rig_;
  BenchCase case_;
  MoeSets& operands_;
  GroupedGemm first_;
  std::unique_ptr<GroupedGemm> second_;  // of the layer
  std::vector<OwnedTensor> outgoing_;    // [node, tokens]: see MoeMemory
  std::vector<OwnedTensor> incoming_;
  std::vector<OwnedTensor> rows_;
  std::vector<OwnedTensor> gates_;  // these and the following: of the layer
  std::vector<OwnedTensor> activations_;
  std::vector<OwnedTensor> results_;
  std::vector<OwnedTensor> returned_;
  std::vector<OwnedTensor> sums_out_;
  std::vector<OwnedTensor> sums_in_;
  std::map<std::tuple<int, Schedule, int>, std::unique_ptr<MoeDeviceTables>> plans_;  // by set, schedule and chunks
  const MoeDeviceTables* last_ = nullptr;
};

}  // namespace

std::unique_ptr<Baseline> make_moe_baseline(Rig& rig, const BenchCase& bench_case, MoeSets& operands) {
  return std::make_unique<MoeBaseline>(rig, bench_case, operands);
}

}  // namespace mk::bench
