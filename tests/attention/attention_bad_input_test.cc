// SPDX-License-Identifier: MIT
// tests/attention/attention_bad_input_test.cc — what ring_attention refuses: it names the argument, nothing is
// launched, and the World goes on.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string_view>

#include "tests/attention/ring_attention_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void* shifted(void* data, int64_t bytes) { return static_cast<std::byte*>(data) + bytes; }

class AttentionBadInput : public testing::Test {
 protected:
  using Args = RingAttentionArgs;
  using ArgsOfAll = std::vector<RingAttentionArgs>;
  using Options = RingAttentionOptions;
  using Shape = RingAttentionShape;

  const AttentionCase at{.world = {1, 2},
                         .form = {.mask = {MaskKind::kCausal}},
                         .shape = {2, 6, 4, 2, 8, DType::kFp32},
                         .sinks = Sinks::kGiven};
  World world = World::local(1, 2, DeviceKind::kCpu);

  // What is wrong stands at the beginning of the sentence.
  testing::AssertionResult refuses_call(std::string_view sentence, std::initializer_list<std::string_view> words,
                                        const std::function<void(ArgsOfAll&, Options&)>& spoil) {
    RingAttentionLaunch launch(world, at, 1, 0);
    Options options = at.options();
    spoil(launch.args(), options);
    const auto call = [&] { ring_attention(world, launch.args(), options); };
    if (const auto refused = refuses(words, call); !refused) return refused;
    try {
      call();
    } catch (const Error& error) {
      if (!std::string_view(error.what()).starts_with(sentence)) {
        return testing::AssertionFailure() << "'" << error.what() << "' does not begin with '" << sentence << "'";
      }
    }
    world.synchronize();
    if (world.failed() || !launch.is_untouched()) return testing::AssertionFailure() << "something was launched";
    return testing::AssertionSuccess();
  }
  // The tensors of rank 1.
  testing::AssertionResult refuses_args(std::string_view sentence, std::initializer_list<std::string_view> words,
                                        const std::function<void(Args&)>& spoil) {
    return refuses_call(sentence, words, [&](ArgsOfAll& args, Options&) { spoil(args[1]); });
  }
  testing::AssertionResult refuses_options(std::string_view sentence, const std::function<void(Options&)>& spoil) {
    return refuses_call(sentence, {}, [&](ArgsOfAll&, Options& options) { spoil(options); });
  }
  // The same sizes everywhere: a shape of the world.
  testing::AssertionResult refuses_shape(std::string_view sentence, const std::function<void(Shape&)>& spoil) {
    Shape shape = at.shape;
    spoil(shape);
    const auto refused = refuses_call(sentence, {}, [&](ArgsOfAll& args, Options&) {
      for (Args& own : args) {
        for (HeadTensor* tensor : {&own.q, &own.k, &own.v, &own.o}) {
          const int64_t heads = tensor == &own.q || tensor == &own.o ? shape.heads : shape.kv_heads;
          *tensor = {tensor->data, shape.dtype, shape.batch, shape.rows, heads, shape.dim};
        }
      }
    });
    if (!refused) return refused;
    return refuses({sentence}, [&] { ring_attention_workspace_bytes(world, shape, at.options()); });
  }

  void TearDown() override { EXPECT_TRUE(attends_right(world, at, 2, 3)) << "the World goes on"; }
};

TEST_F(AttentionBadInput, SizesAreRefusedByName) {
  EXPECT_TRUE(refuses_shape("batch is 0", [](Shape& s) { s.batch = 0; }));
  EXPECT_TRUE(refuses_shape("rows is 0", [](Shape& s) { s.rows = 0; }));
  EXPECT_TRUE(refuses_shape("rows is -4", [](Shape& s) { s.rows = -4; }));
  EXPECT_TRUE(refuses_shape("heads is 0", [](Shape& s) { s.heads = 0; }));
  EXPECT_TRUE(refuses_shape("kv_heads is 0", [](Shape& s) { s.kv_heads = 0; }));
  EXPECT_TRUE(refuses_shape("dim is 0", [](Shape& s) { s.dim = 0; }));
  EXPECT_TRUE(refuses_shape("dim is 2147483648", [](Shape& s) { s.dim = int64_t{1} << 31; }));
  EXPECT_TRUE(refuses_shape("heads is 4; it must be a multiple of kv_heads, 3", [](Shape& s) { s.kv_heads = 3; }));
  EXPECT_TRUE(refuses_shape("heads is 4; it must be a multiple of kv_heads, 8", [](Shape& s) { s.kv_heads = 8; }));
  EXPECT_TRUE(refuses_shape("batch is 1024", [](Shape& s) {
    s.batch = 1024;
    s.rows = 1 << 20;
  }));
  EXPECT_TRUE(refuses_shape("batch, rows, heads and dim are 1, 1073741824, 1048576 and 1048576",
                            [](Shape& s) { s = {1, 1 << 30, 1 << 20, 1 << 20, 1 << 20, DType::kFp32}; }));
  EXPECT_TRUE(refuses_shape("dtype is 7", [](Shape& s) { s.dtype = static_cast<DType>(7); }));
}

