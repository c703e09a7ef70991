// SPDX-License-Identifier: MIT
// bench/rig.cc — see rig.h.
#include "bench/rig.h"

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

CUdeviceptr address(const uint64_t* word) { return reinterpret_cast<CUdeviceptr>(word); }

std::vector<double> link_rates(const PaceSpec& pace, int num_ranks) {
  std::vector<double> rates;
  for (int rank = 0; rank < num_ranks; ++rank) {
    rates.push_back(ns_per_byte(pace.nvlink_gb_s, num_ranks));
    rates.push_back(ns_per_byte(pace.network_gb_s, num_ranks));
  }
  return rates;
}

cudaStream_t stream_before_compute() {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "read the range of priorities");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "create a stream");
  return stream;
}

}  // namespace

Rig::Rig(runtime::WorldState& world, const PaceSpec& pace, CopyPath path)
    : world_(world),
      pace_(pace),
      path_(path),
      pacer_(world.device(), link_rates(pace, world.shape().size()), kLanes),
      gate_(world.device(), sizeof(uint64_t), runtime::Buffer::Kind::kShared),
      computes_(world.shape().size()),
      reduces_(world.shape().size()),
      lanes_(world.shape().size() * 2 * kLanes) {
  for (int rank = 0; rank < shape().size(); ++rank) {
    computes_[rank].stream = static_cast<cudaStream_t>(world.device().stream(rank));
  }
  try {
    check_cuda(cudaStreamCreateWithFlags(&main_, cudaStreamNonBlocking), "create a stream");
    check_cuda(cudaEventCreate(&began_), "create an event");
    check_cuda(cudaEventCreate(&ended_), "create an event");
  } catch (...) {
    release();
    throw;
  }
}

Rig::~Rig() {
  cudaDeviceSynchronize();
  release();
}

void Rig::release() noexcept {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const std::vector<Line>* lines : {&reduces_, &lanes_}) {
    for (const Line& line : *lines) {
      if (line.stream != nullptr) cudaStreamDestroy(line.stream);
    }
  }
  if (began_ != nullptr) cudaEventDestroy(began_);
  if (ended_ != nullptr) cudaEventDestroy(ended_);
  if (main_ != nullptr) cudaStreamDestroy(main_);
}

cudaStream_t Rig::joined(Line& line) {
  if (!line.in_run) {
    line.in_run = true;
    after(line.stream, start_.event);
  }
  return line.stream;
}

cudaStream_t Rig::compute(int rank) { return joined(computes_[rank]); }

cudaStream_t Rig::reduce(int rank) {
  Line& line = reduces_[rank];
  if (line.stream == nullptr) line.stream = stream_before_compute();
  return joined(line);
}

Rig::Line& Rig::lane_line(Wire wire, int lane, int rank) {
  Line& line = lanes_[link_of(wire, rank) * kLanes + lane];
  if (line.stream != nullptr) return line;
  if (lane >= kKernelLane) {
    line.stream = stream_before_compute();
  } else {
    check_cuda(cudaStreamCreateWithFlags(&line.stream, cudaStreamNonBlocking), "create a stream");
  }
  return line;
}

cudaStream_t Rig::lane(Wire wire, int lane, int rank) { return joined(lane_line(wire, lane, rank)); }

cudaEvent_t Rig::record(cudaStream_t stream) {
  if (next_event_ == events_.size()) {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
    events_.push_back(event);
  }
  const cudaEvent_t event = events_[next_event_++];
  check_cuda(cudaEventRecord(event, stream), "record an event");
  return event;
}

void Rig::after(cudaStream_t stream, cudaEvent_t event) {
  check_cuda(cudaStreamWaitEvent(stream, event, 0), "wait for an event");
}

Mark Rig::mark(cudaStream_t stream) {
  const uint32_t word = pacer_.mark(stream);
  return {record(stream), word};
}

cudaEvent_t Rig::send(Wire wire, int lane, int rank, uint64_t bytes, const Move& move, const Mark& ready) {
  const double rate = wire == Wire::kNvlink ? pace_.nvlink_gb_s : pace_.network_gb_s;
  const bool is_paced = rate > 0 && bytes > 0;
  const int queue = link_of(wire, rank) * kLanes + lane;
  const cudaStream_t stream = this->lane(wire, lane, rank);
  const uint64_t number = is_paced ? pacer_.announce(queue, ready.word, bytes) : 0;
  after(stream, ready.event);
  move(stream);
  if (is_paced) pacer_.pass(queue, number, stream);
  return record(stream);
}

cudaEvent_t Rig::send(Wire wire, int lane, int rank, std::span<const CopyPiece> pieces, const Mark& ready) {
  uint64_t bytes = 0;
  for (const CopyPiece& piece : pieces) bytes += piece.bytes;
  return send(
      wire, lane, rank, bytes, [&](cudaStream_t stream) { copy_on_device(path_, pieces, stream); }, ready);
}

void Rig::meet() {
  std::vector<cudaEvent_t> here;
  for (int rank = 0; rank < shape().size(); ++rank) here.push_back(record(compute(rank)));
  for (int rank = 0; rank < shape().size(); ++rank) {
    for (const cudaEvent_t event : here) after(compute(rank), event);
  }
}

void Rig::run(const Queue& queue) { pass(Gate::kOpen, queue); }

double Rig::time_us(const Queue& queue) { return pass(Gate::kClosed, queue); }

void Rig::open_gate() { HostAtomics::store_release(gate_.as<uint64_t>(), runs_); }

void Rig::begin(Gate gate) {
  ++runs_;
  next_event_ = 0;
  pacer_.begin_run();
  for (std::vector<Line>* lines : {&computes_, &reduces_, &lanes_}) {
    for (Line& line : *lines) line.in_run = false;
  }
  if (gate == Gate::kOpen) open_gate();
  check_cuda(cuda_driver().wait_value(main_, address(gate_.as<uint64_t>()), runs_, CU_STREAM_WAIT_VALUE_GEQ),
             "close the gate");
  check_cuda(cudaEventRecord(began_, main_), "record an event");
  start_ = mark(main_);
}

void Rig::end() {
  for (std::vector<Line>* lines : {&computes_, &reduces_, &lanes_}) {
    for (const Line& line : *lines) {
      if (line.in_run) after(main_, record(line.stream));
    }
  }
  check_cuda(cudaEventRecord(ended_, main_), "record an event");
}

double Rig::pass(Gate gate, const Queue& queue) {
  try {
    begin(gate);
    queue();
    end();
  } catch (...) {
    open_gate();
    cudaDeviceSynchronize();
    throw;
  }
  open_gate();
  check_cuda(cudaEventSynchronize(ended_), "finish a run");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, began_, ended_), "read a time");
  return milliseconds * 1e3;
}

double copy_rate_gb_s(Rig& rig, CopyPath path) {
  constexpr uint64_t kBytes = 16 << 20;
  constexpr int kRounds = 4;
  const int num_ranks = rig.shape().size();
  const runtime::Buffer memory(rig.world().device(), 2 * kBytes * num_ranks);
  const auto queue = [&] {
    for (int rank = 0; rank < num_ranks; ++rank) {
      std::byte* const from = memory.as() + 2 * kBytes * rank;
      const CopyPiece piece{from + kBytes, from, kBytes};
      for (int i = 0; i < kRounds; ++i) copy_on_device(path, {&piece, 1}, rig.lane(Wire::kNvlink, 0, rank));
    }
  };
  rig.run(queue);
  return static_cast<double>(kBytes) * kRounds * num_ranks / rig.time_us(queue) * 1e-3;
}

}  // namespace mk::bench
