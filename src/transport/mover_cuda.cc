// SPDX-License-Identifier: MIT
// transport/mover_cuda.cc — see mover_cuda.h.
//
// Between device and pinned host memory only the copy engines work: no copy here needs an SM, and every SM may hold a
// kernel that waits for it.
#include "transport/mover_cuda.h"

#include <fmt/format.h>

#include <utility>

#include "mkernel/error.h"

namespace mk {
namespace {

constexpr size_t kFirstEvents = 64;  // made before anything runs; more if ever needed
constexpr size_t kMostWrites = 32;   // of signals at once; a call takes up to 256

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  return event;
}

CUstreamBatchMemOpParams write_of(const uint64_t* to, uint64_t value) {
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  write.writeValue.address = reinterpret_cast<CUdeviceptr>(to);
  write.writeValue.value64 = value;
  // With a memory barrier before it, after the copies; pairs with the wait of the rank's workers.
  write.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return write;
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "read what the device says of writes by NICs");
  return value;
}

}  // namespace

CudaMover::CudaMover(const Lane& lane) {
  out_.stream = lane.out;
  in_.stream = lane.in;
  try {
    check_cuda(cudaGetDevice(&device_), "name the current device");
    look_at_device();
    for (size_t i = 0; i < kFirstEvents; ++i) idle_events_.push_back(make_event());
    warm_up();
  } catch (...) {
    release();
    throw;
  }
}

CudaMover::~CudaMover() {
  cudaStreamSynchronize(out_.stream);
  cudaStreamSynchronize(in_.stream);
  release();
}

void CudaMover::release() noexcept {
  for (const Direction* direction : {&out_, &in_}) {
    for (const Batch& batch : direction->under_way) cudaEventDestroy(batch.done);
  }
  for (const cudaEvent_t event : idle_events_) cudaEventDestroy(event);
}

// A stream's first work of a kind may wait for an idle GPU, which there is not while kernels wait for this Mover.
void CudaMover::warm_up() {
  void* on_device = nullptr;
  void* on_host = nullptr;
  const auto begin = [&] {
    check_cuda(cudaMalloc(&on_device, sizeof(uint64_t)), "allocate a word");
    check_cuda(cudaHostAlloc(&on_host, sizeof(uint64_t), cudaHostAllocPortable), "allocate a pinned word");
    check_cuda(cudaMemcpyAsync(on_host, on_device, sizeof(uint64_t), cudaMemcpyDeviceToHost, out_.stream),
               "begin to read windows");
    check_cuda(cudaStreamSynchronize(out_.stream), "begin to read windows");
    check_cuda(cudaMemcpyAsync(on_device, on_host, sizeof(uint64_t), cudaMemcpyHostToDevice, in_.stream),
               "begin to write windows");
    unwritten_.push_back(write_of(static_cast<uint64_t*>(on_device), 0));
    write_signals();
    check_cuda(cudaStreamSynchronize(in_.stream), "begin to write windows");
    if (nic_writes_ == NicWrites::kFlushed) settle();
  };
  try {
    begin();
  } catch (...) {
    cudaFree(on_device);
    cudaFreeHost(on_host);
    throw;
  }
  cudaFree(on_device);
  cudaFreeHost(on_host);
}

void CudaMover::pin(std::byte* memory, size_t bytes) {
  check_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
             fmt::format("pin {} bytes of host memory between windows and a fabric", bytes).c_str());
}

// Of what went wrong, copies may still be under way.
void CudaMover::unpin(std::byte* memory) noexcept {
  for (const cudaStream_t stream : {out_.stream, in_.stream}) {
    if (cudaStreamSynchronize(stream) != cudaSuccess) cudaGetLastError();
  }
  if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();
}

void CudaMover::read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) {
  join_device(device_);
  if (bytes > 0) {
    check_cuda(cudaMemcpyAsync(to_host, from_window, bytes, cudaMemcpyDeviceToHost, out_.stream), "read a window");
  }
  out_.asked.push_back(token);
}

