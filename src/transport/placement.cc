// SPDX-License-Identifier: MIT
// transport/placement.cc — see placement.h.
#include "transport/placement.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/check.h"
#include "transport/assignment.h"
#include "transport/nic_list.h"

namespace mk {
namespace {

using Costs = std::vector<std::vector<int64_t>>;

constexpr size_t kMostGpus = size_t{1} << 6;
constexpr size_t kMostNics = size_t{1} << 8;

// What an assignment costs.  Each outweighs what all GPUs together can have of those before it, the first what
// they can be out of order.
constexpr int64_t kSlower = int64_t{1} << 22;  // per speed that is faster
constexpr int64_t kShared = int64_t{1} << 36;  // per GPU that the NIC serves already
constexpr int64_t kTooFar = int64_t{1} << 48;

// What keeps a NIC from serving, before any is chosen.
std::vector<NicUse> uses_before(const std::vector<Nic>& nics, const NicList& list) {
  std::vector<NicUse> uses(nics.size(), NicUse::kIdle);
  double fastest = 0;
  for (const Nic& nic : nics) {
    if (nic.active()) fastest = std::max(fastest, nic.gbps);
  }
  const bool listed = !list.allowed.empty() || !list.of_gpu.empty();
  for (size_t i = 0; i < nics.size(); ++i) {
    const bool known = nics[i].gbps > 0;
    if (!nics[i].active()) {
      uses[i] = NicUse::kNotActive;
    } else if (listed && std::find(list.allowed.begin(), list.allowed.end(), i) == list.allowed.end()) {
      uses[i] = NicUse::kNotListed;
    } else if (!listed && known && nics[i].gbps * kFarSlowerBy < fastest) {
      uses[i] = NicUse::kFarSlower;
    }
  }
  return uses;
}

// Chooses among some NICs of a node.
class Chooser {
 public:
  Chooser(const Topology& topology, std::vector<int> usable) : topology_(topology), usable_(std::move(usable)) {
    for (const int i : usable_) speeds_.push_back(nic(i).gbps);
    std::sort(speeds_.begin(), speeds_.end(), std::greater<>());
    speeds_.erase(std::unique(speeds_.begin(), speeds_.end()), speeds_.end());
    for (const Gpu& gpu : topology_.gpus) {
      Near near;
      for (const int i : usable_) near.distance = std::min(near.distance, distance(gpu.location, nic(i).location));
      for (const int i : usable_) {
        if (is_near(gpu, near, i)) near.fastest = std::max(near.fastest, nic(i).gbps);
      }
      near_.push_back(near);
    }
  }

  // The NICs of each GPU.
  std::vector<std::vector<int>> choose(int most_rails) const {
    const size_t num_gpus = topology_.gpus.size();
    if (usable_.empty() || num_gpus == 0) return std::vector<std::vector<int>>(num_gpus);
    size_t rails = usable_.size() / num_gpus;
    if (most_rails > 0) rails = std::min(rails, static_cast<size_t>(most_rails));
    for (; rails > 1; --rails) {
      std::vector<std::vector<int>> nics = several_each(rails);
      if (!nics.empty()) return nics;
    }
    return one_each();
  }

 private:
  // Of a GPU: its least distance to a NIC, and the fastest one there.
  struct Near {
    Distance distance = Distance::kMachine;
    double fastest = 0;
  };

  const Nic& nic(int index) const { return topology_.nics[index]; }

  bool is_near(const Gpu& gpu, const Near& near, int index) const {
    return distance(gpu.location, nic(index).location) == near.distance;
  }

  int64_t slowness(int index) const {
    return std::find(speeds_.begin(), speeds_.end(), nic(index).gbps) - speeds_.begin();
  }

  // Squares keep the order: of two GPUs, the first gets the first of two NICs.
  static int64_t out_of_order(size_t a, size_t b) {
    const int64_t apart = static_cast<int64_t>(a) - static_cast<int64_t>(b);
    return apart * apart;
  }

  // Rules 2 to 4.  A NIC has a column for each GPU that it may have to serve, each dearer than the one before.
  std::vector<std::vector<int>> one_each() const {
    const size_t num_gpus = topology_.gpus.size();
    Costs costs(num_gpus);
    for (size_t g = 0; g < num_gpus; ++g) {
      for (size_t share = 0; share < num_gpus; ++share) {
        for (size_t i = 0; i < usable_.size(); ++i) {
          const bool near = is_near(topology_.gpus[g], near_[g], usable_[i]);
          const int64_t cost = static_cast<int64_t>(share) * kShared + slowness(usable_[i]) * kSlower;
          costs[g].push_back(near ? cost + out_of_order(g, i) : kTooFar);
        }
      }
    }
    std::vector<std::vector<int>> nics;
    for (const int column : assign(costs)) nics.push_back({usable_[column % usable_.size()]});
    return nics;
  }

