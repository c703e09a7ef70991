// SPDX-License-Identifier: MIT
// bench/baseline_reduce.cc — cuBLAS, then or beside ReduceScatter; AllReduce gathers what was scattered.
//
// A rank gives each peer of its node the rows that the peer's rail owns.  The peer adds them up and sends every other
// node's part over the rail.  The owner adds what came from its node and from its rail.  Partial results and sums that
// travel are of the output's type; sums are fp32 inside.
//
// Streams keep their order, so steps are queued with a lag of one chunk: the last sum of a chunk behind the first sum
// of the next, and in the gather, the rows that are passed on behind the next chunk's own rows.
#include <algorithm>

#include "bench/baseline.h"
#include "bench/gather.h"
#include "bench/reduction.h"
#include "core/schedule.h"

namespace mk::bench {
namespace {

constexpr int kScatterLane = 0;
constexpr int kGatherLane = 1;

class ReduceBaseline : public Baseline {
 public:
  ReduceBaseline(Rig& rig, const BenchCase& bench_case, Operands& operands)
      : rig_(rig),
        case_(bench_case),
        operands_(operands),
        gemm_(rig.world().device(), bench_case.dtype, bench_case.world.size()) {
    runtime::Device& device = rig.world().device();
    for (int rank = 0; rank < world().size(); ++rank) {
      partial_.emplace_back(device, case_.dtype, case_.m, case_.n);
      from_peers_.emplace_back(device, case_.dtype, case_.m, case_.n);
      node_sums_.emplace_back(device, case_.dtype, world().nodes * case_.shard_rows(), case_.n);
      from_rails_.emplace_back(device, case_.dtype, world().nodes * case_.shard_rows(), case_.n);
    }
  }

  void prepare() override {
    const auto stream = static_cast<cudaStream_t>(rig_.world().device().stream(0));
    const RankTensors& own = operands_.set(0)[0];
    const GemmOperands operands{own.a.data, own.b.data, partial_[0].view.data};
    gemm_.prepare(all_rows(), {&operands, 1}, stream);
    for (const int num_chunks : kChunkCounts) {
      const Cut cut(case_.shard_rows(), num_chunks);
      gemm_.prepare(rows_of_all_shards(cut.rows(0)), {&operands, 1}, stream);
      gemm_.prepare(rows_of_all_shards(cut.rows(cut.count() - 1)), {&operands, 1}, stream);
    }
  }

  void queue_products(int set, Placement placement) override {
    for (int rank = 0; rank < world().size(); ++rank) {
      const int lane = placement == Placement::kBackToBack ? 0 : rank;
      gemm_.run(all_rows(), operands_of(set, rank, 0), lane, rig_.compute(lane));
    }
  }

  void queue(int set, Schedule schedule, int num_chunks) override {
    const Cut cut(case_.shard_rows(), num_chunks);
    Run run{set, cut, {}, {}, {}, {}};
    const size_t num_ranks = world().size();
    run.multiplied.resize(num_ranks * cut.count());
    run.for_rail.resize(num_ranks);
    run.for_owner.resize(num_ranks * cut.count());
    run.from_rail.resize(num_ranks * cut.count());
    if (schedule == Schedule::kSerial) multiply_all(run);
    Gather gather = make_gather(run);
    const bool gathers = case_.op == OpKind::kGemmAr;
    for (int step = 0; step < cut.count() + 2; ++step) {
      if (step < cut.count()) {
        if (schedule == Schedule::kOverlapped) multiply_chunk(run, step);
        give_to_peers(run, step);
        give_to_rails(run, step);
      }
      if (step >= 1 && step - 1 < cut.count()) {
        const std::vector<Mark> done = add_up(run, step - 1);
        for (int rank = 0; gathers && rank < world().size(); ++rank)
          gather.send_own(rank, step - 1, done[rank], unheard);
      }
      if (step >= 2 && gathers) {
        for (int rank = 0; rank < world().size(); ++rank) gather.forward(rank, step - 2, unheard);
      }
    }
  }

  void poison() override {
    for (const std::vector<OwnedTensor>* tensors : {&partial_, &from_peers_, &node_sums_, &from_rails_}) {
      for (const OwnedTensor& tensor : *tensors) operands_.engine().poison(tensor.view);
    }
  }

  // The products against fp64, then the sums bit by bit against the products.
  tools::CheckResult check(int set) override {
    runtime::Device& device = rig_.world().device();
    const OwnedTensor a(device, case_.dtype, case_.m, case_.k);
    const OwnedTensor b(device, case_.dtype, case_.k, case_.n);
    tools::CheckResult worst;
    for (int rank = 0; rank < world().size(); ++rank) {
      operands_.remake_a(set, rank, a.view);
      operands_.remake_b(set, rank, b.view);
      worst.add(operands_.engine().check_gemm(a.view, b.view, partial_[rank].view, operands_.kind()));
    }
    for (int owner = 0; owner < world().size(); ++owner) {
      for (int rank = 0; rank < world().size(); ++rank) {
        if (case_.op == OpKind::kGemmRs && rank != owner) continue;
        worst.wrong += unlike(set, owner, rank);
      }
    }
    return worst;
  }

