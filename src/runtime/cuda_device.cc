// SPDX-License-Identifier: MIT
// runtime/cuda_device.cc — see cuda_device.h.
//
// Kernels of different ranks wait for each other and for the fabric, so all must run at once: all blocks
// together must fit on the SMs, one per SM, and every stream should have a hardware queue of its own, or
// what is behind a waiting kernel in its queue may never start.  Some queues stay free for the fabrics
// and for the caller.
#include "runtime/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/cuda_api.h"
#include "base/hex.h"
#include "base/math.h"
#include "runtime/cuda_ipc.h"
#include "runtime/environment.h"
#include "runtime/kernel_registry.h"
#include "transport/loopback_cuda.h"
#include "transport/mover_cuda.h"

namespace mk::runtime {
namespace {

constexpr int kMostQueues = 32;   // the most CUDA_DEVICE_MAX_CONNECTIONS takes
constexpr int kSpareQueues = 8;   // for the fabrics' lanes, the default stream and the caller's own
constexpr int kQueuesOfOne = 16;  // of a process with one rank: the clients of MPS divide what queues there are
constexpr const char* kQueuesVariable = "CUDA_DEVICE_MAX_CONNECTIONS";

// CUDA reads it when it makes its context, so this comes before the first call that may.
void prepare_environment(int num_queues = kMostQueues) {
  setenv(kQueuesVariable, std::to_string(num_queues).c_str(), 0);
}

void check_queues(int num_ranks) {
  const int allowed = std::atoi(environment(kQueuesVariable).value_or("0").c_str());
  check_arg(allowed >= num_ranks + kSpareQueues, "{} is {}; {} ranks need at least {}", kQueuesVariable, allowed,
            num_ranks, num_ranks + kSpareQueues);
}

bool is_usable(const cudaDeviceProp& properties) { return properties.major == 9 && properties.minor == 0; }

bool find_gpu(cudaDeviceProp& properties) {
  prepare_environment();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    cudaGetLastError();
    return false;
  }
  int device = 0;
  check_cuda(cudaGetDevice(&device), "name the current device");
  check_cuda(cudaGetDeviceProperties(&properties, device), "read the device's properties");
  return true;
}

void load_kernels() {
  cuda_driver();  // throws here if the driver is too old: later calls cannot
  int device = 0;
  check_cuda(cudaGetDevice(&device), "name the current device");
  KernelRegistry::of_process().load_all(device);
}

cudaStream_t as_stream(Stream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

std::string why_no_cuda() {
  cudaDeviceProp properties{};
  if (!find_gpu(properties)) return "no NVIDIA GPU (or no driver) on this machine";
  if (is_usable(properties)) return {};
  return fmt::format("{} has compute capability {}.{}; a Hopper GPU (9.0) is needed", properties.name, properties.major,
                     properties.minor);
}

std::string describe_cuda() {
  cudaDeviceProp properties{};
  if (!find_gpu(properties)) return {};
  return fmt::format("{} ({} SMs)", properties.name, properties.multiProcessorCount);
}

std::string describe_cuda_build() {
  return fmt::format("CUDA {}.{} for sm_90a", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

std::unique_ptr<Device> make_cuda_device(int num_ranks) {
  const std::string missing = why_no_cuda();
  if (!missing.empty()) throw Error(ErrorCode::kUnavailable, missing);
  cudaDeviceProp properties{};
  find_gpu(properties);
  constexpr int kFewestSms = 2;  // of a rank: one computes, one communicates
  const int most = std::min(kMostQueues - kSpareQueues, properties.multiProcessorCount / kFewestSms);
  check_arg(num_ranks <= most, "nodes x ranks is {}; one {} holds at most {} ranks", num_ranks, properties.name, most);
  check_queues(num_ranks);
  load_kernels();
  return std::make_unique<CudaDevice>(Members{0, num_ranks}, properties.multiProcessorCount / num_ranks,
                                      Device::Windows::kPrivate);
}

std::vector<Gpu> usable_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<Gpu> gpus;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, number), "read a device's properties");
    const std::string id = to_hex(std::as_bytes(std::span(properties.uuid.bytes)));
    if (is_usable(properties)) gpus.push_back({number, id, properties.multiProcessorCount});
  }
  return gpus;
}

