// SPDX-License-Identifier: MIT
// bench/baseline_ag_gemm.cc — AllGather, then or beside cuBLAS.
//
// Overlapped, a rank multiplies its own rows at once and every other chunk of rows when it has arrived, in
// the order in which chunks should: those of the node, those of the rails, those that were passed on.
#include <algorithm>

#include "bench/baseline.h"
#include "bench/gather.h"

namespace mk::bench {
namespace {

class AgGemmBaseline : public Baseline {
 public:
  AgGemmBaseline(Rig& rig, const BenchCase& bench_case, Operands& operands)
      : rig_(rig),
        case_(bench_case),
        operands_(operands),
        gemm_(rig.world().device(), bench_case.dtype, bench_case.world.size()) {
    for (int rank = 0; rank < world().size(); ++rank) {
      gathered_.emplace_back(rig.world().device(), case_.dtype, case_.m, case_.k);
    }
  }

  void prepare() override {
    const auto stream = static_cast<cudaStream_t>(rig_.world().device().stream(0));
    const RankTensors& own = operands_.set(0)[0];
    operands_.engine().fill(gathered_[0].view, {});
    for (const int64_t rows : heights()) {
      const GemmOperands operands{gathered_[0].view.data, own.b.data, own.c.data};
      gemm_.prepare({rows, case_.n, case_.k}, {&operands, 1}, stream);
    }
  }

  void queue_products(int set, Placement placement) override {
    for (int rank = 0; rank < world().size(); ++rank) {
      const int lane = placement == Placement::kBackToBack ? 0 : rank;
      multiply(set, rank, gathered_[rank].view.data, {0, case_.m}, lane, rig_.compute(lane));
    }
  }

  void queue(int set, Schedule schedule, int num_chunks) override {
    const Cut cut(case_.shard_rows(), num_chunks);
    Gather gather = make_gather(set, cut);
    if (schedule == Schedule::kSerial) {
      queue_serial(set, cut, gather);
    } else {
      queue_overlapped(set, cut, gather);
    }
  }

  void poison() override {
    for (const OwnedTensor& tensor : gathered_) operands_.engine().poison(tensor.view);
  }

  tools::CheckResult check(int set) override { return check_ag_gemm(case_, operands_, rig_.world().device(), set); }

 private:
  struct Arrival {
    int rank;
    int source;
    int chunk;
    cudaEvent_t event;
  };

  const WorldShape& world() const { return case_.world; }
  int64_t row_bytes() const { return case_.k * size_of(case_.dtype); }

  // Of all products of all chunk counts.
  std::vector<int64_t> heights() const {
    std::vector<int64_t> heights = {case_.m, case_.shard_rows()};
    for (const int num_chunks : kChunkCounts) {
      const Cut cut(case_.shard_rows(), num_chunks);
      heights.push_back(cut.rows(0).count);
      heights.push_back(cut.rows(cut.count() - 1).count);
    }
    return heights;
  }

  Gather make_gather(int set, const Cut& cut) {
    std::vector<const std::byte*> own;
    std::vector<std::byte*> gathered;
    for (int rank = 0; rank < world().size(); ++rank) {
      own.push_back(static_cast<const std::byte*>(operands_.set(set)[rank].a.data));
      gathered.push_back(gathered_[rank].memory.as());
    }
    return Gather(rig_, std::move(own), std::move(gathered), cut, case_.shard_bytes(), row_bytes(), GatherLanes{});
  }

  // Rows of C, from the same rows of A that begin at `a`.
  void multiply(int set, int rank, const void* a, const Range& rows, int lane, cudaStream_t stream) {
    const RankTensors& own = operands_.set(set)[rank];
    std::byte* const c = static_cast<std::byte*>(own.c.data) + rows.first * case_.n * size_of(case_.dtype);
    gemm_.run({rows.count, case_.n, case_.k}, {a, own.b.data, c}, lane, stream);
  }

  void queue_transfers(const Cut& cut, Gather& gather, const Gather::Arrived& arrived) {
    for (int chunk = 0; chunk < cut.count(); ++chunk) {
      for (int rank = 0; rank < world().size(); ++rank) gather.send_own(rank, chunk, rig_.start(), arrived);
      for (int rank = 0; rank < world().size(); ++rank) gather.forward(rank, chunk, arrived);
    }
  }

  void queue_serial(int set, const Cut& cut, Gather& gather) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const CopyPiece own{gathered_[rank].memory.as() + rank * case_.shard_bytes(),
                          static_cast<const std::byte*>(operands_.set(set)[rank].a.data),
                          static_cast<uint64_t>(case_.shard_bytes())};
      copy_on_device(rig_.copy_path(), {&own, 1}, rig_.compute(rank));
    }
    queue_transfers(cut, gather, [&](int rank, int, int, cudaEvent_t event) { rig_.after(rig_.compute(rank), event); });
    rig_.meet();  // ranks on GPUs of their own begin to multiply together
    for (int rank = 0; rank < world().size(); ++rank) {
      multiply(set, rank, gathered_[rank].view.data, {0, case_.m}, rank, rig_.compute(rank));
    }
  }

  void queue_overlapped(int set, const Cut& cut, Gather& gather) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const Range own_rows{rank * case_.shard_rows(), case_.shard_rows()};
      multiply(set, rank, operands_.set(set)[rank].a.data, own_rows, rank, rig_.compute(rank));
    }
    std::vector<Arrival> arrivals;
    queue_transfers(cut, gather, [&](int rank, int source, int chunk, cudaEvent_t event) {
      arrivals.push_back({rank, source, chunk, event});
    });
    std::stable_partition(arrivals.begin(), arrivals.end(),
                          [&](const Arrival& one) { return world().same_node(one.rank, one.source); });
    for (const Arrival& one : arrivals) {
      const Range in_shard = cut.rows(one.chunk);
      const Range rows{one.source * case_.shard_rows() + in_shard.first, in_shard.count};
      const std::byte* const a = gathered_[one.rank].memory.as() + rows.first * row_bytes();
      rig_.after(rig_.compute(one.rank), one.event);
      multiply(set, one.rank, a, rows, one.rank, rig_.compute(one.rank));
    }
  }

  Rig& rig_;
  BenchCase case_;
  Operands& operands_;
  CublasGemm gemm_;
  std::vector<OwnedTensor> gathered_;
};

}  // namespace

std::unique_ptr<Baseline> make_ag_gemm_baseline(Rig& rig, const BenchCase& bench_case, Operands& operands) {
  return std::make_unique<AgGemmBaseline>(rig, bench_case, operands);
}

tools::CheckResult check_ag_gemm(const BenchCase& bench_case, Operands& operands, runtime::Device& device, int set) {
  const int64_t shard_rows = bench_case.shard_rows();
  const OwnedTensor gathered(device, bench_case.dtype, bench_case.m, bench_case.k);
  const OwnedTensor b(device, bench_case.dtype, bench_case.k, bench_case.n);
  for (int rank = 0; rank < bench_case.world.size(); ++rank) {
    operands.remake_a(
        set, rank,
        {gathered.memory.as() + rank * bench_case.shard_bytes(), bench_case.dtype, shard_rows, bench_case.k});
  }
  tools::CheckResult worst;
  for (int rank = 0; rank < bench_case.world.size(); ++rank) {
    operands.remake_b(set, rank, b.view);
    worst.add(operands.engine().check_gemm(gathered.view, b.view, operands.set(set)[rank].c, operands.kind()));
  }
  return worst;
}

}  // namespace mk::bench
