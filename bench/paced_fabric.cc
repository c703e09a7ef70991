// SPDX-License-Identifier: MIT
// bench/paced_fabric.cc — see paced_fabric.h.
#include "bench/paced_fabric.h"

#include <utility>

#include "base/cuda_api.h"
#include "bench/host_clock.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

constexpr size_t kMostScheduled = 512;

// How long before its turn a put's copy is queued.  A NIC's queue does not start late; without a limit one
// rank's puts would fill a lane that others share.
constexpr uint64_t kAheadNs = 400'000;

}  // namespace

Bell::Bell() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream"); }
Bell::~Bell() { cudaStreamDestroy(stream_); }

PacedFabric::PacedFabric(std::unique_ptr<CudaLoopbackFabric> inner, double ns_per_byte, cudaStream_t bell)
    : inner_(std::move(inner)), link_(ns_per_byte), bell_(bell) {}

PutResult PacedFabric::put(const Command& command, uint64_t ticket) {
  if (waiting_.size() + passed_on_.size() >= kMostScheduled) return PutResult::kFull;
  const uint64_t now = host_now_ns();
  const Reservation turn = link_.carry(now, command.bytes);
  waiting_.push_back({command, ticket, turn.begin, turn.end + kNetworkLatencyNs});
  return pass_on(now) == PutResult::kFailed ? PutResult::kFailed : PutResult::kSent;
}

PutResult PacedFabric::pass_on(uint64_t now) {
  while (!waiting_.empty() && waiting_.front().leaves <= now + kAheadNs) {
    const PutResult result = inner_->put_bytes(waiting_.front().command, waiting_.front().ticket);
    if (result != PutResult::kSent) return result;
    passed_on_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return PutResult::kSent;
}

PutResult PacedFabric::poll(std::vector<uint64_t>& completed) {
  const uint64_t now = host_now_ns();
  if (pass_on(now) == PutResult::kFailed) return PutResult::kFailed;
  landed_.clear();
  if (inner_->poll(landed_) == PutResult::kFailed) return PutResult::kFailed;
  num_landed_ += landed_.size();
  std::vector<Command> due;
  for (; num_landed_ > 0 && passed_on_.front().due <= now; --num_landed_) {
    due.push_back(passed_on_.front().command);
    completed.push_back(passed_on_.front().ticket);
    passed_on_.pop_front();
  }
  return inner_->tell(due, bell_);
}

runtime::FabricHook fabric_hook(double ns_per_byte, PutPath path, const Bell& bell) {
  return [ns_per_byte, path, stream = bell.stream()](std::unique_ptr<Fabric> fabric, int) -> std::unique_ptr<Fabric> {
    auto* const loopback = dynamic_cast<CudaLoopbackFabric*>(fabric.get());
    if (loopback == nullptr) throw Error(ErrorCode::kUnavailable, "only the loopback of a GPU can be paced");
    if (path == PutPath::kEngine) loopback->copy_directly();
    if (ns_per_byte == 0) return fabric;
    fabric.release();
    return std::make_unique<PacedFabric>(std::unique_ptr<CudaLoopbackFabric>(loopback), ns_per_byte, stream);
  };
}

}  // namespace mk::bench
