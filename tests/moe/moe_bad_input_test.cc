// SPDX-License-Identifier: MIT
// tests/moe/moe_bad_input_test.cc — what moe_dispatch_gemm refuses: it names the argument, and the World goes on.
#include <gtest/gtest.h>

#include <functional>

#include "ops/moe/moe_layer_problem.h"
#include "tests/support/expect_error.h"
#include "tests/support/moe_launch.h"

namespace mk::test {
namespace {

class MoeBadInput : public testing::Test {
 protected:
  World world = World::local(1, 2, DeviceKind::kCpu);
  const moe::Problem problem = moe_problem({1, 2}, 2, 2, 8);

  MoeLaunchData data() {
    MoeLaunchData made(problem, Routing::kUniform, 1);
    for (uint64_t seed = 2; made.rank(0).tokens == 0 || made.rank(1).tokens == 0; ++seed) {
      made = MoeLaunchData(problem, Routing::kUniform, seed);
    }
    return made;
  }

  testing::AssertionResult refuses_shape(std::initializer_list<std::string_view> words,
                                         const std::function<void(MoeShape&)>& spoil) {
    MoeLaunch launch(world, data());
    MoeShape shape = problem.shape;
    spoil(shape);
    return refuses(words, [&] { moe_dispatch_gemm(world, shape, launch.args()); });
  }
  testing::AssertionResult refuses_args(std::initializer_list<std::string_view> words,
                                        const std::function<void(MoeDispatchGemmArgs&)>& spoil) {
    MoeLaunch launch(world, data());
    spoil(launch.args()[1]);
    return refuses(words, [&] { moe_dispatch_gemm(world, problem.shape, launch.args()); });
  }

