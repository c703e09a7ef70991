// SPDX-License-Identifier: MIT
// transport/loopback_cuda.cc — see loopback_cuda.h.
#include "transport/loopback_cuda.h"

#include <algorithm>
#include <utility>

#include "base/cuda_api.h"
#include "mkernel/error.h"
#include "transport/resolved_put.h"

namespace mk {
namespace {

constexpr size_t kMostInFlight = 512;
constexpr size_t kMostTogether = 32;
constexpr size_t kSlots = 8;
constexpr uint64_t kSlotBytes = 512 << 10;

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  return event;
}

}  // namespace

CudaLoopbackFabric::CudaLoopbackFabric(const WindowRegistry& windows, int rank, const Lane& lane)
    : windows_(windows), rank_(rank), lane_(lane), slots_(kSlots) {
  try {
    check_cuda(cudaGetDevice(&device_), "name the current device");
    check_cuda(cudaHostAlloc(&bounce_, kSlots * kSlotBytes, cudaHostAllocPortable), "allocate bounce buffers");
    for (size_t i = 0; i < kSlots; ++i) {
      slots_[i].memory = static_cast<std::byte*>(bounce_) + i * kSlotBytes;
      slots_[i].filled = make_event();
      slots_[i].emptied = make_event();
    }
  } catch (...) {
    release();
    throw;
  }
}

CudaLoopbackFabric::~CudaLoopbackFabric() {
  cudaStreamSynchronize(lane_.out);
  cudaStreamSynchronize(lane_.in);
  release();
}

void CudaLoopbackFabric::release() noexcept {
  for (const InFlight& batch : in_flight_) cudaEventDestroy(batch.landed);
  for (const cudaEvent_t event : idle_events_) cudaEventDestroy(event);
  for (const Slot& slot : slots_) {
    if (slot.filled != nullptr) cudaEventDestroy(slot.filled);
    if (slot.emptied != nullptr) cudaEventDestroy(slot.emptied);
  }
  cudaFreeHost(bounce_);
}

// Puts wait until none follows, until they are many, or until the next would not fit beside them.
PutResult CudaLoopbackFabric::put(const Command& command, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  if (num_in_flight_ >= kMostInFlight) return PutResult::kFull;
  try {
    join_device(device_);
    const ResolvedPut put = resolve(command, rank_, windows_);
    if (!put.valid()) throw Error(ErrorCode::kFabric, describe_bad_put(command, rank_));
    if (waiting_bytes_ + put.bytes > kSlotBytes) launch_waiting();
    waiting_.push_back({put, ticket});
    waiting_bytes_ += put.bytes;
    ++num_in_flight_;
    grows_ = true;
    if (waiting_.size() >= kMostTogether || waiting_bytes_ >= kSlotBytes) launch_waiting();
  } catch (const Error& error) {
    failure_ = error.what();
    return PutResult::kFailed;
  }
  return PutResult::kSent;
}

void CudaLoopbackFabric::launch_waiting() {
  if (waiting_.empty()) return;
  bounce();
  std::vector<uint64_t> tickets;
  for (const Waiting& one : waiting_) {
    pay(one.put);
    tickets.push_back(one.ticket);
  }
  write_signals();
  waiting_.clear();
  waiting_bytes_ = 0;
  in_flight_.push_back({idle_event(), std::move(tickets)});
  check_cuda(cudaEventRecord(in_flight_.back().landed, lane_.in), "record puts");
}

