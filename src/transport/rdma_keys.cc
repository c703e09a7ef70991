// SPDX-License-Identifier: MIT
// transport/rdma_keys.cc — see rdma_keys.h.
#include "transport/rdma_keys.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <set>

#include "mkernel/error.h"

namespace mk {

// On the wire: the address, then a key for each device.
std::string RdmaKeys::share(uint32_t window) {
  std::byte* const base = windows_.find(window, static_cast<uint32_t>(rank_), 0, 0);
  if (base == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("window {} of rank {} is not here to share", window, rank_));
  }
  std::vector<RdmaMemory> memory;
  const auto address = reinterpret_cast<uint64_t>(base);
  std::string key(reinterpret_cast<const char*>(&address), sizeof(address));
  for (const auto& device : devices_) {
    const uint64_t bytes = windows_.bytes(window);
    memory.push_back(mover_ == nullptr ? register_memory(*device, base, bytes, ordering_)
                                       : register_memory(*device, base, bytes, ordering_, *mover_));
    const uint32_t rkey = memory.back().rkey();
    key.append(reinterpret_cast<const char*>(&rkey), sizeof(rkey));
  }
  const std::unique_lock lock(mutex_);
  own_[window] = std::move(memory);
  return key;
}

void RdmaKeys::learn(uint32_t window, int rank, const std::string& key) {
  Remote remote;
  const size_t wanted = sizeof(remote.address) + devices_.size() * sizeof(uint32_t);
  if (key.size() != wanted) {
    throw Error(
        ErrorCode::kFabric,
        fmt::format("the key of rank {} for window {} has {} bytes; with {} NICs, as rank {} has, it must have {}",
                    rank, window, key.size(), devices_.size(), rank_, wanted));
  }
  std::memcpy(&remote.address, key.data(), sizeof(remote.address));
  remote.keys.resize(devices_.size());
  std::memcpy(remote.keys.data(), key.data() + sizeof(remote.address), devices_.size() * sizeof(uint32_t));
  const std::unique_lock lock(mutex_);
  remote_[{window, static_cast<uint32_t>(rank)}] = std::move(remote);
}

std::vector<uint32_t> RdmaKeys::local_keys(uint32_t window) const {
  const std::shared_lock lock(mutex_);
  std::vector<uint32_t> keys;
  if (const auto found = own_.find(window); found != own_.end()) {
    for (const RdmaMemory& memory : found->second) keys.push_back(memory.lkey());
  }
  return keys;
}

RdmaKeys::Remote RdmaKeys::remote(uint32_t window, uint32_t rank) const {
  const std::shared_lock lock(mutex_);
  const auto found = remote_.find({window, rank});
  return found == remote_.end() ? Remote{} : found->second;
}

uint64_t* RdmaKeys::signal(uint32_t window, uint32_t index) const {
  const std::shared_lock lock(mutex_);
  if (!own_.contains(window)) return nullptr;
  return reinterpret_cast<uint64_t*>(
      windows_.find(window, static_cast<uint32_t>(rank_), uint64_t{index} * sizeof(uint64_t), sizeof(uint64_t)));
}

std::string RdmaKeys::describe() const {
  const std::shared_lock lock(mutex_);
  std::set<std::string> ways;
  for (const auto& [window, memory] : own_) {
    for (const RdmaMemory& on_device : memory) ways.insert(name_of(on_device.way));
  }
  return fmt::format("{}", fmt::join(ways, ", "));
}

}  // namespace mk
