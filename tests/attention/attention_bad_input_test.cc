// SPDX-License-Identifier: MIT
// tests/attention/attention_bad_input_test.cc — what ring_attention and ring_attention_backward refuse: they name the
// argument, nothing is launched, and the World goes on.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/attention/attention_backward_data.h"
#include "tests/attention/ring_attention_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
T* shifted(T* data, uintptr_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) + bytes);
}

// A pass: its arguments, its calls, and which tensors have rows of queries and which of keys.
struct ForwardPass {
  using Args = RingAttentionArgs;
  using Launch = RingAttentionLaunch;
  static constexpr auto kCall = ring_attention;
  static constexpr auto kWorkspaceBytes = ring_attention_workspace_bytes;
  static std::vector<HeadTensor*> of_queries(Args& a) { return {&a.q, &a.o}; }
  static std::vector<HeadTensor*> of_keys(Args& a) { return {&a.k, &a.v}; }
};
struct BackwardPass {
  using Args = RingAttentionBackwardArgs;
  using Launch = AttentionBackwardLaunch;
  static constexpr auto kCall = ring_attention_backward;
  static constexpr auto kWorkspaceBytes = ring_attention_backward_workspace_bytes;
  static std::vector<HeadTensor*> of_queries(Args& a) { return {&a.q, &a.o, &a.dout, &a.dq}; }
  static std::vector<HeadTensor*> of_keys(Args& a) { return {&a.k, &a.v, &a.dk, &a.dv}; }
};

template <class Pass>
constexpr bool is_backward = std::is_same_v<Pass, BackwardPass>;

// Names of passes in test names.
struct PassNames {
  template <class Pass>
  static std::string GetName(int) {
    return is_backward<Pass> ? "Backward" : "Forward";
  }
};

template <class Pass>
class AttentionBadInput : public testing::Test {
 protected:
  using Args = typename Pass::Args;
  using ArgsOfAll = std::vector<Args>;
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
    typename Pass::Launch launch(world, at, 1, 0);
    Options options = at.options();
    spoil(launch.args(), options);
    const auto call = [&] { Pass::kCall(world, launch.args(), options); };
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
      for (Args& own : args) reshape(own, shape);
    });
    if (!refused) return refused;
    return refuses({sentence}, [&] { Pass::kWorkspaceBytes(world, shape, at.options()); });
  }

  static void reshape(Args& args, const Shape& shape) {
    for (HeadTensor* tensor : Pass::of_queries(args)) {
      *tensor = {tensor->data, shape.dtype, shape.batch, shape.rows, shape.heads, shape.dim};
    }
    for (HeadTensor* tensor : Pass::of_keys(args)) {
      *tensor = {tensor->data, shape.dtype, shape.batch, shape.rows, shape.kv_heads, shape.dim};
    }
  }

  void TearDown() override {
    EXPECT_TRUE(attends_right(world, at, 2, 3)) << "the World goes on";
    EXPECT_TRUE(differentiates_right(world, at, 2, 3)) << "the World goes on";
  }
};
using Passes = testing::Types<ForwardPass, BackwardPass>;
TYPED_TEST_SUITE(AttentionBadInput, Passes, PassNames);

