// SPDX-License-Identifier: MIT
// runtime/world_state.cc — builds a World and tears it down.
#include "runtime/world_state.h"

#include <bit>
#include <chrono>
#include <thread>
#include <utility>

#include "base/atomics.h"
#include "base/check.h"
#include "base/what.h"
#include "runtime/device_choice.h"
#include "runtime/host_device.h"
#include "runtime/proxy_cores.h"
#include "transport/direct_choice.h"
#include "transport/fabric_choice.h"
#include "transport/fabric_kinds.h"
#include "transport/rdma_settings.h"

namespace mk::runtime {

WorldState::WorldState(const WorldShape& shape, std::unique_ptr<Device> device, const Options& options,
                       const FabricHook& hook)
    : shape_(shape), members_{0, shape.size()}, options_(options), device_(std::move(device)) {
  stop_ = buffers_.emplace_back(*device_, sizeof(uint64_t), Buffer::Kind::kShared).as<uint64_t>();
  rings_.resize(shape.size());
  if (shape.nodes > 1) connect_rails(hook);
}

WorldState::Alarm::Alarm(Star& star, uint64_t* stop) : star_(star) {
  star_.on_failure([stop] { HostAtomics::store_release(stop, 1); });
}

WorldState::Alarm::~Alarm() { star_.on_failure({}); }

WorldState::WorldState(const WorldShape& shape, std::shared_ptr<Bootstrap> bootstrap, std::unique_ptr<Device> device,
                       const Options& options)
    : shape_(shape),
      members_{bootstrap->rank(), 1},
      options_(options),
      bootstrap_(std::move(bootstrap)),
      device_(std::move(device)) {
  stop_ = buffers_.emplace_back(*device_, sizeof(uint64_t), Buffer::Kind::kShared).as<uint64_t>();
  alarm_ = std::make_unique<Alarm>(bootstrap_->star(), stop_);
  rings_.resize(shape.size());
  if (shape.nodes > 1) connect_rails({});
}

namespace {

// This rank has failed: all are told, and what is known of the cause stands first.
Error explained(const Error& error, Star& star) {
  const std::string own = error.what();
  const std::string cause = star.report(own);
  if (cause.empty() || own.find(cause) != own.npos) return error;
  if (cause.find(own) != cause.npos) return {error.code(), cause};
  return {ErrorCode::kFabric, fmt::format("{}; {}", cause, own)};
}

bool is_loopback(const std::string& net) { return net == kAutomaticFabric || net == "loopback"; }

}  // namespace

// Each rank that is here has a ring, a proxy and its end of the fabric.
void WorldState::connect_rails(const FabricHook& hook) {
  if (bootstrap_ != nullptr || !is_loopback(options_.net)) {
    rails_ = std::make_unique<Rails>(shape_, members_, options_, bootstrap_.get(), *device_, windows_);
  }
  const int num_proxies = bootstrap_ == nullptr ? members_.count : shape_.ranks;  // of this machine, as far as is known
  const auto patience =
      affordable_patience(device_->proxy_patience(), num_proxies, std::thread::hardware_concurrency());
  for (int rank = members_.first; rank < members_.end(); ++rank) {
    rings_[rank] = make_ring();
    std::unique_ptr<Fabric> fabric = rails_ == nullptr ? device_->make_loopback(windows_, rank) : rails_->take(rank);
    if (hook) fabric = hook(std::move(fabric), windows_, rank);
    const ProxySettings settings{patience, proxy_cores(this->fabric(), shape_.local_of(rank), options_), rank};
    proxies_.push_back(std::make_unique<Proxy>(rings_[rank], std::move(fabric), stop_, settings));
  }
}

// True when all ranks have come so far; false if somebody is gone already and there is nobody left to tell.
bool WorldState::agree(const char* what) {
  try {
    bootstrap_->all_gather("", what);
    return true;
  } catch (const Error&) {
    return false;
  }
}

WorldState::~WorldState() {
  try {
    device_->synchronize();  // bounded: every wait of a worker is
  } catch (const Error&) {
    // A device that failed has no running launches left to wait for.
  }
  // All agree before they go, because to its peers an end of a fabric that is gone has died.  Whoever failed goes at
  // once, so that the others do not wait for it.
  const bool all_agree = bootstrap_ != nullptr && !failed() && agree("all ranks to end the World");
  proxies_.clear();
  for (Plan* plan : plans()) plan->close_windows_of_peers();
  if (all_agree) agree("all ranks to close each other's windows");  // a GPU's must not go while somebody has them
}

RingView WorldState::make_ring() {
  RingView ring;
  ring.capacity = static_cast<uint32_t>(options_.ring_capacity);
  ring.slots = buffers_.emplace_back(*device_, ring.capacity * sizeof(Command), Buffer::Kind::kShared).as<Command>();
  ring.claimed = buffers_.emplace_back(*device_, sizeof(uint64_t)).as<uint64_t>();
  ring.consumed = buffers_.emplace_back(*device_, sizeof(uint64_t), Buffer::Kind::kShared).as<uint64_t>();
  ring.completed = buffers_.emplace_back(*device_, sizeof(uint64_t), Buffer::Kind::kShared).as<uint64_t>();
  return ring;
}

Plan& WorldState::plan(const std::string& key, const std::function<PlanSpec()>& make_spec) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return *found->second;
  try {
    return make_plan(key, make_spec);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument && !failed()) throw;
    throw explain(error);
  } catch (const std::exception& error) {  // no memory, say
    throw explain(Error(ErrorCode::kDevice, what_of(error)));
  }
}

