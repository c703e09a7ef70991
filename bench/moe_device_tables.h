// SPDX-License-Identifier: MIT
// bench/moe_device_tables.h — MoeTables in memory of the GPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/moe_tables.h"
#include "runtime/device.h"

namespace mk::bench {

// Lists there.
template <class T>
class DeviceLists {
 public:
  DeviceLists() = default;
  DeviceLists(runtime::Device& device, const Lists<T>& lists) : parts_(lists.parts) {
    if (lists.all.empty()) return;
    memory_ = runtime::Buffer(device, lists.all.size() * sizeof(T));
    device.upload(memory_.as(), lists.all.data(), memory_.bytes());
  }

  std::span<const T> part(int number) const {
    const Range& part = parts_[number];
    return {memory_.as<const T>() + part.first, static_cast<size_t>(part.count)};
  }

 private:
  runtime::Buffer memory_;
  std::vector<Range> parts_;
};

struct MoeDeviceTables {
  struct Rank {
    DeviceLists<RowMove> pack;
    DeviceLists<RowMove> spread;
    DeviceLists<RowMove> forward;
    DeviceLists<RowMove> give_back;
    DeviceLists<RowTerm> terms;  // one part
    DeviceLists<RowSum> for_rails;
    DeviceLists<RowSum> own;
    std::vector<std::vector<int>> products;  // [which product][entry of groups]: numbers of a GroupedGemm
  };

  MoeDeviceTables(runtime::Device& device, MoeTables&& made) : tables(std::move(made)) {
    for (size_t rank = 0; rank < tables.num_ranks(); ++rank) {
      const MoeTables::Rank& of = tables.rank(static_cast<int>(rank));
      const Lists<RowTerm> terms{of.terms, {{0, std::ssize(of.terms)}}};
      ranks.push_back({{device, of.pack},
                       {device, of.spread},
                       {device, of.forward},
                       {device, of.give_back},
                       {device, terms},
                       {device, of.for_rails},
                       {device, of.own},
                       {}});
    }
  }

  MoeTables tables;
  std::vector<Rank> ranks;
};

}  // namespace mk::bench