 private:
  // What one queueing remembers: events and marks by rank, or by rank and chunk.
  struct Run {
    int set;
    Cut cut;
    std::vector<Mark> multiplied;
    std::vector<std::vector<cudaEvent_t>> for_rail;   // a chunk's; at the peer: its rail's rows of all others
    std::vector<std::vector<cudaEvent_t>> for_owner;  // at the peer: its own rows
    std::vector<std::vector<cudaEvent_t>> from_rail;

    size_t at(int rank, int chunk) const { return static_cast<size_t>(rank) * cut.count() + chunk; }
  };

  static void unheard(int, int, int, cudaEvent_t) {}

  const WorldShape& world() const { return case_.world; }
  int64_t row_bytes() const { return case_.n * size_of(case_.dtype); }

  GemmShape all_rows() const { return {case_.m, case_.n, case_.k}; }
  GemmShape rows_of_all_shards(const Range& rows) const {
    return {rows.count, case_.n, case_.k, world().size(), case_.shard_rows() * case_.k, case_.shard_rows() * case_.n};
  }
  GemmOperands operands_of(int set, int rank, int64_t first_row) const {
    const RankTensors& own = operands_.set(set)[rank];
    return {static_cast<const std::byte*>(own.a.data) + first_row * case_.k * size_of(case_.dtype), own.b.data,
            partial_[rank].memory.as() + first_row * row_bytes()};
  }

  // Rows of a chunk: in a rank's partial result; in what a rank holds of a peer's, by node; in what is by node.
  std::byte* partial(int rank, int owner, const Range& rows) const {
    return partial_[rank].memory.as() + owner * case_.shard_bytes() + rows.first * row_bytes();
  }
  std::byte* from_peer(int rank, int local, int node, const Range& rows) const {
    return from_peers_[rank].memory.as() + (local * world().nodes + node) * case_.shard_bytes() +
           rows.first * row_bytes();
  }
  std::byte* by_node(const std::vector<OwnedTensor>& tensors, int rank, int node, const Range& rows) const {
    return tensors[rank].memory.as() + node * case_.shard_bytes() + rows.first * row_bytes();
  }
  std::byte* output(int set, int rank, int owner) const {
    std::byte* const c = static_cast<std::byte*>(operands_.set(set)[rank].c.data);
    return case_.op == OpKind::kGemmRs ? c : c + owner * case_.shard_bytes();
  }

  void multiply_all(Run& run) {
    for (int rank = 0; rank < world().size(); ++rank) {
      gemm_.run(all_rows(), operands_of(run.set, rank, 0), rank, rig_.compute(rank));
    }
    rig_.meet();  // ranks on GPUs of their own are done together
    for (int rank = 0; rank < world().size(); ++rank) {
      const Mark done = rig_.mark(rig_.compute(rank));
      for (int chunk = 0; chunk < run.cut.count(); ++chunk) run.multiplied[run.at(rank, chunk)] = done;
    }
  }

  void multiply_chunk(Run& run, int chunk) {
    const Range rows = run.cut.rows(chunk);
    for (int rank = 0; rank < world().size(); ++rank) {
      gemm_.run(rows_of_all_shards(rows), operands_of(run.set, rank, rows.first), rank, rig_.compute(rank));
      run.multiplied[run.at(rank, chunk)] = rig_.mark(rig_.compute(rank));
    }
  }

  // What still has to cross a rail goes first.
  void give_to_peers(Run& run, int chunk) {
    for (std::vector<cudaEvent_t>& events : run.for_rail) events.clear();
    for (int rank = 0; rank < world().size(); ++rank) {
      const Mark& ready = run.multiplied[run.at(rank, chunk)];
      for (int step = 1; step < world().ranks && world().nodes > 1; ++step) {
        const int peer = peer_at(world(), rank, step);
        run.for_rail[peer].push_back(give(run, rank, peer, chunk, Destination::kOtherNodes, ready));
      }
      for (int step = 1; step < world().ranks; ++step) {
        const int peer = peer_at(world(), rank, step);
        run.for_owner[run.at(peer, chunk)].push_back(give(run, rank, peer, chunk, Destination::kThisNode, ready));
      }
    }
  }

  enum class Destination { kOtherNodes, kThisNode };