// Before there is any plan, every rank's call begins with an agreement, which this answers.  Later the others may have
// a plan and launch at once: then they hear of it only if that fails, as the numbers of exchanges must stay in step.
void WorldState::tell_refusal(const std::string& why) {
  if (bootstrap_ == nullptr) return;
  if (plans_.empty()) {
    bootstrap_->star().decline(why);
  } else {
    bootstrap_->star().mention(why);
  }
}

Plan& WorldState::make_plan(const std::string& key, const std::function<PlanSpec()>& make_spec) {
  const uint32_t id = static_cast<uint32_t>(plans().size());
  const uint64_t timeout_ns = static_cast<uint64_t>(options_.timeout_ms) * 1'000'000;
  if (bootstrap_ != nullptr) check_agreed(key);
  const PlanSite site{shape_, members_, *device_, windows_, rings_, stop_, timeout_ns, bootstrap_.get(), rails_.get()};
  PlanSpec spec = make_spec();
  std::unique_ptr<Plan> plan;
  try {
    plan = std::make_unique<Plan>(id, std::move(spec), site);
    plan->open(site);
  } catch (const std::exception& error) {
    if (bootstrap_ != nullptr || plan != nullptr) stop(error);  // others may have it, and go on
    if (plan != nullptr) half_open_.push_back(std::move(plan));
    throw;
  }
  Plan& made = *(plans_[key] = std::move(plan));
  const std::lock_guard lock(looked_at_);
  plans_by_id_.push_back(&made);
  return made;
}

std::vector<Plan*> WorldState::plans() const {
  const std::lock_guard lock(looked_at_);
  return plans_by_id_;
}

std::optional<Error> WorldState::stopped_by() const {
  const std::lock_guard lock(looked_at_);
  return stopped_by_;
}

// Every rank is at the same problem, or nobody begins.
void WorldState::check_agreed(const std::string& key) const {
  std::vector<std::string> keys;
  try {
    keys = bootstrap_->all_gather(key, "the agreement on a problem");
  } catch (const Declined& declined) {
    throw Error(declined.code(),
                fmt::format("{}; rank {} asks for {} and all must agree", declined.what(), members_.first, key));
  }
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    check_arg(keys[rank] == keys[0], "rank {} asks for {}; rank 0 asks for {} and all must agree", rank, keys[rank],
              keys[0]);
  }
}

std::vector<std::string> WorldState::exchange(const std::string& mine, const std::string& what) {
  if (bootstrap_ == nullptr) return {mine};
  try {
    return bootstrap_->all_gather(mine, what);
  } catch (const Declined&) {
    throw;
  } catch (const Error& error) {
    throw explain(error);
  }
}

Error WorldState::explain(const Error& error) {
  if (bootstrap_ == nullptr) return error;
  stop(error);
  return explained(error, bootstrap_->star());
}

void check_world(const WorldShape& shape, const Options& options) {
  constexpr int kMostRanks = 4096;
  check_arg(shape.nodes >= 1, "nodes is {}; it must be at least 1", shape.nodes);
  check_arg(shape.ranks >= 1, "ranks_per_node is {}; it must be at least 1", shape.ranks);
  check_arg(shape.nodes <= kMostRanks && shape.ranks <= kMostRanks && shape.size() <= kMostRanks,
            "nodes x ranks is {} x {}; a World holds at most {} ranks", shape.nodes, shape.ranks, kMostRanks);
  constexpr int64_t kLongestMs = int64_t{1} << 40;
  check_arg(options.timeout_ms >= 1 && options.timeout_ms <= kLongestMs, "timeout_ms is {}; it must be 1 to {}",
            options.timeout_ms, kLongestMs);
  constexpr int kMostCommands = 1 << 20;
  check_arg(options.ring_capacity >= 1 && options.ring_capacity <= kMostCommands &&
                std::has_single_bit(static_cast<unsigned>(options.ring_capacity)),
            "ring_capacity is {}; it must be a power of two up to {}", options.ring_capacity, kMostCommands);
  check_arg(options.queue_depth >= 0 && options.queue_depth <= RdmaSettings::kMostDepth,
            "queue_depth is {}; it must be 0 (chosen) to {}", options.queue_depth, RdmaSettings::kMostDepth);
  check_net(options.net);
  check_gpu_direct(options.gpu_direct);
}