TYPED_TEST(AttentionBadInput, SizesAreRefusedByName) {
  EXPECT_TRUE(this->refuses_shape("batch is 0", [](auto& s) { s.batch = 0; }));
  EXPECT_TRUE(this->refuses_shape("rows is 0", [](auto& s) { s.rows = 0; }));
  EXPECT_TRUE(this->refuses_shape("rows is -4", [](auto& s) { s.rows = -4; }));
  EXPECT_TRUE(this->refuses_shape("heads is 0", [](auto& s) { s.heads = 0; }));
  EXPECT_TRUE(this->refuses_shape("kv_heads is 0", [](auto& s) { s.kv_heads = 0; }));
  EXPECT_TRUE(this->refuses_shape("dim is 0", [](auto& s) { s.dim = 0; }));
  EXPECT_TRUE(this->refuses_shape("dim is 2147483648", [](auto& s) { s.dim = int64_t{1} << 31; }));
  EXPECT_TRUE(this->refuses_shape("heads is 4; it must be a multiple of kv_heads, 3", [](auto& s) { s.kv_heads = 3; }));
  EXPECT_TRUE(this->refuses_shape("heads is 4; it must be a multiple of kv_heads, 8", [](auto& s) { s.kv_heads = 8; }));
  EXPECT_TRUE(this->refuses_shape("batch is 1024", [](auto& s) {
    s.batch = 1024;
    s.rows = 1 << 20;
  }));
  EXPECT_TRUE(this->refuses_shape("batch, rows, heads and dim are 1, 1073741824, 1048576 and 1048576",
                                  [](auto& s) { s = {1, 1 << 30, 1 << 20, 1 << 20, 1 << 20, DType::kFp32}; }));
  EXPECT_TRUE(this->refuses_shape("dtype is 7", [](auto& s) { s.dtype = static_cast<DType>(7); }));
}

TYPED_TEST(AttentionBadInput, TensorsAreRefusedByNameAndRank) {
  EXPECT_TRUE(this->refuses_args("q of rank 1 is a null pointer", {}, [](auto& a) { a.q.data = nullptr; }));
  EXPECT_TRUE(this->refuses_args("k of rank 1 is a null pointer", {}, [](auto& a) { a.k.data = nullptr; }));
  EXPECT_TRUE(this->refuses_args("v of rank 1 is a null pointer", {}, [](auto& a) { a.v.data = nullptr; }));
  EXPECT_TRUE(this->refuses_args("o of rank 1 is a null pointer", {}, [](auto& a) { a.o.data = nullptr; }));
  EXPECT_TRUE(this->refuses_args("q of rank 1 is bf16", {"fp32"}, [](auto& a) { a.q.dtype = DType::kBf16; }));
  EXPECT_TRUE(this->refuses_args("k of rank 1 is bf16", {"fp32"}, [](auto& a) { a.k.dtype = DType::kBf16; }));
  EXPECT_TRUE(this->refuses_args("v of rank 1 is fp16", {"fp32"}, [](auto& a) { a.v.dtype = DType::kFp16; }));
  EXPECT_TRUE(this->refuses_args("o of rank 1 is bf16", {"fp32"}, [](auto& a) { a.o.dtype = DType::kBf16; }));
  EXPECT_TRUE(this->refuses_args("k of rank 1 is 2x4x2x8", {"2x6x2x8"}, [](auto& a) { a.k.rows = 4; }));
  EXPECT_TRUE(this->refuses_args("v of rank 1 is 2x6x4x8", {"2x6x2x8"}, [](auto& a) { a.v.heads = 4; }));
  EXPECT_TRUE(this->refuses_args("o of rank 1 is 1x6x4x8", {"2x6x4x8"}, [](auto& a) { a.o.batch = 1; }));
  EXPECT_TRUE(this->refuses_args("k of rank 1 is 2x6x2x16", {"2x6x2x8"}, [](auto& a) { a.k.dim = 16; }));
  EXPECT_TRUE(
      this->refuses_args("q of rank 1 is at", {"multiple of 4"}, [](auto& a) { a.q.data = shifted(a.q.data, 2); }));
  EXPECT_TRUE(this->refuses_args("lse of rank 1 is at", {"multiple of 4"}, [](auto& a) { a.lse = shifted(a.lse, 1); }));
  EXPECT_TRUE(
      this->refuses_args("sink of rank 1 is at", {"multiple of 4"}, [](auto& a) { a.sink = shifted(a.sink, 2); }));
  EXPECT_TRUE(this->refuses_args("stream of rank 1 is set", {"CPU"}, [](auto& a) { a.stream = &a; }));
}

