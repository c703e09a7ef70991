// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_device.h — what device code calls, in terms of the block that runs.
//
// Device code that is compiled for the host includes it, so it knows little else of the software GPU.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "tests/support/soft_gpu/soft_warp.h"

namespace mk::soft_gpu {

uint3 thread_index();
uint3 block_index();
dim3 block_size();
dim3 grid_size();
unsigned block_in_cluster();

void sync_threads();
void sync_named(unsigned name, unsigned threads);
void arrive_named(unsigned name, unsigned threads);
bool sync_named_and(unsigned name, unsigned threads, bool mine);
void arrive_at_cluster();
void wait_for_cluster();
// Memory that others write is looked at: others run meanwhile.
void poll();
uint64_t clock_ns();

std::byte* block_memory();
uint32_t shared_address(const void* pointer);
void* shared_pointer(uint32_t address);
// The barrier of another block of the cluster at the same place.
void arrive_in_cluster(uint64_t* barrier, uint32_t block);

void init_barrier(uint64_t* barrier, uint32_t count);
void arrive_at_barrier(uint64_t* barrier, uint32_t count);
void arrive_and_expect(uint64_t* barrier, uint32_t bytes);
bool test_barrier(const uint64_t* barrier, uint32_t parity);
void wait_for_barrier(const uint64_t* barrier, uint32_t parity);

void commit_stores();
void wait_for_reads(unsigned pending);
void wait_for_stores(unsigned pending);

// ---- lanes of a warp ----

const Brought& exchange(uint32_t mask, Exchange kind, uint64_t value);

uint32_t ballot(uint32_t mask, bool predicate);
uint32_t matching(uint32_t mask, uint64_t value);
bool elect();

template <class T>
T shuffle(uint32_t mask, T value, uint32_t lane) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const Brought& brought = exchange(mask, Exchange::kShuffle, word);
  std::memcpy(&value, &brought.values[lane], sizeof(T));
  return value;
}

template <class Combine>
uint32_t reduce(uint32_t mask, uint32_t value, const Combine& combine) {
  const Brought& brought = exchange(mask, Exchange::kReduce, value);
  bool is_first = true;
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((brought.lanes >> lane & 1) == 0) continue;
    const auto next = static_cast<uint32_t>(brought.values[lane]);
    result = is_first ? next : combine(result, next);
    is_first = false;
  }
  return result;
}

// ---- launches ----

struct QueuedLaunch {
  std::function<void()> kernel;
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;
  unsigned cluster = 1;
  std::string name;
  void* stream = nullptr;  // a cudaStream_t
};
void queue_launch(QueuedLaunch launch);

}  // namespace mk::soft_gpu
