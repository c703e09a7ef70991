// SPDX-License-Identifier: MIT
// runtime/world.cc — the public World over WorldState.
#include "mkernel/world.h"

#include <utility>

#include "base/check.h"
#include "runtime/world_state.h"

namespace mk {

World World::local(int nodes, int ranks_per_node, DeviceKind device, const Options& options) {
  return World(runtime::make_local_world({nodes, ranks_per_node}, device, options));
}

World::World(std::unique_ptr<runtime::WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

int World::nodes() const { return state_->shape().nodes; }
int World::ranks_per_node() const { return state_->shape().ranks; }
int World::size() const { return state_->shape().size(); }
DeviceKind World::device() const { return state_->device().kind(); }

void World::synchronize() {
  state_->device().synchronize();
  state_->check_faults();
}

bool World::failed() const { return state_->failed(); }

Stream World::rank_stream(int rank) const {
  check_arg(rank >= 0 && rank < size(), "rank is {}; the world has {} ranks", rank, size());
  return state_->device().stream(rank);
}

void World::fork(Stream stream) { state_->device().fork(stream); }
void World::join(Stream stream) { state_->device().join(stream); }

}  // namespace mk
