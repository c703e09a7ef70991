// SPDX-License-Identifier: MIT
// runtime/world_state.h — what a World owns: the device, rings and proxies, plans, the stop word.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "runtime/device.h"
#include "runtime/members.h"
#include "runtime/plan.h"
#include "runtime/proxy.h"
#include "runtime/rails.h"
#include "runtime/trace.h"
#include "transport/bootstrap.h"
#include "transport/window_registry.h"

namespace mk::runtime {

// Wraps or replaces a rank's fabric; tests use it to disturb puts, benchmarks to model a network.
using FabricHook =
    std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>, const WindowRegistry& windows, int rank)>;

class WorldState {
 public:
  // All ranks of the world are here.
  WorldState(const WorldShape& shape, std::unique_ptr<Device> device, const Options& options,
             const FabricHook& hook = {});
  // One rank is here, the others are processes that have met.
  WorldState(const WorldShape& shape, std::shared_ptr<Bootstrap> bootstrap, std::unique_ptr<Device> device,
             const Options& options);
  ~WorldState();

  const WorldShape& shape() const { return shape_; }
  const Members& members() const { return members_; }
  const Options& options() const { return options_; }
  Device& device() { return *device_; }
  const Device& device() const { return *device_; }
  Trace* trace() { return options_.trace ? &trace_ : nullptr; }

  // A call holds this from its beginning to its end, so calls of several threads follow each other.  What is not said
  // to be for any thread is for who holds it.
  [[nodiscard]] std::unique_lock<std::mutex> begin_call() { return std::unique_lock(calls_); }

  // The plan called `key`, made by `make_spec` on first use.
  Plan& plan(const std::string& key, const std::function<PlanSpec()>& make_spec);

  // What every process of the World says, in the order of their ranks; all call it in the same order.
  std::vector<std::string> exchange(const std::string& mine, const std::string& what);

  // Returns check().  If that refuses an argument, the ranks that make the same call are told: those that come to agree
  // on its problem refuse it as well.
  template <class Check>
  auto checked(Check&& check) -> decltype(check()) {
    try {
      return check();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInvalidArgument) tell_refusal(error.what());
      throw;
    }
  }

  // This rank cannot go on: all ranks are told, and give up.  Returns the error with what is known of its cause in
  // front: which rank is gone or does not answer.
  Error explain(const Error& error);

  // Before ranks are launched.
  void expect_commands() {
    for (const auto& proxy : proxies_) proxy->expect_commands();
  }

  // For any thread, at any time.  Faults so far: `check` throws the Error of the first, `check_usable` says with it
  // that this World is of no use any more.  `abort`: every wait gives up, here and at other ranks, which are told why.
  bool failed() const;
  void check() const;
  void check_usable() const;
  std::vector<FaultRecord> faults() const;
  void abort(const std::string& why);

  void stop(const std::exception& why);  // every wait gives up: some ranks were launched, but not all can be
  // Until every launch so far has finished; throws the Error of the first fault, if any.  Holds no call while launches
  // run, so for any thread.
  void synchronize();
  void check_faults() const;  // the same without having waited

  std::string fabric() const { return shape_.nodes == 1 ? "none" : rails_ == nullptr ? "loopback" : rails_->fabric(); }
  std::string fabric_reach() const { return rails_ == nullptr ? "" : rails_->reach(); }
  // Of a rank that is here.
  NetworkStats network_stats(int rank) const {
    return proxies_.empty() ? NetworkStats{} : proxies_[rank - members_.first]->stats();
  }

 private:
  // Raises the stop word when another rank fails.
  class Alarm {
   public:
    Alarm(Star& star, uint64_t* stop);
    Alarm(const Alarm&) = delete;
    ~Alarm();

   private:
    Star& star_;
  };

  void tell_refusal(const std::string& why);
  void throw_refusals();  // inputs of launches that workers refused, if any; the World goes on
  std::vector<Plan*> plans() const;
  std::optional<Error> stopped_by() const;
  Plan& make_plan(const std::string& key, const std::function<PlanSpec()>& make_spec);
  RingView make_ring();
  void connect_rails(const FabricHook& hook);
  bool agree(const char* what);
  void check_agreed(const std::string& key) const;

  WorldShape shape_;
  Members members_;
  Options options_;
  std::shared_ptr<Bootstrap> bootstrap_;  // null: all ranks are here
  std::unique_ptr<Device> device_;
  std::vector<Buffer> buffers_;
  uint64_t* stop_ = nullptr;
  std::unique_ptr<Alarm> alarm_;  // null: all ranks are here
  std::vector<RingView> rings_;
  WindowRegistry windows_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
  std::vector<std::unique_ptr<Plan>> half_open_;  // those that failed: peers may still put into their windows
  std::mutex calls_;
  mutable std::mutex looked_at_;  // guards what any thread may look at: the next, and stopped_by_
  std::vector<Plan*> plans_by_id_;
  std::unique_ptr<Rails> rails_;  // null: one node, or the device's loopback
  std::vector<std::unique_ptr<Proxy>> proxies_;
  Trace trace_;
  std::optional<Error> stopped_by_;  // of who launches or aborts, before the stop word is raised
};

// Throws Error(kInvalidArgument) if no World can be so.
void check_world(const WorldShape& shape, const Options& options);

std::unique_ptr<WorldState> make_local_world(const WorldShape& shape, DeviceKind kind, const Options& options,
                                             const FabricHook& hook = {});

// This process is rank 0, and has the rendezvous to which the id of all others points; or it is another.
std::unique_ptr<WorldState> join_world(const WorldShape& shape, std::unique_ptr<Rendezvous> rendezvous, DeviceKind kind,
                                       const Options& options);
std::unique_ptr<WorldState> join_world(const WorldShape& shape, int rank, const UniqueId& id, DeviceKind kind,
                                       const Options& options);
// The same, of processes that have met.
std::unique_ptr<WorldState> join_world(const WorldShape& shape, std::shared_ptr<Bootstrap> bootstrap, DeviceKind kind,
                                       const Options& options);

}  // namespace mk::runtime
