// SPDX-License-Identifier: MIT
// tests/bad_input/bad_call.h — a call that is refused: one row of a table, and what must hold of it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

namespace mk::test {

inline constexpr WorldShape kBadCallWorld{2, 2};
inline constexpr Shape kBadCallShape{33, 65, 3};

using BadArgs = std::vector<OpArgs>;

struct BadCall {
  const char* name;
  std::vector<std::string_view> words;  // all in the message
  std::function<void(BadArgs&, OpSettings&)> spoil;
};

inline std::string name_of(const BadCall& call) { return call.name; }
inline void PrintTo(const BadCall& call, std::ostream* out) { *out << call.name; }

inline void* shifted(void* pointer) { return static_cast<std::byte*>(pointer) + 1; }

// The tensors of operators around one GEMM.
inline Tensor& a_of(OpArgs& args) { return args.in[0]; }
inline Tensor& b_of(OpArgs& args) { return args.in[1]; }
inline Tensor& c_of(OpArgs& args) { return args.out[0]; }

inline OpCase bad_call_case() { return {kBadCallShape, DType::kFp32, {.has_bias = true}}; }

// One worker in each role but this.
inline std::function<void(BadArgs&, OpSettings&)> with_workers(Op op, const char* role, int count) {
  return [=](BadArgs&, OpSettings& settings) {
    settings.split = row_of(op).smallest_split(kBadCallWorld);
    settings.split[role] = count;
  };
}

inline void expect_refused(Op op, const BadCall& bad) {
  World world = World::local(kBadCallWorld.nodes, kBadCallWorld.ranks, DeviceKind::kCpu);
  OpLaunch launch(op, kBadCallWorld, bad_call_case());
  BadArgs args = launch.args();
  OpSettings settings;
  bad.spoil(args, settings);
  for (const std::string_view word : bad.words) {
    EXPECT_TRUE(refuses({word}, [&] { call(op, world, args, settings); }));
  }
  world.synchronize();
  for (int rank = 0; rank < kBadCallWorld.size(); ++rank) {
    EXPECT_TRUE(launch.is_untouched(rank)) << "something was launched";
  }
  EXPECT_FALSE(world.failed());
  EXPECT_TRUE(runs_right(world, op, kBadCallShape));
}

}  // namespace mk::test
