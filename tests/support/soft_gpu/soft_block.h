// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_block.h — a block of a kernel: its threads as fibres of one thread of the host.
//
// A thread runs until it waits for others of its block, or polls memory.  Who runs next is drawn by lot, and so is when
// an asynchronous copy takes place, so a run explores one of many orders; the seed says which.
//
// Waits inside a block park the thread until somebody notifies it.  If nobody can any more, that is a deadlock: the
// program ends and says who waits for what.
#pragma once

#include <atomic>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/soft_gpu/soft_copies.h"
#include "tests/support/soft_gpu/soft_products.h"
#include "tests/support/soft_gpu/soft_warp.h"

namespace mk::soft_gpu {

// Ends the program with a sentence that names the kernel, block and thread.
[[noreturn]] void fail(const std::string& what);
inline void require(bool holds, const char* complaint) {
  if (!holds) fail(complaint);
}

struct Size3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  unsigned count() const { return x * y * z; }
  Size3 at(unsigned number) const { return {number % x, number / x % y, number / x / y}; }
};

struct Launch {
  std::string name;
  std::function<void()> kernel;  // what each thread runs
  Size3 blocks;
  Size3 threads;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of one
  uint64_t seed = 0;
};

class Block;

// Blocks that see each other's shared memory.
struct Cluster {
  std::vector<std::atomic<Block*>> blocks;
  std::atomic<uint64_t> arrived = 0;  // threads, over all phases
  std::atomic<int> running = 0;

  explicit Cluster(unsigned count) : blocks(count), running(static_cast<int>(count)) {}
};

struct Thread {
  unsigned number = 0;
  Size3 place;
  boost::context::fiber fibre;
  bool has_ended = false;
  const char* waits_for = nullptr;
  const void* waits_at = nullptr;
  BulkGroups groups;
  ThreadProducts products;
  uint64_t cluster_phases = 0;

  unsigned lane() const { return number % 32; }
};

class Block {
 public:
  Block(const Launch& launch, unsigned number, Cluster& cluster);
  Block(const Block&) = delete;
  ~Block();

  // That of the calling thread of the host.
  static Block& current();
  static bool is_running();

  // Until all threads have ended.
  void run();

  const Launch& launch() const { return launch_; }
  Size3 place() const { return launch_.blocks.at(number_); }
  unsigned rank_in_cluster() const { return number_ % launch_.cluster; }
  Cluster& cluster() { return cluster_; }
  Thread& thread() { return *running_; }
  Warp& warp() { return warps_[running_->number / 32]; }
  WarpGroup& warpgroup() { return warpgroups_[running_->number / 128]; }
  unsigned num_threads() const { return static_cast<unsigned>(threads_.size()); }
  unsigned num_alive() const { return alive_; }

  // ---- waits ----

  template <class Ready>
  void wait(const void* at, const char* what, const Ready& is_ready) {
    while (!is_ready()) park(at, what);
  }
  void notify(const void* at);
  // Of a barrier in shared memory, of this block or another of its cluster.
  static void wake_owner(const void* barrier);
  // For who looks at memory that others write: lets others run.
  void poll();
  // Threads meet at barrier `name`; 0 is __syncthreads.
  void meet(unsigned name, unsigned threads);
  void arrive(unsigned name, unsigned threads);
  // Whether all said yes.
  bool meet_and(unsigned name, unsigned threads, bool mine);

  // ---- memory ----

  std::byte* dynamic() const { return dynamic_; }
  uint32_t address_of(const void* pointer) const;
  std::byte* pointer_at(uint32_t address) const;
  // The same place in the shared memory of another block of the cluster.
  std::byte* in_peer(const void* pointer, unsigned rank);

  // ---- time ----

  // Something that happens some time later, of itself.
  void later(std::function<void()> act) { acts_.push_back(std::move(act)); }
  bool draw(unsigned one_in) { return random_() % one_in == 0; }

 private:
  struct NamedBarrier {
    unsigned missing = 0;
    uint64_t phase = 0;
    bool all = true;
    bool last_all = true;
  };

  void start(Thread& thread);
  void park(const void* at, const char* what);
  void switch_out();
  void resume_one();
  void act_once();
  // Nobody can run: somebody else must do something.
  void stand_still();
  [[noreturn]] void report_deadlock() const;
  NamedBarrier& come(unsigned name, unsigned threads, bool mine);

  const Launch& launch_;
  const unsigned number_;
  Cluster& cluster_;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<WarpGroup> warpgroups_;
  std::vector<std::function<void()>> acts_;
  std::vector<Thread*> runnable_;
  std::unordered_map<const void*, std::vector<Thread*>> parked_;
  std::vector<NamedBarrier> barriers_;
  std::atomic<bool> was_woken_ = false;
  boost::context::fiber scheduler_;
  Thread* running_ = nullptr;
  unsigned alive_ = 0;
  unsigned polls_ = 0;  // in a row, by whoever
  std::byte* dynamic_ = nullptr;
};

}  // namespace mk::soft_gpu