  cudaEvent_t give(const Run& run, int rank, int peer, int chunk, Destination destination, const Mark& ready) {
    const Range rows = run.cut.rows(chunk);
    std::vector<CopyPiece> pieces;
    for (int node = 0; node < world().nodes; ++node) {
      const bool is_here = node == world().node_of(rank);
      if (is_here != (destination == Destination::kThisNode)) continue;
      const int owner = world().rank_at(node, world().local_of(peer));
      pieces.push_back({from_peer(peer, world().local_of(rank), node, rows), partial(rank, owner, rows),
                        static_cast<uint64_t>(rows.count * row_bytes())});
    }
    return rig_.send(Wire::kNvlink, kScatterLane, rank, pieces, ready);
  }

  // A rank's node's terms of what `owner`, on its rail, gets; in the order of the node's ranks.
  std::vector<const void*> node_terms(const Range& rows, int rank, int owner) const {
    std::vector<const void*> terms;
    for (int local = 0; local < world().ranks; ++local) {
      const bool is_own = local == world().local_of(rank);
      terms.push_back(is_own ? partial(rank, owner, rows) : from_peer(rank, local, world().node_of(owner), rows));
    }
    return terms;
  }

  void give_to_rails(Run& run, int chunk) {
    if (world().nodes == 1) return;
    const Range rows = run.cut.rows(chunk);
    for (int rank = 0; rank < world().size(); ++rank) {
      const cudaStream_t stream = rig_.reduce(rank);
      rig_.after(stream, run.multiplied[run.at(rank, chunk)].event);
      for (const cudaEvent_t event : run.for_rail[rank]) rig_.after(stream, event);
      for (int step = 1; step < world().nodes; ++step) {
        const int owner = rail_peer_at(world(), rank, step);
        std::byte* const sum = by_node(node_sums_, rank, world().node_of(owner), rows);
        queue_sum(case_.dtype, node_terms(rows, rank, owner), sum, rows.count * case_.n, stream);
        const CopyPiece piece{by_node(from_rails_, owner, world().node_of(rank), rows), sum,
                              static_cast<uint64_t>(rows.count * row_bytes())};
        run.from_rail[run.at(owner, chunk)].push_back(
            rig_.send(Wire::kNetwork, kScatterLane, rank, {&piece, 1}, rig_.mark(stream)));
      }
    }
  }

  std::vector<Mark> add_up(const Run& run, int chunk) {
    const Range rows = run.cut.rows(chunk);
    std::vector<Mark> done;
    for (int rank = 0; rank < world().size(); ++rank) {
      const cudaStream_t stream = rig_.reduce(rank);
      rig_.after(stream, run.multiplied[run.at(rank, chunk)].event);
      for (const cudaEvent_t event : run.for_owner[run.at(rank, chunk)]) rig_.after(stream, event);
      for (const cudaEvent_t event : run.from_rail[run.at(rank, chunk)]) rig_.after(stream, event);
      std::vector<const void*> terms = node_terms(rows, rank, rank);
      for (int node = 0; node < world().nodes; ++node) {
        if (node != world().node_of(rank)) terms.push_back(by_node(from_rails_, rank, node, rows));
      }
      queue_sum(case_.dtype, terms, output(run.set, rank, rank) + rows.first * row_bytes(), rows.count * case_.n,
                stream);
      done.push_back(rig_.mark(stream));
    }
    return done;
  }

  Gather make_gather(const Run& run) {
    std::vector<const std::byte*> own;
    std::vector<std::byte*> gathered;
    for (int rank = 0; rank < world().size(); ++rank) {
      own.push_back(output(run.set, rank, rank));
      gathered.push_back(static_cast<std::byte*>(operands_.set(run.set)[rank].c.data));
    }
    return Gather(rig_, std::move(own), std::move(gathered), run.cut, case_.shard_bytes(), row_bytes(),
                  {kGatherLane, kGatherLane, kGatherLane});
  }

  int64_t unlike(int set, int owner, int rank) const {
    std::vector<const void*> partials;
    for (int from = 0; from < world().size(); ++from) {
      partials.push_back(partial(from, owner, {0, case_.shard_rows()}));
    }
    return count_unlike(case_.dtype,
                        {world(), owner, partials, output(set, rank, owner), case_.shard_rows() * case_.n});
  }

  Rig& rig_;
  BenchCase case_;
  Operands& operands_;
  CublasGemm gemm_;
  std::vector<OwnedTensor> partial_;     // [M, N]
  std::vector<OwnedTensor> from_peers_;  // [local, node] shards; those of the rank itself are unused
  std::vector<OwnedTensor> node_sums_;   // [node] shards, for the rail
  std::vector<OwnedTensor> from_rails_;  // [node] shards
};

}  // namespace

std::unique_ptr<Baseline> make_reduce_baseline(Rig& rig, const BenchCase& bench_case, Operands& operands) {
  return std::make_unique<ReduceBaseline>(rig, bench_case, operands);
}

}  // namespace mk::bench
