// SPDX-License-Identifier: MIT
// tests/support/far_device.h — one rank of a world of processes whose windows behave like a GPU's.
//
// NICs that cannot register them do not reach them; what NICs write shows late; and they must not be freed while
// another process has them mapped.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/host_device.h"
#include "tests/support/device_memory.h"
#include "tests/support/host_mover.h"
#include "transport/shared_file.h"

namespace mk::test {

// What all ranks count together, in memory they share, from zero.
struct FarCounts {
  std::atomic<int> allocated, forgotten, mapped, freed_too_early;
  std::atomic<int> pins, reads, landings, payments, settles;  // of Movers; payments: landings without bytes
};

struct FarSettings {
  bool has_dmabufs = false;  // hands them out
  bool is_settling = true;   // settles when it is told to
};

class FarDevice : public runtime::HostDevice {
 public:
  FarDevice(int rank, uint64_t seed, FarCounts& counts, const FarSettings& settings)
      : HostDevice({rank, 1}, Windows::kShared), seed_(seed), counts_(counts), settings_(settings) {}

  runtime::WindowMemory allocate_window(size_t bytes) override {
    ++counts_.allocated;
    runtime::WindowMemory window = HostDevice::allocate_window(bytes);
    const std::byte* const address = window.data.get();
    own_.add(address, SharedFile::open(window.handle));
    add_device_memory(address, bytes, window.data.get());
    return with_end(std::move(window), [this, address] {
      remove_device_memory(address);
      own_.remove(address);
      if (counts_.mapped > 0) ++counts_.freed_too_early;
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
  std::unique_ptr<Mover> make_mover(int) override { return std::make_unique<FarMover>(*this); }

 private:
  // By their addresses.  The thread that makes plans adds some while the proxy settles others.
  class OwnWindows {
   public:
    void add(const std::byte* address, Fd file) {
      const std::lock_guard lock(mutex_);
      files_[address] = std::move(file);
    }
    void remove(const std::byte* address) {
      const std::lock_guard lock(mutex_);
      files_.erase(address);
    }
    Fd dmabuf(const std::byte* address) {
      const std::lock_guard lock(mutex_);
      return Fd(fcntl(files_.at(address).number(), F_DUPFD_CLOEXEC, 0));
    }
    void settle() {
      const std::lock_guard lock(mutex_);
      for (const auto& [address, file] : files_) settle_device_memory(address);
    }

   private:
    std::mutex mutex_;
    std::map<const std::byte*, Fd> files_;
  };

  class FarMover : public HostMover {
   public:
    explicit FarMover(FarDevice& device) : HostMover(device.seed_, {}), device_(device) {}
    void pin(std::byte* memory, size_t bytes) override {
      ++device_.counts_.pins;
      HostMover::pin(memory, bytes);
    }
    void read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) override {
      ++device_.counts_.reads;
      HostMover::read(to_host, from_window, bytes, token);
    }
    void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal,
              const Payment& payment, uint64_t token) override {
      ++(bytes == 0 ? device_.counts_.payments : device_.counts_.landings);
      HostMover::land(to_window, from_host, bytes, signal, payment, token);
    }
    GpuMemory find(const std::byte* window, uint64_t) override {
      return {device_.settings_.has_dmabufs ? device_.own_.dmabuf(window) : Fd(), 0};
    }
    void settle() override {
      ++device_.counts_.settles;
      if (device_.settings_.is_settling) device_.own_.settle();
    }

   private:
    FarDevice& device_;
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
  FarSettings settings_;
  OwnWindows own_;
};

}  // namespace mk::test