std::unique_ptr<Device> make_cuda_device(const GpuSeat& seat) {
  prepare_environment(kQueuesOfOne);
  check_queues(1);
  check_cuda(cudaSetDevice(seat.gpu), "use the rank's GPU");
  load_kernels();
  return std::make_unique<CudaDevice>(Members{seat.rank, 1}, seat.sms, Device::Windows::kShared);
}

CudaDevice::CudaDevice(const Members& members, int sms_per_rank, Windows windows)
    : first_(members.first), sms_(sms_per_rank), windows_(windows), ranks_(members.count) {
  try {
    check_cuda(cudaGetDevice(&device_), "name the current device");
    check_cuda(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming), "create an event");
    for (Rank& rank : ranks_) {
      check_cuda(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "create a stream");
      check_cuda(cudaEventCreateWithFlags(&rank.joined, cudaEventDisableTiming), "create an event");
    }
    for (auto& lane : lanes_) {
      for (cudaStream_t& stream : lane) {
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
      }
    }
    warm_up();
  } catch (...) {
    release();
    throw;
  }
}

// A stream's first work may wait for an idle GPU, which there is not while other ranks' kernels wait for this one.
void CudaDevice::warm_up() {
  const Buffer word(*this, sizeof(uint64_t));
  for (const Rank& rank : ranks_) {
    check_cuda(cudaMemsetAsync(word.as(), 0, word.bytes(), rank.stream), "begin a stream");
    check_cuda(cudaStreamSynchronize(rank.stream), "begin a stream");
  }
}

CudaDevice::~CudaDevice() { release(); }

void CudaDevice::release() noexcept {
  const OnDevice here(device_);
  for (Rank& rank : ranks_) {
    for (const cudaEvent_t event : rank.marks) cudaEventDestroy(event);
    if (rank.joined != nullptr) cudaEventDestroy(rank.joined);
    if (rank.stream != nullptr) cudaStreamDestroy(rank.stream);
  }
  for (const auto& lane : lanes_) {
    for (const cudaStream_t stream : lane) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }
  if (forked_ != nullptr) cudaEventDestroy(forked_);
}

void* CudaDevice::allocate(size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  const cudaError_t result = cudaMalloc(&memory, at_least_one);
  if (result == cudaErrorStreamCaptureUnsupported) {
    cudaGetLastError();
    throw Error(ErrorCode::kDevice, "a shape's first call allocates its workspace: make it once before the capture");
  }
  check_cuda(result, fmt::format("allocate {} bytes", bytes).c_str());
  check_cuda(cudaMemset(memory, 0, at_least_one), "zero new memory");
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "wait for zeroed memory");
  return memory;
}

void CudaDevice::free(void* memory) noexcept {
  const OnDevice here(device_);
  cudaFree(memory);
}

void* CudaDevice::allocate_shared(size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  const size_t at_least_one = std::max<size_t>(bytes, 1);
  check_cuda(cudaHostAlloc(&memory, at_least_one, cudaHostAllocPortable | cudaHostAllocMapped),
             fmt::format("allocate {} bytes of pinned memory", bytes).c_str());
  std::memset(memory, 0, at_least_one);
  return memory;
}

void CudaDevice::free_shared(void* memory) noexcept {
  const OnDevice here(device_);
  cudaFreeHost(memory);
}

WindowMemory CudaDevice::allocate_window(size_t bytes) {
  const OnDevice here(device_);
  if (windows_ == Windows::kPrivate) return private_window(*this, bytes);
  WindowMemory window = private_window(*this, round_up(std::max<size_t>(bytes, 1), kIpcGrain));
  window.handle = ipc_handle(window.data.get());
  return window;
}

