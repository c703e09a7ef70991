// SPDX-License-Identifier: MIT
// bench/rig.h — streams, paced links and the clock that every contender of a benchmark runs on.
//
// A run is queued while a gate holds its first stream back; then the gate opens and the time until all of it
// is done is taken on the GPU.  So the host's time to queue work counts for nobody: what is compared is
// what the GPU and the links do.  Streams of a rank join a run when they are first asked for.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/cuda_api.h"
#include "base/cuda_copy.h"
#include "bench/pace_spec.h"
#include "bench/pacer.h"
#include "runtime/world_state.h"

namespace mk::bench {

enum class Wire { kNvlink, kNetwork };

// A point of a stream that transfers may wait for: as an event, and as a word for the pacer.
struct Mark {
  cudaEvent_t event = nullptr;
  uint32_t word = 0;
};

class Rig {
 public:
  // Queues of a wire; transfers of one lane keep their order.  The last two are for transfers by kernels: they go
  // before compute where both want an SM.
  static constexpr int kLanes = 4;
  static constexpr int kKernelLane = 2;

  Rig(runtime::WorldState& world, const PaceSpec& pace, CopyPath path);
  Rig(const Rig&) = delete;
  ~Rig();

  runtime::WorldState& world() { return world_; }
  const WorldShape& shape() const { return world_.shape(); }
  CopyPath copy_path() const { return path_; }
  void use(CopyPath path) { path_ = path; }

  // ---- while a run is queued ----

  cudaStream_t compute(int rank);  // the World's own stream of the rank
  cudaStream_t reduce(int rank);   // goes before compute where both want an SM
  cudaStream_t lane(Wire wire, int lane, int rank);
  const Mark& start() const { return start_; }

  cudaEvent_t record(cudaStream_t stream);
  void after(cudaStream_t stream, cudaEvent_t event);
  Mark mark(cudaStream_t stream);

  // Queues a transfer of so many bytes over a wire of `rank` once `ready` is reached; move(stream) queues what moves
  // them.  Gives the event of their arrival.
  using Move = std::function<void(cudaStream_t stream)>;
  cudaEvent_t send(Wire wire, int lane, int rank, uint64_t bytes, const Move& move, const Mark& ready);
  // Copies the pieces.
  cudaEvent_t send(Wire wire, int lane, int rank, std::span<const CopyPiece> pieces, const Mark& ready);

  // The compute streams of all ranks wait for each other.
  void meet();

  // ---- runs ----

  using Queue = std::function<void()>;
  void run(const Queue& queue);        // the first of its kind: kernels are loaded now
  double time_us(const Queue& queue);  // from the gate to the last stream's end

 private:
  enum class Gate { kOpen, kClosed };

  struct Line {
    cudaStream_t stream = nullptr;
    bool in_run = false;
  };

  double pass(Gate gate, const Queue& queue);
  void begin(Gate gate);
  void end();
  void open_gate();
  cudaStream_t joined(Line& line);
  Line& lane_line(Wire wire, int lane, int rank);
  int link_of(Wire wire, int rank) const { return 2 * rank + (wire == Wire::kNetwork ? 1 : 0); }
  void release() noexcept;

  runtime::WorldState& world_;
  PaceSpec pace_;
  CopyPath path_;
  Pacer pacer_;
  runtime::Buffer gate_;
  uint64_t runs_ = 0;
  cudaStream_t main_ = nullptr;
  cudaEvent_t began_ = nullptr;
  cudaEvent_t ended_ = nullptr;
  std::vector<Line> computes_;  // not owned
  std::vector<Line> reduces_;
  std::vector<Line> lanes_;
  std::vector<cudaEvent_t> events_;
  size_t next_event_ = 0;
  Mark start_;
};

// GB/s of copies by that path on the lanes of all ranks at once.
double copy_rate_gb_s(Rig& rig, CopyPath path);

}  // namespace mk::bench
