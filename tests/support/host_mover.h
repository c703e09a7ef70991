// SPDX-License-Identifier: MIT
// tests/support/host_mover.h — a Mover over memory that nobody else can touch, and that is late.
//
// The registry holds addresses without memory (FarMemory): a fabric that takes a GPU's window for its own and reads or
// writes there crashes.  Only a HostMover knows where the bytes are, and a NIC that it lets find them; what that NIC
// writes shows only after the Mover has settled it.  The Mover does what it was asked some polls later, reads and
// landings each in order, and reports it still later; until then it spoils the bytes that nobody may look at.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mkernel/error.h"
#include "tests/support/device_memory.h"
#include "transport/host_payment.h"
#include "transport/mover.h"
#include "transport/shared_file.h"

namespace mk::test {

// Addresses that stand for `bytes` at `real`, which others map by the handle.
class FarMemory {
 public:
  FarMemory(std::byte* real, uint64_t bytes, std::string handle = {})
      : real_(real), bytes_(bytes), handle_(std::move(handle)) {
    memory_ = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    add_device_memory(data(), bytes_, real_);
  }
  FarMemory(const FarMemory&) = delete;
  ~FarMemory() {
    remove_device_memory(data());
    munmap(memory_, bytes_);
  }

  std::byte* data() const { return static_cast<std::byte*>(memory_); }

  // None without a handle.
  Fd dmabuf() const { return handle_.empty() ? Fd() : SharedFile::open(handle_); }

  // Null if the range is not inside.
  std::byte* real(const std::byte* far, uint64_t bytes) const {
    const auto offset = reinterpret_cast<uintptr_t>(far) - reinterpret_cast<uintptr_t>(memory_);
    return offset <= bytes_ && bytes <= bytes_ - offset ? real_ + offset : nullptr;
  }

 private:
  std::byte* real_;
  uint64_t bytes_;
  std::string handle_;
  void* memory_;
};

class HostMover : public Mover {
 public:
  // `windows`: a rank's; they outlive it.  None: windows are memory as any other.
  HostMover(uint64_t seed, std::vector<const FarMemory*> windows) : random_(seed), windows_(std::move(windows)) {}
  ~HostMover() override { EXPECT_TRUE(pinned_.empty()) << "host memory is still pinned"; }

  // From the poll after so many on it is broken.
  void fail_after(int num_polls, std::string reason) {
    polls_left_ = num_polls;
    reason_ = std::move(reason);
  }

  // Whether copies are under way.
  bool is_busy() const { return !reads_.empty() || !landings_.empty(); }

  // What was asked of it since the beginning.
  struct Counts {
    int pins = 0, reads = 0, landings = 0, payments = 0, settles = 0;  // payments: landings without bytes
  };
  const Counts& counts() const { return counts_; }

  void pin(std::byte* memory, size_t bytes) override {
    ++counts_.pins;
    pinned_[memory] = bytes;
  }
  void unpin(std::byte* memory) noexcept override {
    EXPECT_TRUE(polls_left_ == 0 || !is_busy()) << "copies are under way from or to what is unpinned";
    pinned_.erase(memory);
  }

  void read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) override {
    ++counts_.reads;
    check_pinned(to_host, bytes);
    spoil(to_host, bytes);
    reads_.push_back({to_host, real(from_window, bytes), bytes, nullptr, {}, token});
  }

  void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal, const Payment& payment,
            uint64_t token) override {
    ++(bytes == 0 ? counts_.payments : counts_.landings);
    if (bytes > 0) check_pinned(from_host, bytes);
    auto* const real_signal = reinterpret_cast<uint64_t*>(
        signal == nullptr ? nullptr : real(reinterpret_cast<std::byte*>(signal), sizeof(uint64_t)));
    landings_.push_back({bytes == 0 ? nullptr : real(to_window, bytes), from_host, bytes, real_signal, payment, token});
  }

  void poll(std::vector<uint64_t>& done) override {
    if (polls_left_ == 0) throw Error(ErrorCode::kDevice, reason_);
    if (polls_left_ > 0) --polls_left_;
    done.insert(done.end(), untold_.begin(), untold_.end());
    untold_.clear();
    while (!reads_.empty() && random_() % 4 != 0) finish(reads_);
    while (!landings_.empty() && random_() % 4 != 0) {
      const Copy& copy = landings_.front();
      std::byte* const from = const_cast<std::byte*>(copy.from);
      const uint64_t bytes = copy.bytes;
      finish(landings_);
      spoil(from, bytes);  // its token is not back: nobody may need it or have written there
    }
  }

  GpuMemory find(const std::byte* window, uint64_t bytes) override {
    for (const FarMemory* far : windows_) {
      if (far->real(window, bytes) != nullptr) return {far->dmabuf(), static_cast<uint64_t>(window - far->data())};
    }
    return {};
  }
  void settle() override {
    ++counts_.settles;
    for (const FarMemory* far : windows_) settle_device_memory(far->data());
  }
  std::string why_not_settled() const override { return ""; }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint64_t bytes;
    uint64_t* signal;
    Payment pays;
    uint64_t token;
  };

  void finish(std::deque<Copy>& copies) {
    const Copy& copy = copies.front();
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    if (copy.signal != nullptr) pay_release(copy.signal, copy.pays);  // pairs with the rank's waits
    untold_.push_back(copy.token);
    copies.pop_front();
  }

  static void spoil(std::byte* host, uint64_t bytes) {
    if (bytes > 0) std::memset(host, 0xdd, bytes);
  }

  std::byte* real(const std::byte* far, uint64_t bytes) const {
    if (windows_.empty()) return const_cast<std::byte*>(far);
    for (const FarMemory* window : windows_) {
      if (std::byte* const found = window->real(far, bytes)) return found;
    }
    throw Error(ErrorCode::kDevice, "a copy from or to what is no window");
  }

  void check_pinned(const std::byte* host, uint64_t bytes) const {
    const auto next = pinned_.upper_bound(const_cast<std::byte*>(host));
    if (next != pinned_.begin()) {
      const auto& [begin, size] = *std::prev(next);
      if (host + bytes <= begin + size) return;
    }
    throw Error(ErrorCode::kDevice, "a copy from or to host memory that is not pinned");
  }

  std::mt19937_64 random_;
  std::vector<const FarMemory*> windows_;
  std::map<std::byte*, size_t> pinned_;
  Counts counts_;
  std::deque<Copy> reads_;
  std::deque<Copy> landings_;
  std::vector<uint64_t> untold_;
  int polls_left_ = -1;  // for ever
  std::string reason_;
};

}  // namespace mk::test
