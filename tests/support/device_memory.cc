// SPDX-License-Identifier: MIT
// tests/support/device_memory.cc — see device_memory.h.
#include "tests/support/device_memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace mk::test {
namespace {

struct Write {
  std::byte* to;
  std::vector<std::byte> bytes;
};

struct Memory {
  uint64_t bytes;
  std::byte* real;
  std::vector<Write> unsettled;
};

struct Memories {
  std::mutex mutex;
  std::map<uint64_t, Memory> by_address;

  // Null if the range is not all inside one.
  Memory* find(uint64_t address, uint64_t bytes, uint64_t& offset) {
    auto next = by_address.upper_bound(address);
    if (next == by_address.begin()) return nullptr;
    auto& [begin, memory] = *std::prev(next);
    offset = address - begin;
    return offset <= memory.bytes && bytes <= memory.bytes - offset ? &memory : nullptr;
  }
};

Memories& memories() {
  static Memories all;
  return all;
}

uint64_t number_of(const std::byte* address) { return reinterpret_cast<uint64_t>(address); }

}  // namespace

void add_device_memory(const std::byte* address, uint64_t bytes, std::byte* real) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  all.by_address[number_of(address)] = {bytes, real, {}};
}

void remove_device_memory(const std::byte* address) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  all.by_address.erase(number_of(address));
}

void settle_device_memory(const std::byte* address) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(number_of(address));
  if (found == all.by_address.end()) return;
  for (const Write& write : std::exchange(found->second.unsettled, {})) {
    std::memcpy(write.to, write.bytes.data(), write.bytes.size());
  }
}

std::byte* find_device_memory(uint64_t address, uint64_t bytes) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  uint64_t offset = 0;
  const Memory* const memory = all.find(address, bytes, offset);
  return memory == nullptr ? nullptr : memory->real + offset;
}

bool touches_device_memory(uint64_t address, uint64_t bytes) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  for (const auto& [begin, memory] : all.by_address) {
    if (begin < address + bytes && address < begin + memory.bytes) return true;
  }
  return false;
}

void write_device_memory(uint64_t address, std::byte* to, std::vector<std::byte> bytes) {
  if (bytes.empty()) return;
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  uint64_t offset = 0;
  Memory* const memory = all.find(address, bytes.size(), offset);
  if (memory == nullptr) {
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    memory->unsettled.push_back({to, std::move(bytes)});
  }
}

void drop_device_writes(const std::byte* to, uint64_t bytes) {
  Memories& all = memories();
  const std::lock_guard lock(all.mutex);
  for (auto& [begin, memory] : all.by_address) {
    std::erase_if(memory.unsettled, [&](const Write& write) { return write.to >= to && write.to < to + bytes; });
  }
}

}  // namespace mk::test