  // Rule 5.  Empty if some GPU cannot have so many.
  std::vector<std::vector<int>> several_each(size_t rails) const {
    Costs costs(topology_.gpus.size() * rails);
    for (size_t row = 0; row < costs.size(); ++row) {
      const size_t g = row / rails;
      for (size_t i = 0; i < usable_.size(); ++i) {
        const bool good = is_near(topology_.gpus[g], near_[g], usable_[i]) && nic(usable_[i]).gbps == near_[g].fastest;
        costs[row].push_back(good ? out_of_order(row, i) : kTooFar);
      }
    }
    const std::vector<int> columns = assign(costs);
    std::vector<std::vector<int>> nics(topology_.gpus.size());
    for (size_t row = 0; row < costs.size(); ++row) {
      if (costs[row][columns[row]] == kTooFar) return {};
      nics[row / rails].push_back(usable_[columns[row]]);
    }
    for (std::vector<int>& of_gpu : nics) std::sort(of_gpu.begin(), of_gpu.end());
    return nics;
  }

  const Topology& topology_;
  std::vector<int> usable_;
  std::vector<double> speeds_;  // that there are, the fastest first
  std::vector<Near> near_;      // of each GPU
};

// The cores of a NUMA node; all if it is not known.
std::vector<int> cores_of(const Topology& topology, int numa_node) {
  std::vector<int> cores;
  for (const NumaNode& node : topology.numa_nodes) {
    if (numa_node < 0 || node.number == numa_node) cores.insert(cores.end(), node.cores.begin(), node.cores.end());
  }
  return cores;
}

// The GPUs whose first NICs are at one NUMA node divide its cores; if there are too few, each has them all.
void share_cores(Placement& placement) {
  std::map<int, std::vector<size_t>> gpus_at;
  for (size_t g = 0; g < placement.gpus.size(); ++g) {
    const std::vector<Rail>& rails = placement.gpus[g].rails;
    const Topology& topology = placement.topology;
    gpus_at[rails.empty() ? topology.gpus[g].location.numa_node : topology.nics[rails[0].nic].location.numa_node]
        .push_back(g);
  }
  for (const auto& [numa_node, gpus] : gpus_at) {
    const std::vector<int> cores = cores_of(placement.topology, numa_node);
    const bool enough = cores.size() >= gpus.size();
    for (size_t i = 0; i < gpus.size(); ++i) {
      const size_t begin = enough ? cores.size() * i / gpus.size() : 0;
      const size_t end = enough ? cores.size() * (i + 1) / gpus.size() : cores.size();
      placement.gpus[gpus[i]].cores.assign(cores.begin() + begin, cores.begin() + end);
    }
  }
}

}  // namespace

Placement place(Topology topology, const std::string& nics, int most_rails) {
  check_arg(topology.gpus.size() <= kMostGpus && topology.nics.size() <= kMostNics,
            "the node has {} GPUs and {} NICs; at most {} and {} can be placed", topology.gpus.size(),
            topology.nics.size(), kMostGpus, kMostNics);
  sort_by_address(topology);
  const NicList list = parse_nic_list(nics, topology);
  Placement placement;
  placement.topology = std::move(topology);
  placement.nics = uses_before(placement.topology.nics, list);
  std::vector<int> usable;
  for (size_t i = 0; i < placement.nics.size(); ++i) {
    if (placement.nics[i] == NicUse::kIdle) usable.push_back(static_cast<int>(i));
  }
  const std::vector<std::vector<int>> chosen =
      list.of_gpu.empty() ? Chooser(placement.topology, usable).choose(most_rails) : list.of_gpu;
  placement.gpus.resize(chosen.size());
  placement.rails_per_gpu = chosen.empty() ? 0 : static_cast<int>(chosen[0].size());
  int number = 0;
  for (size_t g = 0; g < chosen.size(); ++g) {
    for (const int nic : chosen[g]) {
      const Distance far = distance(placement.topology.gpus[g].location, placement.topology.nics[nic].location);
      placement.gpus[g].rails.push_back({.number = number++, .nic = nic, .distance = far});
      placement.nics[nic] = NicUse::kServes;
    }
  }
  share_cores(placement);
  return placement;
}

const char* name_of(NicUse use) {
  switch (use) {
    case NicUse::kServes: return "serves";
    case NicUse::kIdle: return "idle";
    case NicUse::kNotActive: return "not active";
    case NicUse::kFarSlower: return "far slower than the fastest";
    case NicUse::kNotListed: return "not listed";
  }
  return "?";
}

}  // namespace mk
