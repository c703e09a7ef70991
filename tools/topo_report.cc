// SPDX-License-Identifier: MIT
// tools/topo_report.cc — see topo_report.h.
#include "topo_report.h"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "build_info.h"

namespace mk::tools {
namespace {

using nlohmann::ordered_json;

std::string counted(size_t count, const char* what) {
  return fmt::format("{} {}{}", count == 0 ? "no" : std::to_string(count), what, count == 1 ? "" : "s");
}

// "0-3,8"
std::string ranges_of(const std::vector<int>& numbers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? std::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(ranges, ","));
}

std::string speed_of(const Nic& nic) { return nic.gbps > 0 ? fmt::format("{:g} Gb/s", nic.gbps) : "speed unknown"; }

std::vector<int> gpus_served_by(const Placement& placement, size_t nic) {
  std::vector<int> gpus;
  for (size_t g = 0; g < placement.gpus.size(); ++g) {
    for (const Rail& rail : placement.gpus[g].rails) {
      if (rail.nic == static_cast<int>(nic)) gpus.push_back(static_cast<int>(g));
    }
  }
  return gpus;
}

std::string gpu_line(const Placement& placement, size_t gpu) {
  return fmt::format("GPU {:<12}  {}", gpu, placement.topology.gpus[gpu].location.address);
}

std::string nic_line(const Placement& placement, size_t index) {
  const Nic& nic = placement.topology.nics[index];
  const std::vector<int> gpus = gpus_served_by(placement, index);
  const std::string use = gpus.empty() ? name_of(placement.nics[index]) : "serves GPU " + ranges_of(gpus);
  return fmt::format("NIC {:<12}  {:<12}  {}, {}, {}: {}", nic.name(),
                     nic.location.address.empty() ? "not on PCI" : nic.location.address,
                     nic.link_layer.empty() ? "link unknown" : nic.link_layer, speed_of(nic), nic.state, use);
}

// Bridges with what is below them.  One that has but one thing below it is not printed: it divides nothing.
class Branch {
 public:
  void add(const std::vector<std::string>& bridges, size_t depth, std::string line) {
    if (depth == bridges.size()) {
      lines_.push_back(std::move(line));
    } else {
      below_[bridges[depth]].add(bridges, depth + 1, std::move(line));
    }
  }

  void print(std::string& out, const std::string& indent) const {
    for (const auto& [name, branch] : below_) branch.print_named(out, indent, name, "host bridge");
    for (const std::string& line : lines_) out += indent + line + "\n";
  }

 private:
  void print_named(std::string& out, const std::string& indent, const std::string& name, const char* kind) const {
    const bool divides = lines_.size() + below_.size() > 1 || std::string_view(kind) == "host bridge";
    if (divides) out += fmt::format("{}{} {}\n", indent, kind, name);
    const std::string deeper = divides ? indent + "  " : indent;
    for (const auto& [below, branch] : below_) branch.print_named(out, deeper, below, "switch");
    for (const std::string& line : lines_) out += deeper + line + "\n";
  }

  std::map<std::string, Branch> below_;
  std::vector<std::string> lines_;
};

std::string tree_text(const Placement& placement) {
  std::map<int, Branch> at_node;
  for (const NumaNode& node : placement.topology.numa_nodes) at_node[node.number];
  for (size_t i = 0; i < placement.topology.gpus.size(); ++i) {
    const Location& location = placement.topology.gpus[i].location;
    at_node[location.numa_node].add(location.bridges, 0, gpu_line(placement, i));
  }
  for (size_t i = 0; i < placement.topology.nics.size(); ++i) {
    const Location& location = placement.topology.nics[i].location;
    at_node[location.numa_node].add(location.bridges, 0, nic_line(placement, i));
  }
  std::string text;
  for (const NumaNode& node : placement.topology.numa_nodes) {
    text += fmt::format("NUMA node {}, cores {}\n", node.number, ranges_of(node.cores));
    at_node[node.number].print(text, "  ");
  }
  if (at_node.contains(-1)) {
    text += "NUMA node not known\n";
    at_node[-1].print(text, "  ");
  }
  return text;
}

std::string service_text(const Placement& placement) {
  constexpr auto kLine = "{:<5} {:<6} {:<14} {:<15} {:<19} {}\n";
  std::string text = fmt::format(kLine, "GPU", "rail", "NIC", "speed", "nearest in common", "cores for its proxy");
  for (size_t g = 0; g < placement.gpus.size(); ++g) {
    const std::string cores = ranges_of(placement.gpus[g].cores);
    for (const Rail& rail : placement.gpus[g].rails) {
      const Nic& nic = placement.topology.nics[rail.nic];
      text += fmt::format(kLine, g, rail.number, nic.name(), speed_of(nic), name_of(rail.distance), cores);
    }
  }
  return text;
}

ordered_json to_json(const Location& location) {
  return {{"address", location.address}, {"numa_node", location.numa_node}, {"bridges", location.bridges}};
}

}  // namespace

std::string topo_text(const Placement& placement) {
  const Topology& topology = placement.topology;
  std::string text =
      fmt::format("{}, {}, {}\n\n{}\n", counted(topology.numa_nodes.size(), "NUMA node"),
                  counted(topology.gpus.size(), "GPU"), counted(topology.nics.size(), "NIC"), tree_text(placement));
  if (topology.gpus.empty()) return text + "There is no GPU here, so there is nothing to serve.\n";
  if (topology.nics.empty()) return text + "There is no NIC here that can do RDMA, so no GPU is served.\n";
  if (placement.rails_per_gpu == 0) return text + "No NIC here can serve: the tree says why.\n";
  return text + service_text(placement);
}

std::string topo_json(const Placement& placement) {
  const Topology& topology = placement.topology;
  ordered_json nodes = ordered_json::array();
  for (const NumaNode& node : topology.numa_nodes) nodes.push_back({{"number", node.number}, {"cores", node.cores}});
  ordered_json gpus = ordered_json::array();
  for (size_t g = 0; g < topology.gpus.size(); ++g) {
    ordered_json rails = ordered_json::array();
    for (const Rail& rail : placement.gpus[g].rails) {
      rails.push_back({{"rail", rail.number},
                       {"nic", topology.nics[rail.nic].name()},
                       {"nearest_in_common", name_of(rail.distance)}});
    }
    ordered_json gpu = {{"gpu", g}};
    gpu.update(to_json(topology.gpus[g].location));
    gpu.update({{"rails", rails}, {"cores", placement.gpus[g].cores}});
    gpus.push_back(gpu);
  }
  ordered_json nics = ordered_json::array();
  for (size_t i = 0; i < topology.nics.size(); ++i) {
    const Nic& nic = topology.nics[i];
    ordered_json one = {{"nic", nic.name()}};
    one.update(to_json(nic.location));
    one.update({{"state", nic.state},
                {"link_layer", nic.link_layer},
                {"gbps", nic.gbps > 0 ? ordered_json(nic.gbps) : ordered_json()},
                {"use", name_of(placement.nics[i])}});
    nics.push_back(one);
  }
  const ordered_json json = {{"numa_nodes", nodes},
                             {"gpus", gpus},
                             {"nics", nics},
                             {"rails_per_gpu", placement.rails_per_gpu},
                             {"commit", MKERNEL_COMMIT}};
  return json.dump();
}

}  // namespace mk::tools
