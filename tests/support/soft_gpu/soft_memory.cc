// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_memory.cc — see soft_memory.h.
#include "tests/support/soft_gpu/soft_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>

namespace mk::soft_gpu {
namespace {

struct Mapping {
  size_t bytes = 0;
  int fd = -1;  // of an allocation of this process
};

std::mutex mutex;
std::map<const void*, Mapping>& mappings() {
  static auto* const all = new std::map<const void*, Mapping>;
  return *all;
}

void* map_file(int fd, size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool unmap(const void* memory, bool is_own) {
  const std::lock_guard lock(mutex);
  const auto found = mappings().find(memory);
  if (found == mappings().end() || (found->second.fd >= 0) != is_own) return false;
  ::munmap(const_cast<void*>(memory), found->second.bytes);
  if (is_own) ::close(found->second.fd);
  mappings().erase(found);
  return true;
}

}  // namespace

void* allocate_memory(size_t bytes) {
  const int fd = ::memfd_create("software GPU", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? map_file(fd, bytes) : nullptr;
  if (memory == nullptr) {
    ::close(fd);
    return nullptr;
  }
  const std::lock_guard lock(mutex);
  mappings()[memory] = {bytes, fd};
  return memory;
}

bool free_memory(void* memory) { return unmap(memory, true); }

std::string place_of(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = mappings().find(memory);
  if (found == mappings().end() || found->second.fd < 0) return {};
  return fmt::format("{} {} {}", ::getpid(), found->second.fd, found->second.bytes);
}

void* open_place(const std::string& place) {
  int process = 0;
  int number = 0;
  size_t bytes = 0;
  if (std::sscanf(place.c_str(), "%d %d %zu", &process, &number, &bytes) != 3) return nullptr;
  const int fd = ::open(fmt::format("/proc/{}/fd/{}", process, number).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = map_file(fd, bytes);
  ::close(fd);
  if (memory == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  mappings()[memory] = {bytes, -1};
  return memory;
}

bool close_place(void* memory) { return unmap(memory, false); }

}  // namespace mk::soft_gpu