// Puts whose bytes follow each other at both ends are one copy.  They may land in any order.
std::vector<CopyPiece> CudaLoopbackFabric::neighbours_joined() const {
  std::vector<CopyPiece> sorted;
  for (const Waiting& one : waiting_) {
    if (one.put.bytes > 0) sorted.push_back({one.put.to, one.put.from, one.put.bytes});
  }
  std::ranges::sort(sorted, {}, &CopyPiece::to);
  std::vector<CopyPiece> pieces;
  for (const CopyPiece& piece : sorted) {
    if (!pieces.empty() && pieces.back().to + pieces.back().bytes == piece.to &&
        pieces.back().from + pieces.back().bytes == piece.from) {
      pieces.back().bytes += piece.bytes;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

// Between device and pinned host memory only the copy engines work.  A copy from device to device may be a
// kernel, and where every SM holds a kernel that waits for it, it never starts (seen with 2×1 ranks).
void CudaLoopbackFabric::bounce() {
  std::vector<CopyPiece> pieces;
  uint64_t filled = 0;
  const auto pass_on = [&] {
    if (pieces.empty()) return;
    pass_slot(slots_[next_slot_], pieces);
    next_slot_ = (next_slot_ + 1) % kSlots;
    pieces.clear();
    filled = 0;
  };
  for (const CopyPiece& whole : neighbours_joined()) {
    for (uint64_t at = 0; at < whole.bytes;) {
      const uint64_t bytes = std::min(kSlotBytes - filled, whole.bytes - at);
      pieces.push_back({whole.to + at, whole.from + at, bytes});
      at += bytes;
      filled += bytes;
      if (filled == kSlotBytes) pass_on();
    }
  }
  pass_on();
}

// Out into the slot once it was emptied, in from it once it is filled.
void CudaLoopbackFabric::pass_slot(Slot& slot, const std::vector<CopyPiece>& pieces) {
  check_cuda(cudaStreamWaitEvent(lane_.out, slot.emptied, 0), "wait for an empty slot");
  std::byte* memory = slot.memory;
  for (const CopyPiece& piece : pieces) {
    check_cuda(cudaMemcpyAsync(memory, piece.from, piece.bytes, cudaMemcpyDeviceToHost, lane_.out), "read for a put");
    memory += piece.bytes;
  }
  check_cuda(cudaEventRecord(slot.filled, lane_.out), "record a filled slot");
  check_cuda(cudaStreamWaitEvent(lane_.in, slot.filled, 0), "wait for a filled slot");
  memory = slot.memory;
  for (const CopyPiece& piece : pieces) {
    check_cuda(cudaMemcpyAsync(piece.to, memory, piece.bytes, cudaMemcpyHostToDevice, lane_.in), "write for a put");
    memory += piece.bytes;
  }
  check_cuda(cudaEventRecord(slot.emptied, lane_.in), "record an emptied slot");
}

void CudaLoopbackFabric::pay(const ResolvedPut& put) {
  uint64_t& total = totals_[put.signal];
  total = after_payment(total, put.pays);
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  write.writeValue.address = address(put.signal);
  write.writeValue.value64 = total;
  // With a memory barrier before it, after the copies; pairs with the peer's wait.
  write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  unwritten_.push_back(write);
}

void CudaLoopbackFabric::write_signals() {
  if (unwritten_.empty()) return;
  check_cuda(cuda_driver().memory_ops(lane_.in, static_cast<unsigned>(unwritten_.size()), unwritten_.data(), 0),
             "write signals");
  unwritten_.clear();
}

cudaEvent_t CudaLoopbackFabric::idle_event() {
  if (idle_events_.empty()) return make_event();
  const cudaEvent_t event = idle_events_.back();
  idle_events_.pop_back();
  return event;
}

PutResult CudaLoopbackFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  try {
    if (!std::exchange(grows_, false)) launch_waiting();
    while (!in_flight_.empty()) {
      InFlight& batch = in_flight_.front();
      const cudaError_t state = cudaEventQuery(batch.landed);
      if (state == cudaErrorNotReady) break;
      check_cuda(state, "finish puts");
      completed.insert(completed.end(), batch.tickets.begin(), batch.tickets.end());
      num_in_flight_ -= batch.tickets.size();
      idle_events_.push_back(batch.landed);
      in_flight_.pop_front();
    }
  } catch (const Error& error) {
    failure_ = error.what();
    return PutResult::kFailed;
  }
  return PutResult::kSent;
}

}  // namespace mk
