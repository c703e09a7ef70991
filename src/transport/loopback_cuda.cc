// SPDX-License-Identifier: MIT
// transport/loopback_cuda.cc — see loopback_cuda.h.
#include "transport/loopback_cuda.h"

#include <algorithm>

#include "base/cuda_api.h"
#include "mkernel/error.h"
#include "transport/resolved_put.h"

namespace mk {
namespace {

constexpr size_t kMostInFlight = 128;

// Once for the proxy's thread: use the World's device, and do not break a capture a user's thread has open.
void join_device(int device) {
  thread_local int joined = -1;
  if (joined == device) return;
  check_cuda(cudaSetDevice(device), "use the World's device in a proxy");
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "keep a proxy out of captures");
  joined = device;
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

constexpr uint64_t kBounceBytes = 1 << 20;

}  // namespace

CudaLoopbackFabric::CudaLoopbackFabric(const WindowRegistry& windows, int rank, cudaStream_t lane)
    : windows_(windows), rank_(rank), lane_(lane) {
  check_cuda(cudaGetDevice(&device_), "name the current device");
  check_cuda(cudaHostAlloc(&bounce_, kBounceBytes, cudaHostAllocPortable), "allocate a bounce buffer");
}

CudaLoopbackFabric::~CudaLoopbackFabric() {
  cudaStreamSynchronize(lane_);
  for (const InFlight& put : in_flight_) cudaEventDestroy(put.landed);
  for (const cudaEvent_t event : idle_events_) cudaEventDestroy(event);
  cudaFreeHost(bounce_);
}

PutResult CudaLoopbackFabric::put(const Command& command, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  if (in_flight_.size() >= kMostInFlight) return PutResult::kFull;
  try {
    issue(command, ticket);
  } catch (const Error& error) {
    failure_ = error.what();
    return PutResult::kFailed;
  }
  return PutResult::kSent;
}

void CudaLoopbackFabric::issue(const Command& command, uint64_t ticket) {
  join_device(device_);
  const ResolvedPut put = resolve(command, rank_, windows_);
  if (!put.valid()) throw Error(ErrorCode::kFabric, describe_bad_put(command, rank_));
  copy_beside_kernels(put);
  const uint64_t total = totals_[put.signal] += put.amount;
  // The write follows the copy with a memory barrier; pairs with the peer's wait.
  check_cuda(cuda_driver().write_value(lane_, address(put.signal), total, CU_STREAM_WRITE_VALUE_DEFAULT),
             "write a signal");
  cudaEvent_t landed = nullptr;
  if (idle_events_.empty()) {
    check_cuda(cudaEventCreateWithFlags(&landed, cudaEventDisableTiming), "create an event");
  } else {
    landed = idle_events_.back();
    idle_events_.pop_back();
  }
  in_flight_.push_back({landed, ticket});
  check_cuda(cudaEventRecord(landed, lane_), "record a put");
}

// Between device and pinned host memory only the copy engines work.  A copy from device to device may be a
// kernel, and where every SM holds a kernel that waits for it, it never starts (seen with 2×1 ranks).
void CudaLoopbackFabric::copy_beside_kernels(const ResolvedPut& put) {
  for (uint64_t at = 0; at < put.bytes; at += kBounceBytes) {
    const uint64_t bytes = std::min(kBounceBytes, put.bytes - at);
    check_cuda(cudaMemcpyAsync(bounce_, put.from + at, bytes, cudaMemcpyDeviceToHost, lane_), "read for a put");
    check_cuda(cudaMemcpyAsync(put.to + at, bounce_, bytes, cudaMemcpyHostToDevice, lane_), "write for a put");
  }
}

PutResult CudaLoopbackFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  while (!in_flight_.empty()) {
    const cudaError_t state = cudaEventQuery(in_flight_.front().landed);
    if (state == cudaErrorNotReady) break;
    if (state != cudaSuccess) {
      failure_ = cudaGetErrorString(state);
      return PutResult::kFailed;
    }
    completed.push_back(in_flight_.front().ticket);
    idle_events_.push_back(in_flight_.front().landed);
    in_flight_.pop_front();
  }
  return PutResult::kSent;
}

}  // namespace mk