std::unique_ptr<WorldState> make_local_world(const WorldShape& shape, DeviceKind kind, const Options& options,
                                             const FabricHook& hook) {
  check_world(shape, options);
  const bool use_cuda = kind == DeviceKind::kCuda || (kind == DeviceKind::kAuto && why_no_cuda().empty());
  std::unique_ptr<Device> device;
  if (use_cuda) {
    check_arg(is_loopback(options.net), "net is '{}'; ranks that share a GPU have loopback only", options.net);
    device = make_cuda_device(shape.size());
  } else {
    const bool maps = options.net != kAutomaticFabric && fabric_kind(options.net).maps_windows;
    device = std::make_unique<HostDevice>(Members{0, shape.size()},
                                          maps ? Device::Windows::kShared : Device::Windows::kPrivate);
  }
  return std::make_unique<WorldState>(shape, std::move(device), options, hook);
}

namespace {

std::chrono::milliseconds timeout_of(const Options& options) { return std::chrono::milliseconds(options.timeout_ms); }

void check_same_shape(const WorldShape& shape, Bootstrap& bootstrap) {
  const std::vector<std::string> shapes =
      bootstrap.all_gather(fmt::format("{} x {}", shape.nodes, shape.ranks), "the agreement on nodes x ranks");
  for (size_t rank = 0; rank < shapes.size(); ++rank) {
    check_arg(shapes[rank] == shapes[0], "rank {} asks for nodes x ranks {}; rank 0 asks for {} and all must agree",
              rank, shapes[rank], shapes[0]);
  }
}

// What only one rank knows of its GPU is told to all.
std::unique_ptr<Device> take_gpu(const GpuSeat& seat, Bootstrap& bootstrap) {
  std::unique_ptr<Device> device;
  std::string trouble;
  try {
    device = make_cuda_device(seat);
  } catch (const Error& error) {
    trouble = error.what();
  }
  const std::vector<std::string> troubles = bootstrap.all_gather(trouble, "the GPUs of all ranks");
  for (size_t rank = 0; rank < troubles.size(); ++rank) {
    if (troubles[rank].empty()) continue;
    throw Error(ErrorCode::kUnavailable, fmt::format("rank {} cannot use its GPU: {}", rank, troubles[rank]));
  }
  return device;
}

}  // namespace

std::unique_ptr<WorldState> join_world(const WorldShape& shape, std::shared_ptr<Bootstrap> bootstrap, DeviceKind kind,
                                       const Options& options) {
  try {
    check_same_shape(shape, *bootstrap);
    const std::vector<std::string> offers =
        bootstrap->all_gather(to_text(offer_here(kind)), "the devices of all ranks");
    const DeviceChoice choice = choose_device(offers, bootstrap->rank());
    std::unique_ptr<Device> device;
    if (choice.kind == DeviceKind::kCuda) {
      device = take_gpu(choice.seat, *bootstrap);
    } else {
      device = std::make_unique<HostDevice>(Members{bootstrap->rank(), 1}, Device::Windows::kShared);
    }
    return std::make_unique<WorldState>(shape, bootstrap, std::move(device), options);
  } catch (const Error& error) {
    throw explained(error, bootstrap->star());
  }
}

std::unique_ptr<WorldState> join_world(const WorldShape& shape, std::unique_ptr<Rendezvous> rendezvous, DeviceKind kind,
                                       const Options& options) {
  check_world(shape, options);
  return join_world(shape, std::make_unique<Bootstrap>(std::move(rendezvous), shape.size(), timeout_of(options)), kind,
                    options);
}

std::unique_ptr<WorldState> join_world(const WorldShape& shape, int rank, const UniqueId& id, DeviceKind kind,
                                       const Options& options) {
  check_world(shape, options);
  return join_world(shape, std::make_unique<Bootstrap>(id, rank, shape.size(), timeout_of(options)), kind, options);
}

}  // namespace mk::runtime
