// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_block.cc — see soft_block.h.
#include "tests/support/soft_gpu/soft_block.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace mk::soft_gpu {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kSharedBytes = 228 * 1024;
constexpr uint32_t kDynamicAt = 0x400;  // addresses of dynamic shared memory, and of the rest
constexpr uint32_t kStaticAt = 0x10000000;
constexpr uint64_t kUntouched = 0x736f66745f677075;  // in the lowest word of a stack
constexpr auto kNap = std::chrono::microseconds(20);

thread_local Block* current_block = nullptr;
thread_local std::byte static_anchor[1] = {};  // shared memory that is not dynamic lies near it

void* map_memory(size_t bytes) {
  constexpr int kHow = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kHow, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for a block");
  return memory;
}

// Of a thread of the host, for all blocks that it runs one after the other.
class BlockMemory {
 public:
  ~BlockMemory() {
    if (stacks_ != nullptr) ::munmap(stacks_, num_stacks_ * kStackBytes);
    if (shared_ != nullptr) ::munmap(shared_, kSharedBytes);
  }
  // Memory holds NaNs at first.
  std::byte* shared(size_t bytes) {
    require(bytes <= kSharedBytes, "more shared memory is asked for than an SM has");
    if (shared_ == nullptr) shared_ = static_cast<std::byte*>(map_memory(kSharedBytes));
    std::memset(shared_, 0xff, bytes);
    return shared_;
  }
  void reserve_stacks(size_t count) {
    if (count <= num_stacks_) return;
    if (stacks_ != nullptr) ::munmap(stacks_, num_stacks_ * kStackBytes);
    stacks_ = static_cast<std::byte*>(map_memory(count * kStackBytes));
    num_stacks_ = count;
    for (size_t i = 0; i < count; ++i) lowest_word(i) = kUntouched;
  }
  boost::context::stack_context stack(size_t number) const {
    boost::context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = stacks_ + (number + 1) * kStackBytes;
    return stack;
  }
  bool has_overflowed(size_t number) const { return lowest_word(number) != kUntouched; }

 private:
  uint64_t& lowest_word(size_t number) const { return *reinterpret_cast<uint64_t*>(stacks_ + number * kStackBytes); }

  std::byte* shared_ = nullptr;
  std::byte* stacks_ = nullptr;
  size_t num_stacks_ = 0;
};

BlockMemory& own_memory() {
  thread_local BlockMemory memory;
  return memory;
}

struct OwnStack {
  unsigned number;
  boost::context::stack_context allocate() const { return own_memory().stack(number); }
  void deallocate(boost::context::stack_context&) const {}
};

}  // namespace

void fail(const std::string& what) {
  std::string where;
  if (Block::is_running()) {
    Block& block = Block::current();
    const Size3 place = block.place();
    where = fmt::format(" (block {}, {}, {}, thread {} of {}; seed {})", place.x, place.y, place.z,
                        block.thread().number, block.launch().name, block.launch().seed);
  }
  std::fprintf(stderr, "software GPU: %s%s\n", what.c_str(), where.c_str());
  std::abort();
}

Block::Block(const Launch& launch, unsigned number, Cluster& cluster)
    : launch_(launch),
      number_(number),
      cluster_(cluster),
      random_(static_cast<unsigned>(launch.seed * 2654435761u + number * 40503u + 1)),
      threads_(launch.threads.count()),
      warps_((threads_.size() + 31) / 32),
      warpgroups_((threads_.size() + 127) / 128),
      barriers_(16),
      alive_(static_cast<unsigned>(threads_.size())) {
  current_block = this;
  own_memory().reserve_stacks(threads_.size());
  dynamic_ = own_memory().shared(launch.shared_bytes);
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].number = i;
    threads_[i].place = launch.threads.at(i);
    start(threads_[i]);
  }
  cluster_.blocks[rank_in_cluster()].store(this, std::memory_order_release);
}

// Its shared memory may be read by others of its cluster until they have left.
Block::~Block() {
  --cluster_.running;
  while (cluster_.running.load() > 0) std::this_thread::sleep_for(kNap);
  current_block = nullptr;
}

Block& Block::current() { return *current_block; }
bool Block::is_running() { return current_block != nullptr && current_block->running_ != nullptr; }

void Block::start(Thread& thread) {
  runnable_.push_back(&thread);
  thread.fibre = boost::context::fiber(std::allocator_arg, OwnStack{thread.number},
                                       [this, &thread](boost::context::fiber&& scheduler) {
                                         scheduler_ = std::move(scheduler);
                                         launch_.kernel();
                                         thread.has_ended = true;
                                         return std::move(scheduler_);
                                       });
}

void Block::run() {
  while (alive_ > 0) {
    if (was_woken_.exchange(false, std::memory_order_acquire)) {
      for (auto& [at, waiting] : parked_) {
        runnable_.insert(runnable_.end(), waiting.begin(), waiting.end());
        waiting.clear();
      }
    }
    if (!acts_.empty() && (runnable_.empty() || polls_ > runnable_.size() || draw(16))) {
      act_once();
    } else if (runnable_.empty()) {
      stand_still();
    } else {
      resume_one();
    }
  }
  for (Thread& thread : threads_) {
    running_ = &thread;
    thread.groups.block_ends();
    require(!own_memory().has_overflowed(thread.number), "a thread needs more stack than there is");
  }
  while (!acts_.empty()) fail("a block ends before its loads");
  running_ = nullptr;
}