// Of [2, 6, 4, 8] and [2, 6, 2, 8].
TYPED_TEST(AttentionBadInput, StridesAreRefusedByNameAndRank) {
  const auto refuses_strides = [this](std::string_view sentence, auto tensor, const HeadStrides& strides) {
    return this->refuses_args(sentence, {}, [&](auto& a) { (a.*tensor).strides = strides; });
  };
  using Args = typename TypeParam::Args;
  EXPECT_TRUE(refuses_strides("q of rank 1 has a batch stride of -1; it must be positive, or 0", &Args::q, {-1}));
  EXPECT_TRUE(refuses_strides("k of rank 1 has a row stride of -16", &Args::k, {0, -16}));
  EXPECT_TRUE(refuses_strides("v of rank 1 has a head stride of -8", &Args::v, {0, 0, -8}));
  EXPECT_TRUE(refuses_strides("o of rank 1 has a head stride of 7; it must be at least 8", &Args::o, {0, 0, 7}));
  EXPECT_TRUE(refuses_strides("k of rank 1 has a row stride of 15; it must be at least 16", &Args::k, {0, 15}));
  EXPECT_TRUE(refuses_strides("v of rank 1 has a batch stride of 95; it must be at least 96", &Args::v, {95}));
  EXPECT_TRUE(refuses_strides("q of rank 1 has a batch stride of 192; it must be at least 512", &Args::q, {0, 96}));
  EXPECT_TRUE(refuses_strides("q of rank 1 has a row stride of 40; it must be at least 68", &Args::q, {36, 40, 8}));
  EXPECT_TRUE(refuses_strides("q of rank 1 has a head stride of 8; it must be at least 48", &Args::q, {192, 8, 8}));
  EXPECT_TRUE(refuses_strides("k of rank 1 has a batch stride of 281474976710657; it must be at most 281474976710560",
                              &Args::k, {(int64_t{1} << 48) + 1}));
  EXPECT_TRUE(refuses_strides("k of rank 1 has a row stride of", &Args::k, {0, std::numeric_limits<int64_t>::max()}));
}

TYPED_TEST(AttentionBadInput, RanksThatDisagreeAreRefused) {
  EXPECT_TRUE(this->refuses_args("q of rank 1 is 2x4x4x8", {"2x6x4x8"}, [](auto& a) {
    TestFixture::reshape(a, {2, 4, 4, 2, 8, DType::kFp32});
  }));
  EXPECT_TRUE(this->refuses_args("q of rank 1 is bf16", {"rank 0"}, [](auto& a) {
    TestFixture::reshape(a, {2, 6, 4, 2, 8, DType::kBf16});
  }));
  EXPECT_TRUE(this->refuses_call("args has 1 entries", {"2 ranks"}, [](auto& args, auto&) { args.pop_back(); }));
  EXPECT_TRUE(
      this->refuses_call("args has 3 entries", {"2 ranks"}, [](auto& args, auto&) { args.push_back(args.back()); }));
  EXPECT_TRUE(this->refuses_call("args has 0 entries", {}, [](auto& args, auto&) { args.clear(); }));
}

TYPED_TEST(AttentionBadInput, OptionsAreRefusedByName) {
  EXPECT_TRUE(this->refuses_options("mask.window is 0", [](auto& o) { o.mask.window = 0; }));
  EXPECT_TRUE(this->refuses_options("mask.window is -3", [](auto& o) { o.mask.window = -3; }));
  EXPECT_TRUE(this->refuses_options("mask.window is 4", [](auto& o) { o.mask = {MaskKind::kFull, 4}; }));
  EXPECT_TRUE(this->refuses_options("mask.kind is 5", [](auto& o) { o.mask.kind = static_cast<MaskKind>(5); }));
  EXPECT_TRUE(this->refuses_options("order is 9", [](auto& o) { o.order = static_cast<SequenceOrder>(9); }));
  for (const float scale : {0.0f, -1.0f, kInfinity, -kInfinity, kNan}) {
    EXPECT_TRUE(this->refuses_options("scale is", [&](auto& o) { o.scale = scale; })) << scale;
  }
}

