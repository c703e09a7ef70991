// SPDX-License-Identifier: MIT
// bench/baseline_attention.cc — see baseline_attention.h.
//
// Serial, all keys and values are gathered, then each rank has one launch.  Overlapped, a ring: a launch for each rank
// whose keys are seen, when they have arrived; results stay in fp32 between launches.
#include "bench/baseline_attention.h"

#include <vector>

#include "bench/attention_steps.h"
#include "bench/gather.h"
#include "core/schedule.h"

namespace mk::bench {
namespace {

class AttentionBaseline : public Baseline {
 public:
  AttentionBaseline(Rig& rig, const BenchCase& bench_case, AttentionSets& operands)
      : rig_(rig),
        case_(bench_case),
        operands_(operands),
        claims_(device(), world().size() * kMostLaunches * sizeof(uint64_t)),
        used_claims_(world().size()),
        num_sms_(device().seats_per_rank() * world().size()) {
    const int64_t columns = case_.attention.kv_heads * case_.k;
    for (int rank = 0; rank < world().size(); ++rank) {
      keys_.emplace_back(device(), case_.dtype, case_.n, columns);
      values_.emplace_back(device(), case_.dtype, case_.n, columns);
      states_.emplace_back(device(), attention_state_bytes(case_));
    }
  }

  void prepare() override { poison(); }

  // As if all keys were there: what was gathered before, or zeros' bits are as good as others.
  void queue_products(int set, Placement placement) override {
    begin_run();
    for (int rank = 0; rank < world().size(); ++rank) {
      const bool is_alone = placement == Placement::kBackToBack;
      attend(set, rank, all_of(rank), is_alone ? num_sms_ : device().seats_per_rank(),
             rig_.compute(is_alone ? 0 : rank));
    }
  }

  void queue(int set, Schedule schedule, int num_chunks) override {
    begin_run();
    const Cut cut(case_.m, num_chunks);
    Gather keys = make_gather(set, cut, &AttentionRankTensors::k, keys_);
    Gather values = make_gather(set, cut, &AttentionRankTensors::v, values_);
    if (schedule == Schedule::kSerial) {
      queue_serial(set, cut, keys, values);
    } else {
      queue_ring(set, cut, keys, values);
    }
  }

  void poison() override {
    for (const std::vector<OwnedTensor>* tensors : {&keys_, &values_}) {
      for (const OwnedTensor& tensor : *tensors) operands_.poison(tensor.view);
    }
    for (const runtime::Buffer& states : states_) {
      operands_.poison({states.as(), DType::kFp32, 1, static_cast<int64_t>(states.bytes() / sizeof(float))});
    }
  }

  tools::CheckResult check(int set) override { return operands_.check(set); }

 private:
  static constexpr int kMostLaunches = 32;  // of a rank in a run

  runtime::Device& device() const { return rig_.world().device(); }
  const WorldShape& world() const { return case_.world; }
  uint64_t shard_bytes() const { return case_.m * row_bytes(); }
  int64_t row_bytes() const { return case_.attention.kv_heads * case_.k * size_of(case_.dtype); }

  // On no stream of a run: counters are zero before it is timed.
  void begin_run() {
    check_cuda(cudaMemset(claims_.as(), 0, claims_.bytes()), "clear counters");
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "wait for counters");
    used_claims_.assign(world().size(), 0);
  }
  uint64_t* new_claim(int rank) { return claims_.as<uint64_t>() + rank * kMostLaunches + used_claims_[rank]++; }

  KeysOfRanks all_of(int rank) const { return {keys_[rank].view.data, values_[rank].view.data, 0, world().size()}; }
  KeysOfRanks of_source(int rank, int source) const {
    const int64_t at = source * static_cast<int64_t>(shard_bytes());
    return {keys_[rank].memory.as() + at, values_[rank].memory.as() + at, source, 1};
  }
  KeysOfRanks own_of(int set, int rank) const {
    const AttentionRankTensors& own = operands_.set(set)[rank];
    return {own.k.data, own.v.data, rank, 1};
  }

  void attend(int set, int rank, const KeysOfRanks& keys, int blocks, cudaStream_t stream) {
    launch(case_,
           {.rank = rank, .own = operands_.set(set)[rank], .keys = keys, .claimed = new_claim(rank), .blocks = blocks},
           stream);
  }

