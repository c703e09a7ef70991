// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_device.cc — see soft_device.h.
#include "tests/support/soft_gpu/soft_device.h"

#include <chrono>
#include <thread>

#include "tests/support/soft_gpu/gpu_settings.h"
#include "tests/support/soft_gpu/soft_barrier.h"
#include "tests/support/soft_gpu/soft_block.h"

namespace mk::soft_gpu {
namespace {

Block& own() { return Block::current(); }

}  // namespace

uint3 thread_index() {
  const Size3& at = own().thread().place;
  return {at.x, at.y, at.z};
}
uint3 block_index() {
  const Size3 at = own().place();
  return {at.x, at.y, at.z};
}
dim3 block_size() {
  const Size3& size = own().launch().threads;
  return {size.x, size.y, size.z};
}
dim3 grid_size() {
  const Size3& size = own().launch().blocks;
  return {size.x, size.y, size.z};
}
unsigned block_in_cluster() { return own().rank_in_cluster(); }

void sync_threads() { own().meet(0, own().num_alive()); }
void sync_named(unsigned name, unsigned threads) { own().meet(name, threads); }
void arrive_named(unsigned name, unsigned threads) { own().arrive(name, threads); }
bool sync_named_and(unsigned name, unsigned threads, bool mine) { return own().meet_and(name, threads, mine); }

void arrive_at_cluster() {
  ++own().thread().cluster_phases;
  own().cluster().arrived.fetch_add(1, std::memory_order_acq_rel);
}
void wait_for_cluster() {
  Block& block = own();
  const uint64_t all = uint64_t{block.num_threads()} * block.launch().cluster * block.thread().cluster_phases;
  while (block.cluster().arrived.load(std::memory_order_acquire) < all) block.poll();
}

void poll() { own().poll(); }

// Slower than the host's: waits of device code have deadlines, and this GPU is slow.
uint64_t clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) / settings().slowness;
}

std::byte* block_memory() { return own().dynamic(); }
uint32_t shared_address(const void* pointer) { return own().address_of(pointer); }
void* shared_pointer(uint32_t address) { return own().pointer_at(address); }
void arrive_in_cluster(uint64_t* barrier, uint32_t block) {
  Barrier(reinterpret_cast<uint64_t*>(own().in_peer(barrier, block))).arrive(1);
}

void init_barrier(uint64_t* barrier, uint32_t count) { Barrier(barrier).init(count); }
void arrive_at_barrier(uint64_t* barrier, uint32_t count) { Barrier(barrier).arrive(count); }
void arrive_and_expect(uint64_t* barrier, uint32_t bytes) { Barrier(barrier).arrive_and_expect(bytes); }
bool test_barrier(const uint64_t* barrier, uint32_t parity) {
  own().poll();
  return Barrier(const_cast<uint64_t*>(barrier)).is_over(parity);
}
void wait_for_barrier(const uint64_t* barrier, uint32_t parity) {
  const Barrier at(const_cast<uint64_t*>(barrier));
  own().wait(barrier, "an mbarrier", [&] { return at.is_over(parity); });
}

void commit_stores() { own().thread().groups.commit(); }
void wait_for_reads(unsigned pending) { own().thread().groups.wait_read(pending); }
void wait_for_stores(unsigned pending) { own().thread().groups.wait_written(pending); }

const Brought& exchange(uint32_t mask, Exchange kind, uint64_t value) { return own().warp().meet(mask, kind, value); }

uint32_t ballot(uint32_t mask, bool predicate) {
  const Brought& brought = exchange(mask, Exchange::kVote, predicate ? 1 : 0);
  uint32_t lanes = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) lanes |= static_cast<uint32_t>(brought.values[lane] & 1) << lane;
  return lanes & brought.lanes;
}

uint32_t matching(uint32_t mask, uint64_t value) {
  const Brought& brought = exchange(mask, Exchange::kMatch, value);
  uint32_t lanes = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (brought.values[lane] == value) lanes |= uint32_t{1} << lane;
  }
  return lanes & brought.lanes;
}

bool elect() {
  const Brought& brought = exchange(0xffffffffu, Exchange::kElect, 0);
  return own().thread().lane() == static_cast<uint32_t>(__builtin_ctz(brought.lanes));
}

}  // namespace mk::soft_gpu
