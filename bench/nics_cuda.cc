// SPDX-License-Identifier: MIT
// bench/nics_cuda.cc — see nics.h.
#include <cstring>
#include <memory>

#include "base/cuda_api.h"
#include "bench/nic_fabric.h"
#include "bench/nics.h"
#include "bench/pace_spec.h"

namespace mk::bench {
namespace {

constexpr uint32_t kCapacity = 256;

// Host-visible memory of one NIC: no two words that different sides write in one cache line.
struct Shared {
  NicPut puts[kCapacity];
  alignas(64) uint64_t posted;
  alignas(64) uint64_t completed;
};

constexpr size_t kWordsStride = 256;  // no two ranks' words in one cache line

}  // namespace

Nics::Nics(const WorldShape& world, double ns_per_byte) : queues_(world.size()) {
  if (world.nodes == 1) return;
  const size_t shared_bytes = queues_.size() * sizeof(Shared);
  const size_t words_bytes = queues_.size() * kWordsStride;
  try {
    check_cuda(cudaHostAlloc(&shared_, shared_bytes, cudaHostAllocPortable | cudaHostAllocMapped),
               "allocate the queues of NICs");
    std::memset(shared_, 0, shared_bytes);
    check_cuda(cudaMalloc(&words_, words_bytes), "allocate the words of NICs");
    check_cuda(cudaMemset(words_, 0, words_bytes), "zero the words of NICs");
    check_cuda(cudaStreamSynchronize(cudaStreamLegacy), "wait for zeroed memory");
  } catch (...) {
    release();
    throw;
  }
  for (size_t rank = 0; rank < queues_.size(); ++rank) {
    Shared& shared = static_cast<Shared*>(shared_)[rank];
    queues_[rank] = {.puts = shared.puts,
                     .posted = &shared.posted,
                     .completed = &shared.completed,
                     .words = reinterpret_cast<NicWords*>(static_cast<std::byte*>(words_) + rank * kWordsStride),
                     .capacity = kCapacity,
                     .ns_per_byte = ns_per_byte,
                     .latency_ns = kNetworkLatencyNs};
  }
}

Nics::~Nics() { release(); }

void Nics::release() noexcept {
  cudaFreeHost(shared_);
  cudaFree(words_);
}

runtime::FabricHook Nics::hook() const {
  return [this](std::unique_ptr<Fabric>, const WindowRegistry& windows, int rank) {
    return std::make_unique<NicFabric>(queues_[rank], windows, rank);
  };
}

}  // namespace mk::bench
