// SPDX-License-Identifier: MIT
// tests/support/weather.h — worlds on CPU threads over a chaotic fabric, and how chaotic it may be.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/world_state.h"
#include "tests/support/chaos_fabric.h"
#include "tests/support/worlds.h"

namespace mk::test {

inline std::unique_ptr<runtime::WorldState> chaotic_world(const WorldShape& shape, uint64_t seed,
                                                          const ChaosOptions& chaos, const Options& options = {}) {
  return runtime::make_local_world(shape, DeviceKind::kCpu, options,
                                   [=](std::unique_ptr<Fabric> inner, const WindowRegistry&, int rank) {
                                     return std::make_unique<ChaosFabric>(std::move(inner), seed_of(seed, rank), chaos);
                                   });
}

struct Weather {
  const char* name;
  ChaosOptions chaos;
  int ring_capacity;
};

inline std::string name_of(const Weather& weather) { return weather.name; }

inline constexpr Weather kWeathers[] = {
    {"mixed", {}, 256},
    {"mostly_full", {.full = 90}, 2},
    {"long_stalls", {.stall = 20, .stall_calls = 500}, 256},
    {"puts_pile_up", {.full = 0, .release = 3}, 256},
    {"told_very_late", {.full = 0, .release = 90, .report = 2}, 1},
};

}  // namespace mk::test
