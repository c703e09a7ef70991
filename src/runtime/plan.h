// SPDX-License-Identifier: MIT
// runtime/plan.h — what one shape of one operator keeps in a World: windows, signals, epoch, faults.
//
// Every plan has its own signals and its own epoch, so launches of different shapes may follow each
// other in any order that is the same on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/rank_view.h"
#include "runtime/device.h"
#include "runtime/members.h"
#include "runtime/rails.h"
#include "transport/bootstrap.h"

namespace mk::runtime {

struct PlanSpec {
  std::vector<uint64_t> window_bytes;  // slots from kFirstOperatorWindow on
  uint32_t num_signals = 0;
  int workers = 0;  // per rank
  Names names;
  std::shared_ptr<const void> layout;  // the operator's own
};

// Symmetric memory a rank needs for a spec.
uint64_t workspace_bytes(const PlanSpec& spec);

// What the plans of a World have in common.
struct PlanSite {
  WorldShape world;
  Members members;
  Device& device;
  WindowRegistry& windows;
  const std::vector<RingView>& rings;  // [rank]
  uint64_t* stop = nullptr;
  uint64_t timeout_ns = 0;
  Bootstrap* bootstrap = nullptr;  // null: all ranks are here
  Rails* rails = nullptr;          // null: there is one node, or a loopback that needs none
};

class Plan {
 public:
  // Takes memory and tells nobody.
  Plan(uint32_t id, PlanSpec spec, const PlanSite& site);

  // Once, before anything else: makes the windows known.  Among several processes all open the same plans in the same
  // order.  If it throws, others may have been told already: the plan stays until no proxy is left.
  void open(const PlanSite& site);

  const RankView& view(int rank) const { return views_[rank]; }
  std::byte* window(uint32_t slot, int rank) const { return windows_[slot][rank]; }
  const PlanSpec& spec() const { return spec_; }
  template <class Layout>
  const Layout& layout() const {
    return *static_cast<const Layout*>(spec_.layout.get());
  }

  // When no launch runs any more anywhere: before a rank frees its windows, nobody else has them mapped.
  void close_windows_of_peers() noexcept { of_peers_.clear(); }

  // Sealed records of all workers of the ranks that are here.
  std::vector<FaultRecord> faults() const;
  // Records of inputs that were refused, which are no faults; they are cleared.  Call when no launch is running.
  std::vector<FaultRecord> take_refusals();

  // Moved to or from node peers by `rank` over all launches so far.  Call when no launch is running.
  uint64_t nvlink_bytes(int rank) const;

 private:
  void allocate_windows(const PlanSite& site);
  void open_windows_of_peers(const PlanSite& site);
  std::vector<std::string> handles_of(const PlanSite& site, size_t slot) const;
  void forget_handles(const PlanSite& site) const;

  struct Counters {  // near the workers
    uint64_t exits = 0;
    uint64_t target_words[kTargetWords] = {};
    uint64_t nvlink_bytes = 0;
  };

  uint32_t id_;
  PlanSpec spec_;
  Device& device_;
  std::vector<uint64_t> slot_bytes_;
  std::vector<Buffer> buffers_;
  std::vector<WindowMemory> memory_;              // of the ranks that are here
  std::vector<WindowMemory> of_peers_;            // of the node's other ranks, mapped
  std::vector<std::vector<std::byte*>> windows_;  // [slot][rank], null where this process cannot reach
  std::vector<RankView> views_;                   // [rank], of those that are here
};

}  // namespace mk::runtime
