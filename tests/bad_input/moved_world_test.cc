// SPDX-License-Identifier: MIT
// tests/bad_input/moved_world_test.cc — every call on a World that was moved from is refused.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "mkernel/mkernel.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

struct Call {
  const char* name;
  std::function<void(World&)> call;
};

const std::vector<Call>& calls() {
  static const std::vector<Call> all = {
      {"nodes", [](World& w) { w.nodes(); }},
      {"ranks_per_node", [](World& w) { w.ranks_per_node(); }},
      {"size", [](World& w) { w.size(); }},
      {"first_rank", [](World& w) { w.first_rank(); }},
      {"num_ranks", [](World& w) { w.num_ranks(); }},
      {"device", [](World& w) { w.device(); }},
      {"fabric", [](World& w) { w.fabric(); }},
      {"fabric_reach", [](World& w) { w.fabric_reach(); }},
      {"network_stats", [](World& w) { w.network_stats(0); }},
      {"synchronize", [](World& w) { w.synchronize(); }},
      {"failed", [](World& w) { w.failed(); }},
      {"rank_stream", [](World& w) { w.rank_stream(0); }},
      {"fork", [](World& w) { w.fork(nullptr); }},
      {"join", [](World& w) { w.join(nullptr); }},
      {"state", [](World& w) { w.state(); }},
      {"state_of_const", [](World& w) { std::as_const(w).state(); }},
      {"ag_gemm", [](World& w) { ag_gemm(w, std::vector<AgGemmArgs>(1)); }},
      {"gemm_rs", [](World& w) { gemm_rs(w, std::vector<GemmArgs>(1)); }},
      {"gemm_ar", [](World& w) { gemm_ar(w, std::vector<GemmArgs>(1)); }},
      {"ag_gemm_workspace", [](World& w) { ag_gemm_workspace_bytes(w, 1, 1, 1, DType::kFp32); }},
      {"gemm_rs_workspace", [](World& w) { gemm_rs_workspace_bytes(w, 1, 1, 1, DType::kFp32); }},
      {"gemm_ar_workspace", [](World& w) { gemm_ar_workspace_bytes(w, 1, 1, 1, DType::kFp32); }},
  };
  return all;
}

TEST(MovedWorld, RefusesEveryCall) {
  World from = World::local(1, 1, DeviceKind::kCpu);
  const World to = std::move(from);
  for (const Call& one : calls()) {
    EXPECT_TRUE(refuses({"the World was moved from"}, [&] { one.call(from); })) << one.name;
  }
  EXPECT_EQ(to.size(), 1);
}

TEST(MovedWorld, IsAWorldAgainWhenOneIsAssigned) {
  World world = World::local(1, 1, DeviceKind::kCpu);
  World other = std::move(world);
  world = World::local(1, 2, DeviceKind::kCpu);
  EXPECT_EQ(world.size(), 2);
  EXPECT_EQ(other.size(), 1);
}

}  // namespace
}  // namespace mk::test
