// SPDX-License-Identifier: MIT
// transport/free_memory.cc — see free_memory.h.
#include "transport/free_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>

namespace mk {
namespace {

// The files of a memory cgroup, which its two versions name differently.
struct CgroupNames {
  const char* mount;
  const char* most;  // "max" or a huge number: no limit
  const char* used;
  std::array<const char*, 2> caches;  // lines of memory.stat: what the kernel gives up before it ends a process
};
constexpr CgroupNames kVersion1{"/sys/fs/cgroup/memory",
                                "memory.limit_in_bytes",
                                "memory.usage_in_bytes",
                                {"total_inactive_file", "total_active_file"}};
constexpr CgroupNames kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// From a file of lines such as "name: 12 kB" or "name 12".
uint64_t field_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    uint64_t number = 0;
    if (words >> word >> number && (word == name || word == name + ":")) return number;
  }
  return 0;
}

void limit_by(FreeMemory& memory, uint64_t bytes, const std::string& limit) {
  if (bytes < memory.bytes) memory = {bytes, limit};
}

// Of one group; its parents limit as well.  The machine's swap is not counted: a group may have none of it.
void limit_by_cgroup(FreeMemory& memory, const std::string& folder, const CgroupNames& names) {
  const std::optional<uint64_t> most = number_in(folder + "/" + names.most);
  const std::optional<uint64_t> used = number_in(folder + "/" + names.used);
  if (!most || !used) return;
  uint64_t caches = 0;
  for (const char* name : names.caches) caches += field_of(folder + "/memory.stat", name);
  const uint64_t needed = *used - std::min(*used, caches);
  limit_by(memory, *most - std::min(*most, needed), "the memory cgroup " + folder);
}

void limit_by_cgroups(FreeMemory& memory, const std::string& root, const CgroupNames& names, std::string group) {
  // In a container the path may be the machine's, of which only the last part is mounted, at the root.
  for (;; group.resize(group.rfind('/'))) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    limit_by_cgroup(memory, root + names.mount + group, names);
    if (group.find('/') == std::string::npos) return;
  }
}

}  // namespace

FreeMemory free_memory(const std::string& root) {
  constexpr uint64_t kKiB = 1024;
  FreeMemory memory;
  const std::string machine = root + "/proc/meminfo";
  const uint64_t swap = field_of(machine, "SwapFree") * kKiB;
  if (const uint64_t free = field_of(machine, "MemAvailable")) limit_by(memory, free * kKiB + swap, "this machine");
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string names = line.substr(controllers, path - 1 - controllers);
    if (names == "memory") limit_by_cgroups(memory, root, kVersion1, line.substr(path));
    if (names.empty()) limit_by_cgroups(memory, root, kVersion2, line.substr(path));
  }
  return memory;
}

}  // namespace mk