  void TearDown() override {
    MoeLaunch launch(world, data());
    launch.enqueue(world);
    world.synchronize();
    EXPECT_TRUE(launch.is_right()) << "the World goes on";
  }
};

TEST_F(MoeBadInput, ShapesAreRefusedByName) {
  EXPECT_TRUE(refuses_shape({"experts is 3", "world size 2"}, [](MoeShape& s) { s.experts = 3; }));
  EXPECT_TRUE(refuses_shape({"experts is 0"}, [](MoeShape& s) { s.experts = 0; }));
  EXPECT_TRUE(refuses_shape({"topk is 5", "4 experts"}, [](MoeShape& s) { s.topk = 5; }));
  EXPECT_TRUE(refuses_shape({"topk is 0"}, [](MoeShape& s) { s.topk = 0; }));
  EXPECT_TRUE(refuses_shape({"topk is 65"}, [](MoeShape& s) {
    s.topk = 65;
    s.experts = 128;
  }));
  EXPECT_TRUE(refuses_shape({"max_rows is 0"}, [](MoeShape& s) { s.max_rows = 0; }));
  EXPECT_TRUE(refuses_shape({"max_tokens is 0"}, [](MoeShape& s) { s.max_tokens = 0; }));
  EXPECT_TRUE(refuses_shape({"max_tokens is 1073741825", "2^31"}, [](MoeShape& s) { s.max_tokens = (1 << 30) + 1; }));
  EXPECT_TRUE(refuses_shape({"hidden is 0"}, [](MoeShape& s) { s.hidden = 0; }));
  EXPECT_TRUE(refuses_shape({"n is -1"}, [](MoeShape& s) { s.n = -1; }));
}

TEST_F(MoeBadInput, ArgumentsAreRefusedByNameAndRank) {
  using Args = MoeDispatchGemmArgs;
  EXPECT_TRUE(refuses_args({"x of rank 1 has 9 rows", "max_tokens is 8"}, [](Args& a) { a.x.rows = 9; }));
  EXPECT_TRUE(refuses_args({"x of rank 1", "4"}, [](Args& a) { a.x.cols = 4; }));
  EXPECT_TRUE(refuses_args({"x of rank 1 is a null pointer"}, [](Args& a) { a.x.data = nullptr; }));
  EXPECT_TRUE(refuses_args({"topk_idx of rank 1 is a null pointer"}, [](Args& a) { a.topk_idx.data = nullptr; }));
  EXPECT_TRUE(
      refuses_args({"topk_idx of rank 1 has type 7"}, [](Args& a) { a.topk_idx.type = static_cast<MoeIds::Type>(7); }));
  EXPECT_TRUE(refuses_args({"w of rank 1 is 9x7", "10x7"}, [](Args& a) { a.w.rows = 9; }));
  EXPECT_TRUE(refuses_args({"w of rank 1 is bf16"}, [](Args& a) { a.w.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args({"y of rank 1 is 31x7"}, [](Args& a) { a.y.rows = 31; }));
  EXPECT_TRUE(refuses_args({"topk_idx of rank 1 is at", "multiple of 8"},
                           [](Args& a) { a.topk_idx.data = static_cast<const std::byte*>(a.topk_idx.data) + 4; }));
  EXPECT_TRUE(refuses_args({"expert_rows of rank 1 is at", "multiple of 4"}, [](Args& a) {
    a.expert_rows = reinterpret_cast<int32_t*>(reinterpret_cast<std::byte*>(a.expert_rows) + 1);
  }));
  EXPECT_TRUE(refuses_args({"load of rank 1 is at", "multiple of 4"}, [](Args& a) {
    a.load = reinterpret_cast<int32_t*>(reinterpret_cast<std::byte*>(a.expert_rows) + 2);
  }));
  EXPECT_TRUE(refuses_args({"w_order of rank 1"}, [](Args& a) { a.w_order = BOrder::kNK; }));
  EXPECT_TRUE(refuses_args({"stream of rank 1"}, [](Args& a) { a.stream = &a; }));
  EXPECT_TRUE(refuses({"args has 0 entries"}, [&] { moe_dispatch_gemm(world, problem.shape, {}); }));
}

// What only a GPU asks for: these checks need none.
TEST(MoeGpuBadInput, SizesAreRefusedByName) {
  const auto refuses_layer = [](std::initializer_list<std::string_view> words, const WorldShape& world,
                                const std::function<void(MoeLayerShape&)>& spoil) {
    moe::LayerProblem problem{world, {64, 64, 24, 2, 8, 64}, DType::kBf16};
    spoil(problem.shape);
    return refuses(words, [&] { moe::check_layer(problem, DeviceKind::kCuda); });
  };
  moe::check_layer({{2, 2}, {64, 64, 24, 2, 8, 64}, DType::kBf16}, DeviceKind::kCuda);
  EXPECT_TRUE(refuses_layer({"inter is 12", "multiple of 8"}, {2, 2}, [](auto& s) { s.inter = 12; }));
  EXPECT_TRUE(refuses_layer({"hidden is 20", "multiple of 8"}, {2, 2}, [](auto& s) { s.hidden = 20; }));
  EXPECT_TRUE(refuses_layer({"experts is 1028", "at most 1024"}, {2, 2}, [](auto& s) { s.experts = 1028; }));
  EXPECT_TRUE(refuses_layer({"shared is 1", "at most 1024", "1028"}, {2, 2}, [](auto& s) {
    s.experts = 1024;
    s.shared = 1;
  }));
  EXPECT_TRUE(refuses_layer({"topk and shared are 60 and 4", "34 nodes", "96 addends"}, {34, 1}, [](auto& s) {
    s.experts = 68;
    s.topk = 60;
    s.shared = 4;
  }));
}

TEST_F(MoeBadInput, SplitsAreRefusedByName) {
  MoeLaunch launch(world, data());
  EXPECT_TRUE(refuses({"split.intra"}, [&] { launch.enqueue(world, {{{"intra", 1}}}); }));
  EXPECT_TRUE(refuses({"split.dispatch is 0"}, [&] { launch.enqueue(world, {{{"compute", 1}}}); }));
}

}  // namespace
}  // namespace mk::test
