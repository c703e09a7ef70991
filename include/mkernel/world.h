// SPDX-License-Identifier: MIT
// mkernel/world.h — a group of ranks that run operators together.
//
// A World is nodes × ranks_per_node ranks.  World::local puts all of them into this process: as groups
// of threads on a CPU, or sharing one GPU with an equal share of its SMs each, with a loopback fabric
// between the "nodes".  World::join makes this process one rank of a world of processes, on CPUs or on GPUs.  Launches
// are asynchronous on both; synchronize() waits for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mkernel/error.h"
#include "mkernel/network_stats.h"
#include "mkernel/options.h"
#include "mkernel/types.h"

namespace mk {

namespace runtime {
class WorldState;
}

class World {
 public:
  // Throws Error(kInvalidArgument) if the device cannot hold that many ranks, Error(kUnavailable) if
  // there is no such device in this build or machine.
  static World local(int nodes, int ranks_per_node, DeviceKind device = DeviceKind::kAuto, const Options& options = {});

  // A World of processes: rank 0 makes the id, a launcher spreads it, every process joins with it and its own rank. Who
  // knows the id may join, so it is not for logs.  All ranks must join within options.timeout_ms: else Error(kTimeout)
  // names those that did not.  Ranks r·ranks_per_node … of node r are on one machine.
  //
  // All ranks ask for the same device, and run on the same kind: kAuto is a Hopper GPU each if every rank has one, else
  // CPU threads; where kCuda is asked for and a rank has none, Error(kUnavailable) names it to all.  Without a device
  // it is CPUs.  The ranks of a machine take the GPUs they see in turn, and the calling thread's current GPU is then
  // this rank's; every other call of the library may come from any thread, makes that GPU current itself and restores
  // what was.  Ranks that share a GPU divide its SMs; docs/transports.md has what else to know.  A process that is
  // forked must not have used CUDA before.
  static std::string unique_id();
  static World join(const std::string& id, int rank, int nodes, int ranks_per_node, DeviceKind device,
                    const Options& options = {});
  static World join(const std::string& id, int rank, int nodes, int ranks_per_node, const Options& options = {});

  // A World of the processes that torchrun, mpirun or srun started, this one with the rank it was given: as many ranks
  // a node as there are on a machine, or nodes x ranks_per_node as asked for (0: the launcher says).  How they meet,
  // and what keeps others out, is in docs/transports.md; all ranks make their Worlds in the same order.  Throws
  // Error(kInvalidArgument), naming the variable, if the environment is no launcher's.
  static World from_env(DeviceKind device, const Options& options = Options::from_env());
  static World from_env(const Options& options = Options::from_env());
  static World from_env(int nodes, int ranks_per_node, DeviceKind device, const Options& options = Options::from_env());
  static World from_env(int nodes, int ranks_per_node, const Options& options = Options::from_env());

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

  // How the fabric reaches windows, for people: "host memory"; on GPUs "GPU memory by DMA-BUF", or why it goes by way
  // of host memory.  Empty without a fabric between nodes, or with the loopback of one process.
  std::string fabric_reach() const;

  // What the proxy of a rank that is here has carried between nodes since the World began.
  NetworkStats network_stats(int rank) const;

  // Waits until every launch so far has finished.  Throws the Error of the first fault, if any:
  // kTimeout names rank, role, worker, tile, signal, what it held and what was wanted.
  void synchronize();

  // True once a fault was recorded.  Does not wait.  A failed World refuses further launches.
  bool failed() const;

  // The World's own stream of a rank: a cudaStream_t on a GPU, null on a CPU.  It does not wait for the default stream.
  Stream rank_stream(int rank) const;

  // fork makes every rank's own stream wait for what `stream` holds so far; join makes `stream` wait
  // for every rank's own stream.  Between a fork and a join launches can be captured in a CUDA graph.
  void fork(Stream stream);
  void join(Stream stream);

  // The library's own view, for operators; and a World around one that was made otherwise, for tests.
  explicit World(std::unique_ptr<runtime::WorldState> state);
  runtime::WorldState& state() { return *state_; }
  const runtime::WorldState& state() const { return *state_; }

 private:
  std::unique_ptr<runtime::WorldState> state_;
};

}  // namespace mk
