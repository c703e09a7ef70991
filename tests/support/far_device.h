// SPDX-License-Identifier: MIT
// tests/support/far_device.h — one rank of a world of processes whose windows are as a GPU's: every put goes through a
// Mover, and no window may be freed while another process has it mapped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/host_device.h"
#include "tests/support/host_mover.h"

namespace mk::test {

// What all ranks count together, in memory they share, from zero.
struct FarCounts {
  std::atomic<int> allocated, forgotten, mapped, freed_too_early, landings;
};

class FarDevice : public runtime::HostDevice {
 public:
  FarDevice(int rank, uint64_t seed, FarCounts& counts)
      : HostDevice({rank, 1}, Windows::kShared), seed_(seed), counts_(counts) {}

  runtime::WindowMemory allocate_window(size_t bytes) override {
    ++counts_.allocated;
    return with_end(HostDevice::allocate_window(bytes), [&counts = counts_] {
      if (counts.mapped > 0) ++counts.freed_too_early;
    });
  }
  runtime::WindowMemory open_window(const std::string& handle, size_t bytes) override {
    ++counts_.mapped;
    return with_end(HostDevice::open_window(handle, bytes), [&counts = counts_] { --counts.mapped; });
  }
  void forget_window(const std::string& handle) noexcept override {
    ++counts_.forgotten;
    HostDevice::forget_window(handle);
  }
  std::unique_ptr<Mover> make_mover(int) override { return std::make_unique<CountingMover>(seed_, counts_); }

 private:
  class CountingMover : public HostMover {
   public:
    CountingMover(uint64_t seed, FarCounts& counts) : HostMover(seed, {}), counts_(counts) {}
    void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal, uint64_t amount,
              uint64_t token) override {
      ++counts_.landings;
      HostMover::land(to_window, from_host, bytes, signal, amount, token);
    }

   private:
    FarCounts& counts_;
  };

  // `window`, and `end` before it goes.
  template <class End>
  static runtime::WindowMemory with_end(runtime::WindowMemory window, End end) {
    std::byte* const data = window.data.get();
    return {std::shared_ptr<std::byte>(data, [kept = std::move(window.data), end](std::byte*) { end(); }),
            window.handle};
  }

  uint64_t seed_;
  FarCounts& counts_;
};

}  // namespace mk::test
