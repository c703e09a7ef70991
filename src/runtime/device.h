// SPDX-License-Identifier: MIT
// runtime/device.h — what a World needs of the machine its ranks run on: memory, queues, a loopback.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/roles.h"
#include "mkernel/types.h"
#include "transport/fabric.h"
#include "transport/mover.h"
#include "transport/window_registry.h"

namespace mk::runtime {

// A rank's part of a window, and what another process of its node needs to map it (empty: none can).
struct WindowMemory {
  std::shared_ptr<std::byte> data;
  std::string handle;
};

// CUDA's default stream, by either of its names: the null handle, and cudaStreamLegacy.
inline bool is_default(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

class Device {
 public:
  enum class Windows { kPrivate, kShared };  // with other processes

  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;
  virtual int seats_per_rank() const = 0;  // CPU threads, or SMs

  // Zeroed.  `allocate` is for workers; `allocate_shared` is seen by workers and host alike.
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  virtual void* allocate_shared(size_t bytes) = 0;
  virtual void free_shared(void* memory) noexcept = 0;
  // Zeroed, for workers; `open_window` maps what another process has allocated.  After `forget_window` nobody opens the
  // window of that handle any more; it was allocated here, and stays.
  virtual WindowMemory allocate_window(size_t bytes) = 0;
  virtual WindowMemory open_window(const std::string& handle, size_t bytes) = 0;
  virtual void forget_window(const std::string& handle) noexcept = 0;
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const void* from, size_t bytes) = 0;

  // How long a proxy should stay awake since something moved, if there are cores for it.
  virtual std::chrono::microseconds proxy_patience() const = 0;
  virtual std::unique_ptr<Fabric> make_loopback(const WindowRegistry& windows, int rank) = 0;
  // What carries bytes between the windows of a rank and a fabric that cannot reach them; null: every fabric can.
  virtual std::unique_ptr<Mover> make_mover(int rank) = 0;

  // Calls body() with the device current in the calling thread, whatever was current before and is again after.
  virtual void use(const std::function<void()>& body) { body(); }

  // Launches of a rank run in the order they were queued; synchronize waits for those of all ranks.
  virtual Stream stream(int rank) = 0;
  // Between these two, launches on the own streams of `ranks` take their place in the order of CUDA's default stream:
  // they come after what it holds, and what it gets later comes after them.  A stream that is being captured stays as
  // it is, because the default stream cannot be captured: whoever captures has forked it.
  virtual void enter_default_stream(std::span<const int>) {}
  virtual void leave_default_stream(std::span<const int>) {}
  virtual void fork(Stream stream) = 0;
  virtual void join(Stream stream) = 0;
  virtual void synchronize() = 0;

  // Time between two points in a rank's queue; read after synchronize, in the order they were queued.
  virtual void span_begin(int rank) = 0;
  virtual void span_end(int rank) = 0;
  virtual std::vector<double> take_spans_us(int rank) = 0;
};

// Memory of a Device, freed with the object.
class Buffer {
 public:
  enum class Kind { kWorkers, kShared };

  Buffer() = default;
  Buffer(Device& device, size_t bytes, Kind kind = Kind::kWorkers)
      : device_(&device),
        kind_(kind),
        bytes_(bytes),
        data_(kind == Kind::kShared ? device.allocate_shared(bytes) : device.allocate(bytes)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ == nullptr) return;
    if (kind_ == Kind::kShared) {
      device_->free_shared(data_);
    } else {
      device_->free(data_);
    }
  }

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
  }
  Device* device_ = nullptr;
  Kind kind_ = Kind::kWorkers;
  size_t bytes_ = 0;
  void* data_ = nullptr;
};

// A window that only this process sees.
inline WindowMemory private_window(Device& device, size_t bytes) {
  auto buffer = std::make_shared<Buffer>(device, bytes);
  return {std::shared_ptr<std::byte>(buffer, buffer->as()), {}};
}

// A GPU that this process sees and a World can run on.
struct Gpu {
  int number = 0;  // CUDA's
  std::string id;  // the same in all processes that see it, and no other's
  int sms = 0;
};

// One rank of a world of processes on its GPU, which others may share.
struct GpuSeat {
  int rank = 0;
  int gpu = 0;  // CUDA's number
  int sms = 0;  // of this rank
};

// All ranks of a World on the current GPU.  Throws Error(kUnavailable) with the reason and the remedy if there is none.
std::unique_ptr<Device> make_cuda_device(int num_ranks);

// Makes the seat's GPU the calling thread's current one.  Throws Error.
std::unique_ptr<Device> make_cuda_device(const GpuSeat& seat);

// In CUDA's order; makes no context.
std::vector<Gpu> usable_gpus();

// Empty if a World can run on a GPU here, else why not.
std::string why_no_cuda();

// Name and SM count of the GPU; empty if none.
std::string describe_cuda();

// "CUDA 13.0 for sm_90a", or "off".
std::string describe_cuda_build();

}  // namespace mk::runtime