void CudaMover::land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal,
                     const Payment& payment, uint64_t token) {
  join_device(device_);
  if (bytes > 0) {
    check_cuda(cudaMemcpyAsync(to_window, from_host, bytes, cudaMemcpyHostToDevice, in_.stream), "write a window");
  }
  if (signal != nullptr) pay(signal, payment);
  in_.asked.push_back(token);
}

void CudaMover::pay(uint64_t* signal, const Payment& payment) {
  uint64_t& total = totals_[signal];
  total = after_payment(total, payment);
  unwritten_.push_back(write_of(signal, total));
  if (unwritten_.size() >= kMostWrites) write_signals();
}

// Behind the copies of all landings whose signals they are.
void CudaMover::write_signals() {
  if (unwritten_.empty()) return;
  check_cuda(cuda_driver().memory_ops(in_.stream, static_cast<unsigned>(unwritten_.size()), unwritten_.data(), 0),
             "write signals");
  unwritten_.clear();
}

void CudaMover::poll(std::vector<uint64_t>& done) {
  join_device(device_);
  write_signals();
  for (Direction* direction : {&out_, &in_}) {
    begin_batch(*direction);
    collect(*direction, done);
  }
}

void CudaMover::begin_batch(Direction& direction) {
  if (direction.asked.empty()) return;
  const cudaEvent_t event = idle_event();
  direction.under_way.push_back({event, {}});  // no tokens: it says nothing if it is not recorded
  check_cuda(cudaEventRecord(event, direction.stream), "record copies");
  direction.under_way.back().tokens = std::exchange(direction.asked, {});
}

void CudaMover::collect(Direction& direction, std::vector<uint64_t>& done) {
  while (!direction.under_way.empty()) {
    const Batch& first = direction.under_way.front();
    const cudaError_t state = cudaEventQuery(first.done);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // not an error of anybody's
      return;
    }
    check_cuda(state, "finish copies");
    done.insert(done.end(), first.tokens.begin(), first.tokens.end());
    idle_events_.push_back(first.done);
    direction.under_way.pop_front();
  }
}

cudaEvent_t CudaMover::idle_event() {
  if (idle_events_.empty()) return make_event();
  const cudaEvent_t event = idle_events_.back();
  idle_events_.pop_back();
  return event;
}

// A completion says that the bytes have reached the GPU's door: a kernel that runs may still read what was there
// before. Natively ordered are the writes that the owner's SMs see, or those that all GPUs see.  The second is needed:
// peers of the node read over NVLink what has landed here, and learn of it by a signal that this rank's workers pass
// on.
void CudaMover::look_at_device() {
  const int ordering = attribute_of(device_, cudaDevAttrGPUDirectRDMAWritesOrdering);
  const int flushes = attribute_of(device_, cudaDevAttrGPUDirectRDMAFlushWritesOptions);
  if (ordering >= cudaGPUDirectRDMAWritesOrderingAllDevices) {
    nic_writes_ = NicWrites::kOrdered;
  } else if ((flushes & cudaFlushGPUDirectRDMAWritesOptionHost) != 0) {
    nic_writes_ = NicWrites::kFlushed;
  }
}

std::string CudaMover::why_not_settled() const {
  if (nic_writes_ != NicWrites::kUnknown) return "";
  return "CUDA neither orders what NICs write into this GPU nor can wait for it";
}

void CudaMover::settle() {
  if (nic_writes_ == NicWrites::kOrdered) return;
  join_device(device_);
  check_cuda(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                cudaFlushGPUDirectRDMAWritesToAllDevices),
             "wait for what NICs have written");
}

GpuMemory CudaMover::find(const std::byte* window, uint64_t bytes) {
  const OnDevice here(device_);
  return find_gpu_memory(window, bytes);
}

}  // namespace mk
