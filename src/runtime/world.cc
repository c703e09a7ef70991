// SPDX-License-Identifier: MIT
// runtime/world.cc — the public World over WorldState.
#include "mkernel/world.h"

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
    runtime::tell_all_ranks(env, number, error.what());
    throw;
  }
  auto bootstrap = runtime::meet(env, number, std::chrono::milliseconds(options.timeout_ms));
  return World(runtime::join_world(shape, std::move(bootstrap), device, options));
}

World::World(std::unique_ptr<runtime::WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

int World::nodes() const { return state_->shape().nodes; }
int World::ranks_per_node() const { return state_->shape().ranks; }
int World::size() const { return state_->shape().size(); }
int World::first_rank() const { return state_->members().first; }
int World::num_ranks() const { return state_->members().count; }
std::string World::fabric() const { return state_->fabric(); }

std::string World::fabric_reach() const { return state_->fabric_reach(); }
DeviceKind World::device() const { return state_->device().kind(); }

void World::synchronize() {
  state_->synchronize();
}

bool World::failed() const { return state_->failed(); }

namespace {

void check_here(const runtime::Members& members, int rank) {
  check_arg(members.has(rank), "rank is {}; here are ranks {} to {}", rank, members.first, members.end() - 1);
}

}  // namespace

NetworkStats World::network_stats(int rank) const {
  check_here(state_->members(), rank);
  return state_->network_stats(rank);
}

Stream World::rank_stream(int rank) const {
  check_here(state_->members(), rank);
  return state_->device().stream(rank);
}

void World::fork(Stream stream) { state_->device().fork(stream); }
void World::join(Stream stream) { state_->device().join(stream); }

}  // namespace mk
