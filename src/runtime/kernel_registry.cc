// SPDX-License-Identifier: MIT
// runtime/kernel_registry.cc — see kernel_registry.h.
#include "runtime/kernel_registry.h"

namespace mk::runtime {

void KernelRegistry::add(Load load) {
  const std::lock_guard lock(mutex_);
  loads_.push_back(std::move(load));
}

void KernelRegistry::load_all(int device) {
  const std::lock_guard lock(mutex_);
  for (size_t& done = num_done_[device]; done < loads_.size(); ++done) loads_[done]();
}

// Made on first use: loaders register before main, in no order.
KernelRegistry& KernelRegistry::of_process() {
  static KernelRegistry registry;
  return registry;
}

}  // namespace mk::runtime