// Two ranks with six rows each have twelve positions.
TYPED_TEST(AttentionBadInput, PackingsAreRefusedByEntry) {
  const auto refuses_packing = [this](std::string_view sentence, std::vector<int32_t> ends, int64_t batch = 1) {
    return this->refuses_call(sentence, {}, [&](auto& args, auto& options) {
      options.cu_seqlens = ends;
      for (auto& own : args) TestFixture::reshape(own, {batch, 6, 4, 2, 8, DType::kFp32});
    });
  };
  EXPECT_TRUE(refuses_packing("cu_seqlens has 1 entries", {0}));
  EXPECT_TRUE(refuses_packing("cu_seqlens[0] is 1; it must be 0", {1, 12}));
  EXPECT_TRUE(refuses_packing("cu_seqlens[2] is 5; it must be above cu_seqlens[1], 5", {0, 5, 5, 12}));
  EXPECT_TRUE(refuses_packing("cu_seqlens[2] is 4; it must be above cu_seqlens[1], 5", {0, 5, 4, 12}));
  EXPECT_TRUE(refuses_packing("cu_seqlens[1] is -3; it must be above cu_seqlens[0], 0", {0, -3, 12}));
  EXPECT_TRUE(refuses_packing("cu_seqlens ends at 6; it must end at 12: 6 rows of each of 2 ranks", {0, 3, 6}));
  EXPECT_TRUE(refuses_packing("cu_seqlens ends at 13; it must end at 12", {0, 3, 13}));
  EXPECT_TRUE(refuses_packing("batch is 2; packed sequences have a batch of 1", {0, 3, 12}, 2));
}

TYPED_TEST(AttentionBadInput, ZigzagNeedsRowsInPairs) {
  EXPECT_TRUE(this->refuses_call("rows is 5", {"kZigzag", "multiple of 2"}, [](auto& args, auto& options) {
    options.order = SequenceOrder::kZigzag;
    for (auto& own : args) TestFixture::reshape(own, {2, 5, 4, 2, 8, DType::kFp32});
  }));
}

TYPED_TEST(AttentionBadInput, SplitsAreRefusedByName) {
  EXPECT_TRUE(this->refuses_options("split.compute is 0", [](auto& o) {
    o.split = {{"intra", 1}};
    if (is_backward<TypeParam>) o.split.insert({"collect", 1});
  }));
  EXPECT_TRUE(this->refuses_options("split.intra is 0", [](auto& o) { o.split = {{"compute", 1}}; }));
  EXPECT_TRUE(this->refuses_options("split.", [](auto& o) { o.split = {{"dispatch", 1}, {"compute", 1}}; }));
}

// Elements of two bytes; TMA takes vectors of 16.
TEST(AttentionStrides, AreWhatTheDeviceCanTake) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const HeadStrides& good : {HeadStrides{}, {4608, 768, 64}, {256, 512, 64}, {1536, 64, 384}, {1792, 72, 448}}) {
      EXPECT_NO_THROW(attention::check_strides({nullptr, DType::kBf16, 2, 6, 4, 64, good}, "q", 0, device));
    }
    EXPECT_NO_THROW(attention::check_strides({nullptr, DType::kBf16, 1, 1, 1, 64, {3, 5, 7}}, "q", 0, device));
  }
  EXPECT_NO_THROW(attention::check_strides({nullptr, DType::kBf16, 1, 6, 4, 64, {0, 260}}, "q", 0, DeviceKind::kCpu));
  EXPECT_TRUE(refuses({"dq of rank 3 has a row stride of 520 bytes", "multiple of 16", "2^40"}, [] {
    attention::check_strides({nullptr, DType::kBf16, 1, 6, 4, 64, {0, 260}}, "dq", 3, DeviceKind::kCuda);
  }));
  EXPECT_TRUE(refuses({"k of rank 0 has a batch stride of 1099511627776 bytes"}, [] {
    attention::check_strides({nullptr, DType::kFp16, 2, 6, 4, 64, {int64_t{1} << 39}}, "k", 0, DeviceKind::kCuda);
  }));
}

