// SPDX-License-Identifier: MIT
// mkernel/world.h — a group of ranks that run operators together.
//
// A World is nodes × ranks_per_node ranks.  World::local puts all of them into this process: as groups
// of threads on a CPU, or sharing one GPU with an equal share of its SMs each, with a loopback fabric
// between the "nodes".  World::join makes this process one rank of a world of processes, on CPUs or on GPUs.  Launches
// are asynchronous on both; synchronize() waits for them.
//
// Several threads may call a World.  Calls of a process follow each other, and so do their launches, in the order in
// which they come.  Ranks that are processes must all make the same calls in the same order: where several threads
// call, the program sees to that.  failed(), check() and abort() wait for no other call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mkernel/error.h"
#include "mkernel/export.h"
#include "mkernel/network_stats.h"
#include "mkernel/options.h"
#include "mkernel/types.h"

namespace mk {

namespace runtime {
class WorldState;
}

class MK_API World {
 public:
  // Throws Error(kInvalidArgument) if the device cannot hold that many ranks, Error(kUnavailable) if
  // there is no such device in this build or machine.
  static World local(int nodes, int ranks_per_node, DeviceKind device = DeviceKind::kAuto, const Options& options = {});

  // A World of processes: rank 0 makes the id, a launcher spreads it, every process joins with it and its own rank.
  // Whoever knows the id may join, so keep it out of logs.  If a rank does not join within options.timeout_ms,
  // Error(kTimeout) names it.  The ranks of node n, n·ranks_per_node and following, are on one machine.
  //
  // All ranks ask for the same device and run on the same kind.  kAuto: a Hopper GPU each if every rank has one, else
  // CPU threads.  kCuda: if a rank has none, Error(kUnavailable) names it to all.  Without a device: CPUs.  The ranks
  // of a machine take the GPUs they see in turn, and the calling thread's current GPU is then this rank's.  Every other
  // call of the library may come from any thread: it makes that GPU current and restores the one before.  Ranks that
  // share a GPU divide its SMs; docs/transports.md has the details.  A process that is forked must not have used CUDA.
  static std::string unique_id();
  static World join(const std::string& id, int rank, int nodes, int ranks_per_node, DeviceKind device,
                    const Options& options = {});
  static World join(const std::string& id, int rank, int nodes, int ranks_per_node, const Options& options = {});

  // A World of the processes that torchrun, mpirun or srun started; this process has the rank that the launcher gave
  // it.  A node has as many ranks as its machine, or the world is nodes x ranks_per_node (0: the launcher says).
  // docs/transports.md says how ranks meet, and what keeps others out.  All ranks make their Worlds in the same order.
  // Throws Error(kInvalidArgument), naming the variable, if the environment is no launcher's.
  static World from_env(DeviceKind device, const Options& options = Options::from_env());
  static World from_env(const Options& options = Options::from_env());
  static World from_env(int nodes, int ranks_per_node, DeviceKind device, const Options& options = Options::from_env());
  static World from_env(int nodes, int ranks_per_node, const Options& options = Options::from_env());

  // Of a World that was moved from only destruction and assignment make sense; any other call throws
  // Error(kInvalidArgument).
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  int nodes() const;
  int ranks_per_node() const;
  int size() const;
  int first_rank() const;      // of those in this process
  int num_ranks() const;       // in this process; calls take arguments for these
  DeviceKind device() const;   // kCpu or kCuda, never kAuto
  std::string fabric() const;  // between nodes: "loopback", "tcp", …; "none" if there is one node

  // How the fabric reaches windows, as text: "host memory"; on GPUs "GPU memory by DMA-BUF", or why it goes through
  // host memory.  Empty without a fabric between nodes, or with the loopback of one process.
  std::string fabric_reach() const;

  // What the proxy of a rank that is here has carried between nodes since the World began.
  NetworkStats network_stats(int rank) const;

  // Waits until every launch so far has finished.  Throws the Error of the first fault, if any:
  // kTimeout names rank, role, worker, tile, signal, what it held and what was wanted.  kInvalidArgument names an input
  // that a launch refused (moe.h); the World goes on then.
  void synchronize();

  // True once a fault was recorded.  Does not wait.  A failed World refuses further launches.
  bool failed() const;

  // Throws the Error of the first fault so far, if there is one.  Does not wait.
  void check() const;

  // This World cannot go on because of `why`: every wait gives up, here and at all other ranks, which hear of it within
  // a second.  Calls that wait throw Error(kAborted) with the reason; at other processes Error(kFabric) names this rank
  // and the reason.  An earlier failure stays the reason.
  void abort(const std::string& why);

  // The World's own stream of a rank: a cudaStream_t on a GPU, null on a CPU.  It does not wait for the default stream.
  Stream rank_stream(int rank) const;

  // fork makes every rank's own stream wait for what `stream` holds so far; join makes `stream` wait
  // for every rank's own stream.  Between a fork and a join launches can be captured in a CUDA graph.
  void fork(Stream stream);
  void join(Stream stream);

  // The library's own view, for operators; and a World around a state that was made elsewhere, for tests.
  explicit World(std::unique_ptr<runtime::WorldState> state);
  runtime::WorldState& state() { return checked(); }
  const runtime::WorldState& state() const { return checked(); }

 private:
  runtime::WorldState& checked() const;  // throws Error if it was moved from

  std::unique_ptr<runtime::WorldState> state_;
};

}  // namespace mk