  Gather make_gather(int set, const Cut& cut, HeadTensor AttentionRankTensors::*tensor,
                     const std::vector<OwnedTensor>& into) {
    std::vector<const std::byte*> own;
    std::vector<std::byte*> gathered;
    for (int rank = 0; rank < world().size(); ++rank) {
      own.push_back(static_cast<const std::byte*>((operands_.set(set)[rank].*tensor).data));
      gathered.push_back(into[rank].memory.as());
    }
    return Gather(rig_, std::move(own), std::move(gathered), cut, shard_bytes(), row_bytes(), GatherLanes{});
  }

  void queue_transfers(const Cut& cut, Gather& keys, Gather& values, const Gather::Arrived& arrived) {
    for (int chunk = 0; chunk < cut.count(); ++chunk) {
      for (Gather* one : {&keys, &values}) {
        for (int rank = 0; rank < world().size(); ++rank) one->send_own(rank, chunk, rig_.start(), arrived);
        for (int rank = 0; rank < world().size(); ++rank) one->forward(rank, chunk, arrived);
      }
    }
  }

  void queue_serial(int set, const Cut& cut, Gather& keys, Gather& values) {
    for (int rank = 0; rank < world().size(); ++rank) {
      const KeysOfRanks from = own_of(set, rank);
      const int64_t at = rank * static_cast<int64_t>(shard_bytes());
      const CopyPiece own[] = {{keys_[rank].memory.as() + at, static_cast<const std::byte*>(from.k), shard_bytes()},
                               {values_[rank].memory.as() + at, static_cast<const std::byte*>(from.v), shard_bytes()}};
      copy_on_device(rig_.copy_path(), own, rig_.compute(rank));
    }
    queue_transfers(cut, keys, values,
                    [&](int rank, int, int, cudaEvent_t event) { rig_.after(rig_.compute(rank), event); });
    rig_.meet();  // ranks on GPUs of their own begin to compute together
    for (int rank = 0; rank < world().size(); ++rank) attend(set, rank, all_of(rank), num_sms_, rig_.compute(rank));
  }

  // Steps are those of the fused operator.
  void queue_ring(int set, const Cut& cut, Gather& keys, Gather& values) {
    std::vector<std::vector<cudaEvent_t>> arrivals(world().size() * world().size());  // [rank, source]
    queue_transfers(cut, keys, values, [&](int rank, int source, int, cudaEvent_t event) {
      arrivals[rank * world().size() + source].push_back(event);
    });
    for (int step = 0; step < world().size(); ++step) {
      for (int rank = 0; rank < world().size(); ++rank) {
        const int source = source_at(world(), rank, step);
        if (!sees(case_, rank, source)) continue;
        for (const cudaEvent_t event : arrivals[rank * world().size() + source]) {
          rig_.after(rig_.compute(rank), event);
        }
        launch(case_,
               {.rank = rank,
                .own = operands_.set(set)[rank],
                .keys = step == 0 ? own_of(set, rank) : of_source(rank, source),
                .states = states_[rank].as(),
                .is_first = step == 0,
                .is_last = step == last_step(rank),
                .claimed = new_claim(rank),
                .blocks = num_sms_},
               rig_.compute(rank));
      }
    }
  }
  int last_step(int rank) const {
    int step = world().size() - 1;
    while (!sees(case_, rank, source_at(world(), rank, step))) --step;
    return step;
  }

  Rig& rig_;
  BenchCase case_;
  AttentionSets& operands_;
  std::vector<OwnedTensor> keys_;    // of all ranks, gathered: by rank
  std::vector<OwnedTensor> values_;  // likewise
  std::vector<runtime::Buffer> states_;
  runtime::Buffer claims_;  // [rank, launch]
  std::vector<int> used_claims_;
  int num_sms_;
};

}  // namespace

std::unique_ptr<Baseline> make_attention_baseline(Rig& rig, const BenchCase& bench_case, AttentionSets& operands) {
  return std::make_unique<AttentionBaseline>(rig, bench_case, operands);
}

}  // namespace mk::bench