// What only the backward pass has.
using BackwardBadInput = AttentionBadInput<BackwardPass>;

TEST_F(BackwardBadInput, ItsTensorsAreRefusedByNameAndRank) {
  EXPECT_TRUE(refuses_args("dout of rank 1 is a null pointer", {}, [](Args& a) { a.dout.data = nullptr; }));
  EXPECT_TRUE(refuses_args("dq of rank 1 is a null pointer", {}, [](Args& a) { a.dq.data = nullptr; }));
  EXPECT_TRUE(refuses_args("dk of rank 1 is a null pointer", {}, [](Args& a) { a.dk.data = nullptr; }));
  EXPECT_TRUE(refuses_args("dv of rank 1 is a null pointer", {}, [](Args& a) { a.dv.data = nullptr; }));
  EXPECT_TRUE(refuses_args("lse of rank 1 is a null pointer", {}, [](Args& a) { a.lse = nullptr; }));
  EXPECT_TRUE(refuses_args("dout of rank 1 is bf16", {"fp32"}, [](Args& a) { a.dout.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("dq of rank 1 is fp16", {"fp32"}, [](Args& a) { a.dq.dtype = DType::kFp16; }));
  EXPECT_TRUE(refuses_args("dk of rank 1 is bf16", {"fp32"}, [](Args& a) { a.dk.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("dv of rank 1 is bf16", {"fp32"}, [](Args& a) { a.dv.dtype = DType::kBf16; }));
  EXPECT_TRUE(refuses_args("dout of rank 1 is 2x6x2x8", {"2x6x4x8"}, [](Args& a) { a.dout.heads = 2; }));
  EXPECT_TRUE(refuses_args("dq of rank 1 is 2x4x4x8", {"2x6x4x8"}, [](Args& a) { a.dq.rows = 4; }));
  EXPECT_TRUE(refuses_args("dk of rank 1 is 2x6x4x8", {"2x6x2x8"}, [](Args& a) { a.dk.heads = 4; }));
  EXPECT_TRUE(refuses_args("dv of rank 1 is 2x6x2x16", {"2x6x2x8"}, [](Args& a) { a.dv.dim = 16; }));
  EXPECT_TRUE(
      refuses_args("dq of rank 1 is at", {"multiple of 4"}, [](Args& a) { a.dq.data = shifted(a.dq.data, 2); }));
}

TEST_F(BackwardBadInput, ItsStridesAreRefusedByNameAndRank) {
  EXPECT_TRUE(refuses_args("dout of rank 1 has a head stride of 7", {}, [](Args& a) { a.dout.strides.head = 7; }));
  EXPECT_TRUE(refuses_args("dq of rank 1 has a row stride of 31", {}, [](Args& a) { a.dq.strides.row = 31; }));
  EXPECT_TRUE(refuses_args("dk of rank 1 has a batch stride of 95", {}, [](Args& a) { a.dk.strides.batch = 95; }));
  EXPECT_TRUE(refuses_args("dv of rank 1 has a row stride of -1", {}, [](Args& a) { a.dv.strides.row = -1; }));
}

TEST_F(BackwardBadInput, GradientsOfSinksNeedSinks) {
  EXPECT_TRUE(refuses_args("dsink of rank 1 is set", {"sink"}, [](Args& a) { a.sink = nullptr; }));
  EXPECT_TRUE(refuses_args("dsink of rank 1 is at", {"multiple of 4"}, [](Args& a) { a.dsink = shifted(a.dsink, 2); }));
}

TEST_F(BackwardBadInput, SplitsNeedSomebodyWhoCollects) {
  EXPECT_TRUE(refuses_options("split.collect is 0", [](Options& o) { o.split = {{"intra", 1}, {"compute", 1}}; }));
}

}  // namespace
}  // namespace mk::test
