// SPDX-License-Identifier: MIT
// runtime/host_device.cc — see host_device.h.
#include "runtime/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/math.h"
#include "mkernel/error.h"
#include "transport/loopback.h"
#include "transport/shared_memory.h"

namespace mk::runtime {
namespace {

constexpr size_t kAlignment = 256;

// One thread for each communication role and two that compute.
constexpr int kFewestWorkers = 5;

}  // namespace

HostDevice::HostDevice(const Members& members, Windows windows)
    : first_(members.first),
      windows_(windows),
      workers_(std::max<int>(kFewestWorkers, std::thread::hardware_concurrency() / members.count)) {
  for (int rank = members.first; rank < members.end(); ++rank) ranks_.emplace_back(rank);
}

HostDevice::Rank::Rank(int rank) : team(fmt::format("rank {}", rank)) {}

std::string HostDevice::name() const { return fmt::format("{} CPU threads", std::thread::hardware_concurrency()); }

void* HostDevice::allocate(size_t bytes) {
  const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) throw Error(ErrorCode::kDevice, fmt::format("out of memory: {} bytes", bytes));
  std::memset(memory, 0, rounded);
  return memory;
}

void HostDevice::free(void* memory) noexcept { std::free(memory); }

void HostDevice::upload(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

WindowMemory HostDevice::allocate_window(size_t bytes) {
  if (windows_ == Windows::kPrivate) return private_window(*this, bytes);
  auto shared = std::make_shared<SharedMemory>(SharedMemory::make(bytes));
  openable_[shared->handle()] = shared;
  return {std::shared_ptr<std::byte>(shared, shared->data()), shared->handle()};
}

WindowMemory HostDevice::open_window(const std::string& handle, size_t bytes) {
  auto shared = std::make_shared<SharedMemory>(SharedMemory::open(handle, bytes));
  return {std::shared_ptr<std::byte>(shared, shared->data()), handle};
}

void HostDevice::forget_window(const std::string& handle) noexcept {
  const auto found = openable_.find(handle);
  if (found == openable_.end()) return;
  if (const std::shared_ptr<SharedMemory> window = found->second.lock()) window->forget();
  openable_.erase(found);
}

std::unique_ptr<Fabric> HostDevice::make_loopback(const WindowRegistry& windows, int rank) {
  return std::make_unique<LoopbackFabric>(windows, rank);
}

void HostDevice::synchronize() {
  for (Rank& rank : ranks_) rank.team.drain();
}

void HostDevice::mark(int rank) {
  Rank& r = at(rank);
  auto& mark = r.marks.emplace_back();  // here, where an Error can be thrown
  r.team.submit(1, [&mark](int) { mark = std::chrono::steady_clock::now(); });
}

std::vector<double> HostDevice::take_spans_us(int rank) {
  std::vector<double> spans;
  auto& marks = at(rank).marks;
  for (size_t i = 0; i + 1 < marks.size(); i += 2) {
    spans.push_back(std::chrono::duration<double, std::micro>(marks[i + 1] - marks[i]).count());
  }
  marks.clear();
  return spans;
}

}  // namespace mk::runtime