void Block::act_once() {
  const size_t which = random_() % acts_.size();
  const std::function<void()> act = std::exchange(acts_[which], std::move(acts_.back()));
  acts_.pop_back();
  polls_ = 0;
  act();
}

void Block::resume_one() {
  if (polls_ > 2 * runnable_.size()) {  // all that can run look at memory: others must write it
    polls_ = 0;
    std::this_thread::sleep_for(kNap);
  }
  const size_t which = random_() % runnable_.size();
  running_ = std::exchange(runnable_[which], runnable_.back());
  runnable_.pop_back();
  ++polls_;
  running_->fibre = std::move(running_->fibre).resume();
  if (!running_->has_ended) return;
  polls_ = 0;
  --alive_;
  warpgroup().thread_ends();
  warp().lane_ends(running_->lane());
  if (alive_ > 0 && barriers_[0].missing > 0) {  // a thread that has ended counts as one that has come
    NamedBarrier& barrier = barriers_[0];
    if (--barrier.missing == 0) {
      ++barrier.phase;
      barrier.last_all = std::exchange(barrier.all, true);
      notify(&barrier);
    }
  }
}

void Block::stand_still() {
  if (launch_.cluster == 1) report_deadlock();
  std::this_thread::sleep_for(kNap);
}

void Block::report_deadlock() const {
  std::string waits;
  unsigned told = 0;
  for (const Thread& thread : threads_) {
    if (thread.has_ended || thread.waits_for == nullptr || (thread.number % 32 != 0 && told > 24)) continue;
    if (++told > 48) break;
    waits += fmt::format("\n  thread {} waits for {}", thread.number, thread.waits_for);
    const auto* const at = static_cast<const std::byte*>(thread.waits_at);
    if (at >= dynamic_ && at < dynamic_ + kSharedBytes) waits += fmt::format(", at {:#x} of its block", at - dynamic_);
  }
  fail("deadlock: nobody in the block can go on" + waits);
}

void Block::switch_out() {
  Thread* const own = running_;
  scheduler_ = std::move(scheduler_).resume();
  running_ = own;
}

void Block::park(const void* at, const char* what) {
  running_->waits_for = what;
  running_->waits_at = at;
  parked_[at].push_back(running_);
  polls_ = 0;
  switch_out();
  running_->waits_for = nullptr;
}

void Block::notify(const void* at) {
  const auto found = parked_.find(at);
  if (found == parked_.end()) return;
  runnable_.insert(runnable_.end(), found->second.begin(), found->second.end());
  found->second.clear();
}

void Block::poll() {
  runnable_.push_back(running_);
  switch_out();
}

void Block::wake_owner(const void* barrier) {
  Block& own = current();
  const auto* const at = static_cast<const std::byte*>(barrier);
  for (const std::atomic<Block*>& slot : own.cluster_.blocks) {
    Block* const block = slot.load(std::memory_order_acquire);
    if (block == nullptr || block == &own) continue;
    if (at >= block->dynamic_ && at < block->dynamic_ + kSharedBytes) {
      block->was_woken_.store(true, std::memory_order_release);
      return;
    }
  }
  own.notify(barrier);
}

// ---- barriers by name ------------------------------------------------------------------------------------

Block::NamedBarrier& Block::come(unsigned name, unsigned threads, bool mine) {
  NamedBarrier& barrier = barriers_.at(name);
  if (barrier.missing == 0) barrier.missing = threads;
  barrier.all = barrier.all && mine;
  if (--barrier.missing == 0) {
    ++barrier.phase;
    barrier.last_all = std::exchange(barrier.all, true);
    notify(&barrier);
  }
  return barrier;
}

void Block::meet(unsigned name, unsigned threads) { meet_and(name, threads, true); }

bool Block::meet_and(unsigned name, unsigned threads, bool mine) {
  const uint64_t phase = barriers_.at(name).phase;
  NamedBarrier& barrier = come(name, threads, mine);
  wait(&barrier, "a barrier by name", [&] { return barrier.phase != phase; });
  return barrier.last_all;
}

void Block::arrive(unsigned name, unsigned threads) { come(name, threads, true); }

// ---- memory ----------------------------------------------------------------------------------------------

uint32_t Block::address_of(const void* pointer) const {
  const auto* const at = static_cast<const std::byte*>(pointer);
  if (at >= dynamic_ && at < dynamic_ + kSharedBytes) return kDynamicAt + static_cast<uint32_t>(at - dynamic_);
  const intptr_t anchor = reinterpret_cast<intptr_t>(static_anchor) / 1024 * 1024;
  return kStaticAt + static_cast<uint32_t>(reinterpret_cast<intptr_t>(at) - anchor);
}

std::byte* Block::pointer_at(uint32_t address) const {
  if (address < kStaticAt / 2) return dynamic_ + (address - kDynamicAt);
  const intptr_t anchor = reinterpret_cast<intptr_t>(static_anchor) / 1024 * 1024;
  return reinterpret_cast<std::byte*>(anchor + static_cast<int32_t>(address - kStaticAt));
}

std::byte* Block::in_peer(const void* pointer, unsigned rank) {
  auto* const own = static_cast<std::byte*>(const_cast<void*>(pointer));
  if (rank == rank_in_cluster()) return own;
  require(own >= dynamic_ && own < dynamic_ + kSharedBytes, "only dynamic shared memory is seen by a cluster");
  Block* const peer = cluster_.blocks[rank].load(std::memory_order_acquire);
  require(peer != nullptr, "a block of a cluster uses another before that has begun");
  return peer->dynamic_ + (own - dynamic_);
}

}  // namespace mk::soft_gpu
