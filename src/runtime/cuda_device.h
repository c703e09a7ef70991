// SPDX-License-Identifier: MIT
// runtime/cuda_device.h — ranks of this process on one Hopper GPU, a stream and an equal share of the SMs each.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <vector>

#include "runtime/device.h"
#include "runtime/members.h"

namespace mk::runtime {

class CudaDevice : public Device {
 public:
  // On the current GPU.
  CudaDevice(const Members& members, int sms_per_rank, Windows windows);
  ~CudaDevice() override;

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return describe_cuda(); }
  int seats_per_rank() const override { return sms_; }
  void* allocate(size_t bytes) override;
  void free(void* memory) noexcept override;
  void* allocate_shared(size_t bytes) override;
  void free_shared(void* memory) noexcept override;
  WindowMemory allocate_window(size_t bytes) override;
  WindowMemory open_window(const std::string& handle, size_t bytes) override;
  void forget_window(const std::string&) noexcept override {}  // a handle is of no use to who has no part in the World
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  std::chrono::microseconds proxy_patience() const override { return kLaunchGap; }
  std::unique_ptr<Fabric> make_loopback(const WindowRegistry& windows, int rank) override;
  std::unique_ptr<Mover> make_mover(int rank) override;
  void use(const std::function<void()>& body) override;
  Stream stream(int rank) override { return at(rank).stream; }
  void enter_default_stream(std::span<const int> ranks) override;
  void leave_default_stream(std::span<const int> ranks) override;
  void fork(Stream stream) override;
  void join(Stream stream) override;
  void synchronize() override;
  void span_begin(int rank) override { mark(rank); }
  void span_end(int rank) override { mark(rank); }
  std::vector<double> take_spans_us(int rank) override;

 private:
  struct Rank {
    cudaStream_t stream = nullptr;
    cudaEvent_t joined = nullptr;
    std::vector<cudaEvent_t> marks;
  };

  // Launches of one program follow each other within this.  A launch that finds a proxy asleep pays for a whole nap,
  // as much as a small launch takes; a proxy that nobody needs any more costs a core no longer than this.
  static constexpr std::chrono::milliseconds kLaunchGap{2};
  static constexpr int kLanes = 2;  // of two streams each, out and in; the ranks' fabrics or Movers share them

  Rank& at(int rank) { return ranks_[rank - first_]; }
  bool is_captured(int rank);
  void follow(int rank, cudaStream_t stream);  // `stream` waits for the rank's own
  void mark(int rank);
  void warm_up();
  void release() noexcept;

  int device_ = 0;  // wherever this is called from
  int first_;
  int sms_;  // of a rank
  Windows windows_;
  cudaEvent_t forked_ = nullptr;
  std::vector<Rank> ranks_;
  cudaStream_t lanes_[kLanes][2] = {};
};

}  // namespace mk::runtime
