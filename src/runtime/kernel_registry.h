// SPDX-License-Identifier: MIT
// runtime/kernel_registry.h — every kernel of the program is loaded before the first launch of any.
//
// CUDA may load a kernel at its first launch and then wait, with its lock held, until the GPU is idle.  It never is
// while kernels wait for puts whose proxies wait for that lock.  So a source that holds kernels registers how they
// are loaded, and a World on a GPU loads what is registered.  A source that is not linked registers nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace mk::runtime {

class KernelRegistry {
 public:
  // Loads some kernels on the current device; throws Error if it cannot.
  using Load = std::function<void()>;

  void add(Load load);

  // Calls everything registered that has not succeeded on this device, which is the current one.
  void load_all(int device);

  static KernelRegistry& of_process();

 private:
  std::mutex mutex_;
  std::vector<Load> loads_;
  std::map<int, size_t> num_done_;  // by device: how many of loads_, from the first on
};

// Registers with the process.  An object of this type stands beside the kernels, in the same source.
struct KernelLoader {
  explicit KernelLoader(KernelRegistry::Load load) { KernelRegistry::of_process().add(std::move(load)); }
};

}  // namespace mk::runtime