TEST_F(AttentionBadInput, TensorsAreRefusedByNameAndRank) {
  EXPECT_TRUE(refuses_args("q of rank 1 is a null pointer", {}, [](Args& a) { a.q.data = nullptr; }));
  EXPECT_TRUE(refuses_args("k of rank 1 is a null pointer", {}, [](Args& a) { a.k.data = nullptr; }));
  EXPECT_TRUE(refuses_args("v of rank 1 is a null pointer", {}, [](Args& a) { a.v.data = nullptr; }));
  EXPECT_TRUE(refuses_args("o of rank 1 is a null pointer", {}, [](Args& a) { a.o.data = nullptr; }));
  EXPECT_TRUE(refuses_args("q of rank 1 is bf16", {"fp32"}, [](Args& a) { a.q.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("k of rank 1 is bf16", {"fp32"}, [](Args& a) { a.k.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("v of rank 1 is fp16", {"fp32"}, [](Args& a) { a.v.dtype = DType::kFp16; }));
  EXPECT_TRUE(refuses_args("o of rank 1 is bf16", {"fp32"}, [](Args& a) { a.o.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("k of rank 1 is 2x4x2x8", {"2x6x2x8"}, [](Args& a) { a.k.rows = 4; }));
  EXPECT_TRUE(refuses_args("v of rank 1 is 2x6x4x8", {"2x6x2x8"}, [](Args& a) { a.v.heads = 4; }));
  EXPECT_TRUE(refuses_args("o of rank 1 is 1x6x4x8", {"2x6x4x8"}, [](Args& a) { a.o.batch = 1; }));
  EXPECT_TRUE(refuses_args("k of rank 1 is 2x6x2x16", {"2x6x2x8"}, [](Args& a) { a.k.dim = 16; }));
  EXPECT_TRUE(refuses_args("q of rank 1 is at", {"multiple of 4"}, [](Args& a) { a.q.data = shifted(a.q.data, 2); }));
  EXPECT_TRUE(refuses_args("lse of rank 1 is at", {"multiple of 4"},
                           [](Args& a) { a.lse = static_cast<float*>(shifted(a.lse, 1)); }));
  EXPECT_TRUE(refuses_args("sink of rank 1 is at", {"multiple of 4"},
                           [](Args& a) { a.sink = static_cast<const float*>(shifted(a.lse, 2)); }));
  EXPECT_TRUE(refuses_args("stream of rank 1 is set", {"CPU"}, [](Args& a) { a.stream = &a; }));
}

TEST_F(AttentionBadInput, RanksThatDisagreeAreRefused) {
  EXPECT_TRUE(refuses_args("q of rank 1 is 2x4x4x8", {"2x6x4x8"}, [](Args& a) {
    for (HeadTensor* tensor : {&a.q, &a.k, &a.v, &a.o}) tensor->rows = 4;
  }));
  EXPECT_TRUE(refuses_args("q of rank 1 is bf16", {"rank 0"}, [](Args& a) {
    for (HeadTensor* tensor : {&a.q, &a.k, &a.v, &a.o}) tensor->dtype = DType::kBf16;
  }));
  EXPECT_TRUE(refuses_call("args has 1 entries", {"2 ranks"}, [](ArgsOfAll& args, Options&) { args.pop_back(); }));
  EXPECT_TRUE(
      refuses_call("args has 3 entries", {"2 ranks"}, [](ArgsOfAll& args, Options&) { args.push_back(args.back()); }));
  EXPECT_TRUE(refuses_call("args has 0 entries", {}, [](ArgsOfAll& args, Options&) { args.clear(); }));
}

TEST_F(AttentionBadInput, OptionsAreRefusedByName) {
  EXPECT_TRUE(refuses_options("mask.window is 0", [](Options& o) { o.mask.window = 0; }));
  EXPECT_TRUE(refuses_options("mask.window is -3", [](Options& o) { o.mask.window = -3; }));
  EXPECT_TRUE(refuses_options("mask.window is 4", [](Options& o) { o.mask = {MaskKind::kFull, 4}; }));
  EXPECT_TRUE(refuses_options("mask.kind is 5", [](Options& o) { o.mask.kind = static_cast<MaskKind>(5); }));
  EXPECT_TRUE(refuses_options("order is 9", [](Options& o) { o.order = static_cast<SequenceOrder>(9); }));
  for (const float scale : {0.0f, -1.0f, kInfinity, -kInfinity, kNan}) {
    EXPECT_TRUE(refuses_options("scale is", [&](Options& o) { o.scale = scale; })) << scale;
  }
}

TEST_F(AttentionBadInput, ZigzagNeedsRowsInPairs) {
  EXPECT_TRUE(refuses_call("rows is 5", {"kZigzag", "multiple of 2"}, [](ArgsOfAll& args, Options& options) {
    options.order = SequenceOrder::kZigzag;
    for (Args& own : args) {
      for (HeadTensor* tensor : {&own.q, &own.k, &own.v, &own.o}) tensor->rows = 5;
    }
  }));
}

TEST_F(AttentionBadInput, SplitsAreRefusedByName) {
  EXPECT_TRUE(refuses_options("split.compute is 0", [](Options& o) { o.split = {{"intra", 1}}; }));
  EXPECT_TRUE(refuses_options("split.intra is 0", [](Options& o) { o.split = {{"compute", 1}}; }));
  EXPECT_TRUE(refuses_options("split.", [](Options& o) { o.split = {{"dispatch", 1}, {"compute", 1}}; }));
}

}  // namespace
}  // namespace mk::test
