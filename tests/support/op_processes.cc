// SPDX-License-Identifier: MIT
// tests/support/op_processes.cc — see op_processes.h.
#include "tests/support/op_processes.h"

#include <cstring>
#include <string>

namespace mk::test {
namespace {

size_t bytes_of(const Tensor& tensor) { return static_cast<size_t>(tensor.rows * tensor.cols) * size_of(tensor.dtype); }

// Calls body(rank, tensor) for all results, in one order.
template <class Body>
void for_each_result(std::vector<OpLaunch>& launches, Body&& body) {
  for (OpLaunch& launch : launches) {
    const std::vector<OpArgs> args = launch.args();
    for (size_t rank = 0; rank < args.size(); ++rank) {
      for (const Tensor& out : args[rank].out) body(static_cast<int>(rank), out);
    }
  }
}

}  // namespace

std::vector<OpLaunch> launches_of(Op op, const WorldShape& world, const Shape& shape, int count, uint64_t seed) {
  const RunOptions options{.dtype = row_of(op).sizes().between_processes, .seed = seed, .form = GemmForm{}};
  std::vector<OpLaunch> launches;
  for (int i = 0; i < count; ++i) launches.push_back(launch_number(i, op, world, shape, options));
  return launches;
}

testing::AssertionResult processes_leave_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                               const std::function<void(int rank)>& run) {
  size_t bytes = 1;
  for_each_result(launches, [&](int, const Tensor& out) { bytes += bytes_of(out); });
  const CommonMemory results(bytes);
  const auto run_and_tell = [&](int own) {
    run(own);
    std::byte* to = results.data();
    for_each_result(launches, [&](int rank, const Tensor& out) {
      if (rank == own) std::memcpy(to, out.data, bytes_of(out));
      to += bytes_of(out);
    });
    return true;
  };
  if (auto done = processes_do(shape.size(), run_and_tell); !done) return done;
  const std::byte* from = results.data();
  for_each_result(launches, [&](int, const Tensor& out) {
    std::memcpy(out.data, from, bytes_of(out));
    from += bytes_of(out);
  });
  for (const OpLaunch& launch : launches) {
    if (auto right = launch.is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult processes_run_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                             const std::function<World(int rank)>& join) {
  return processes_leave_right(shape, launches, [&](int rank) {
    World world = join(rank);
    for (OpLaunch& launch : launches) enqueue(world, launch);
    world.synchronize();
  });
}

testing::AssertionResult processes_run_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                             const Options& options) {
  const std::string id = World::unique_id();
  return processes_run_right(shape, launches,
                             [&](int rank) { return World::join(id, rank, shape.nodes, shape.ranks, options); });
}

}  // namespace mk::test
