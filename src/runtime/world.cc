// SPDX-License-Identifier: MIT
// runtime/world.cc — the public World over WorldState.
#include "mkernel/world.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "runtime/env_meeting.h"
#include "runtime/world_state.h"
#include "transport/bootstrap.h"

namespace mk {

World World::local(int nodes, int ranks_per_node, DeviceKind device, const Options& options) {
  return World(runtime::make_local_world({nodes, ranks_per_node}, device, options));
}

namespace {

// Where ranks 0 of this process listen, from the making of an id until they join with it.
class OpenRendezvous {
 public:
  std::string add() {
    auto rendezvous = std::make_unique<Rendezvous>();
    std::string id = rendezvous->id().to_string();
    const std::lock_guard lock(mutex_);
    open_[id] = std::move(rendezvous);
    return id;
  }

  std::unique_ptr<Rendezvous> take(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(id);
    check_arg(found != open_.end(), "id was not made by this process; rank 0 joins with one of its own unique_id()");
    std::unique_ptr<Rendezvous> taken = std::move(found->second);
    open_.erase(found);
    return taken;
  }

  static OpenRendezvous& of_process() {
    static OpenRendezvous all;
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Rendezvous>> open_;
};

}  // namespace

std::string World::unique_id() { return OpenRendezvous::of_process().add(); }

World World::join(const std::string& id, int rank, int nodes, int ranks_per_node, DeviceKind device,
                  const Options& options) {
  const WorldShape shape{nodes, ranks_per_node};
  if (rank != 0) return World(runtime::join_world(shape, rank, UniqueId::parse(id), device, options));
  return World(runtime::join_world(shape, OpenRendezvous::of_process().take(id), device, options));
}

World World::join(const std::string& id, int rank, int nodes, int ranks_per_node, const Options& options) {
  return join(id, rank, nodes, ranks_per_node, DeviceKind::kCpu, options);
}

World World::from_env(const Options& options) { return from_env(0, 0, options); }
World World::from_env(DeviceKind device, const Options& options) { return from_env(0, 0, device, options); }

World World::from_env(int nodes, int ranks_per_node, const Options& options) {
  return from_env(nodes, ranks_per_node, DeviceKind::kCpu, options);
}

World World::from_env(int nodes, int ranks_per_node, DeviceKind device, const Options& options) {
  static std::atomic<int> num_worlds = 0;  // of this process, as of every other of the job
  const runtime::LaunchEnv env = runtime::require_launch_env(runtime::environment);
  const int number = num_worlds++;
  WorldShape shape;
  try {
    shape = runtime::shape_for(env, nodes, ranks_per_node);
    runtime::check_world(shape, options);
  } catch (const Error& error) {
    const int64_t usual_ms = Options{}.timeout_ms;
    const int64_t timeout_ms = options.timeout_ms >= 1 ? std::min(options.timeout_ms, usual_ms) : usual_ms;
    runtime::tell_all_ranks(env, number, error.what(), std::chrono::milliseconds(timeout_ms));
    throw;
  }
  auto bootstrap = runtime::meet(env, number, std::chrono::milliseconds(options.timeout_ms));
  return World(runtime::join_world(shape, std::move(bootstrap), device, options));
}

World::World(std::unique_ptr<runtime::WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

runtime::WorldState& World::checked() const {
  check_arg(state_ != nullptr, "the World was moved from; use the one that it was moved to");
  return *state_;
}

int World::nodes() const { return checked().shape().nodes; }
int World::ranks_per_node() const { return checked().shape().ranks; }
int World::size() const { return checked().shape().size(); }
int World::first_rank() const { return checked().members().first; }
int World::num_ranks() const { return checked().members().count; }
std::string World::fabric() const { return checked().fabric(); }

std::string World::fabric_reach() const { return checked().fabric_reach(); }
DeviceKind World::device() const { return checked().device().kind(); }

void World::synchronize() { checked().synchronize(); }

bool World::failed() const { return checked().failed(); }
void World::check() const { checked().check(); }
void World::abort(const std::string& why) { checked().abort(why); }

namespace {

void check_here(const runtime::Members& members, int rank) {
  check_arg(members.has(rank), "rank is {}; here are ranks {} to {}", rank, members.first, members.end() - 1);
}

}  // namespace

NetworkStats World::network_stats(int rank) const {
  check_here(checked().members(), rank);
  return checked().network_stats(rank);
}

Stream World::rank_stream(int rank) const {
  check_here(checked().members(), rank);
  return checked().device().stream(rank);
}

void World::fork(Stream stream) {
  const auto call = checked().begin_call();
  checked().device().fork(stream);
}

void World::join(Stream stream) {
  const auto call = checked().begin_call();
  checked().device().join(stream);
}

}  // namespace mk