// Launches first: if the driver wants an idle GPU to map memory, proxies would wait for the driver, and launches for
// them.
WindowMemory CudaDevice::open_window(const std::string& handle, size_t) {
  synchronize();
  const OnDevice here(device_);
  return {open_ipc(handle), handle};
}

void CudaDevice::upload(void* to, const void* from, size_t bytes) {
  const OnDevice here(device_);
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
  // It may return before the last bytes are there, and streams of ranks do not wait for the legacy stream.
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "wait for a copy to the device");
}

void CudaDevice::download(void* to, const void* from, size_t bytes) {
  const OnDevice here(device_);
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

std::unique_ptr<Fabric> CudaDevice::make_loopback(const WindowRegistry& windows, int rank) {
  const auto* const lane = lanes_[rank % kLanes];
  return std::make_unique<CudaLoopbackFabric>(windows, rank, CudaLoopbackFabric::Lane{lane[0], lane[1]});
}

std::unique_ptr<Mover> CudaDevice::make_mover(int rank) {
  const auto* const lane = lanes_[rank % kLanes];
  return std::make_unique<CudaMover>(CudaMover::Lane{lane[0], lane[1]});
}

void CudaDevice::use(const std::function<void()>& body) {
  const OnDevice here(device_);
  body();
}

void CudaDevice::fork(Stream stream) {
  const OnDevice here(device_);
  check_cuda(cudaEventRecord(forked_, as_stream(stream)), "record a fork");
  for (const Rank& rank : ranks_) check_cuda(cudaStreamWaitEvent(rank.stream, forked_, 0), "wait for a fork");
}

void CudaDevice::join(Stream stream) {
  const OnDevice here(device_);
  for (size_t i = 0; i < ranks_.size(); ++i) follow(first_ + static_cast<int>(i), as_stream(stream));
}

void CudaDevice::follow(int rank, cudaStream_t stream) {
  check_cuda(cudaEventRecord(at(rank).joined, at(rank).stream), "record a join");
  check_cuda(cudaStreamWaitEvent(stream, at(rank).joined, 0), "wait for a join");
}

bool CudaDevice::is_captured(int rank) {
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(at(rank).stream, &status), "ask whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

void CudaDevice::enter_default_stream(std::span<const int> ranks) {
  bool is_recorded = false;
  for (const int rank : ranks) {
    if (is_captured(rank)) continue;
    if (!std::exchange(is_recorded, true)) {
      check_cuda(cudaEventRecord(forked_, cudaStreamLegacy), "record the default stream");
    }
    check_cuda(cudaStreamWaitEvent(at(rank).stream, forked_, 0), "wait for the default stream");
  }
}

void CudaDevice::leave_default_stream(std::span<const int> ranks) {
  for (const int rank : ranks) {
    if (!is_captured(rank)) follow(rank, cudaStreamLegacy);
  }
}

void CudaDevice::synchronize() {
  const OnDevice here(device_);
  check_cuda(cudaDeviceSynchronize(), "finish the launches");
}

void CudaDevice::mark(int rank) {
  const OnDevice here(device_);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "create an event");
  at(rank).marks.push_back(event);
  check_cuda(cudaEventRecord(event, at(rank).stream), "record an event");
}

std::vector<double> CudaDevice::take_spans_us(int rank) {
  const OnDevice here(device_);
  std::vector<double> spans;
  std::vector<cudaEvent_t>& marks = at(rank).marks;
  for (size_t i = 0; i + 1 < marks.size(); i += 2) {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, marks[i], marks[i + 1]), "read a time");
    spans.push_back(milliseconds * 1e3);
  }
  for (const cudaEvent_t event : marks) cudaEventDestroy(event);
  marks.clear();
  return spans;
}

}  // namespace mk::runtime
