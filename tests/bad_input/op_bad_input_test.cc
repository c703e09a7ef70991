// SPDX-License-Identifier: MIT
// tests/bad_input/op_bad_input_test.cc — operators around a GEMM refuse bad arguments by name, and the World works on.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/bad_input/bad_call.h"

namespace mk::test {
namespace {

// A of a rank has the rows of its shard, or all.
int64_t rows_of_a(Op op, int64_t m) { return op == Op::kAgGemm ? m / kBadCallWorld.size() : m; }

void set_m(Op op, BadArgs& args, int64_t m) {
  for (OpArgs& own : args) {
    a_of(own).rows = rows_of_a(op, m);
    if (op != Op::kGemmRs) c_of(own).rows = m;
  }
}
void set_n(BadArgs& args, int64_t n) {
  for (OpArgs& own : args) b_of(own).cols = c_of(own).cols = n;
}
void set_k(BadArgs& args, int64_t k) {
  for (OpArgs& own : args) a_of(own).cols = b_of(own).rows = k;
}
void set_dtype(BadArgs& args, DType dtype) {
  for (OpArgs& own : args) a_of(own).dtype = b_of(own).dtype = c_of(own).dtype = dtype;
}
void set_order(BadArgs& args, BOrder order) {
  for (OpArgs& own : args) own.form.b_order = order;
}

constexpr Op kGemmOps[] = {Op::kAgGemm, Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot};

// What every operator around a GEMM refuses.
std::vector<BadCall> bad_calls(Op op) {
  using Args = BadArgs;
  const bool has_shard = op == Op::kAgGemm;  // A has 33 rows, not 132
  return {
      {"MZero", {"m is 0"}, [=](Args& a, auto&) { set_m(op, a, 0); }},
      {"MNegative", {"m is -4"}, [=](Args& a, auto&) { set_m(op, a, -4); }},
      {"NZero", {"n is 0"}, [](Args& a, auto&) { set_n(a, 0); }},
      {"NNegative", {"n is -65"}, [](Args& a, auto&) { set_n(a, -65); }},
      {"KZero", {"k is 0"}, [](Args& a, auto&) { set_k(a, 0); }},
      {"KNegative", {"k is -3"}, [](Args& a, auto&) { set_k(a, -3); }},
      {"MTooLarge", {"m is 4294967296"}, [=](Args& a, auto&) { set_m(op, a, int64_t{1} << 32); }},
      {"NTooLarge", {"n is 2147483648"}, [](Args& a, auto&) { set_n(a, int64_t{1} << 31); }},
      {"KTooLarge", {"k is 2147483648"}, [](Args& a, auto&) { set_k(a, int64_t{1} << 31); }},
      {"NullA", {"a of rank 0", "null"}, [](Args& a, auto&) { a_of(a[0]).data = nullptr; }},
      {"NullB", {"b of rank 3", "null"}, [](Args& a, auto&) { b_of(a[3]).data = nullptr; }},
      {"NullC", {"c of rank 2", "null"}, [](Args& a, auto&) { c_of(a[2]).data = nullptr; }},
      {"MisalignedA",
       {"a of rank 1", "multiple of 4 bytes"},
       [](Args& a, auto&) { a_of(a[1]).data = shifted(a_of(a[1]).data); }},
      {"MisalignedB",
       {"b of rank 0", "multiple of 4 bytes"},
       [](Args& a, auto&) { b_of(a[0]).data = shifted(b_of(a[0]).data); }},
      {"MisalignedC",
       {"c of rank 3", "multiple of 4 bytes"},
       [](Args& a, auto&) { c_of(a[3]).data = shifted(c_of(a[3]).data); }},
      {"DTypeOfB", {"b of rank 0 is bf16"}, [](Args& a, auto&) { b_of(a[0]).dtype = DType::kBf16; }},
      {"DTypeOfC", {"c of rank 1 is fp16"}, [](Args& a, auto&) { c_of(a[1]).dtype = DType::kFp16; }},
      {"DTypeOfOneRank", {"a of rank 2 is bf16"}, [](Args& a, auto&) { a_of(a[2]).dtype = DType::kBf16; }},
      {"DTypeUnknown", {"dtype"}, [](Args& a, auto&) { set_dtype(a, static_cast<DType>(9)); }},
      {"OrderUnknown", {"b_order is 9"}, [](Args& a, auto&) { set_order(a, static_cast<BOrder>(9)); }},
      {"OrderOfOneRank", {"b_order of rank 3 is [N,K]"}, [](Args& a, auto&) { a[3].form.b_order = BOrder::kNK; }},
      {"OrderUnknownOfOneRank",
       {"b_order of rank 2 is unknown"},
       [](Args& a, auto&) { a[2].form.b_order = static_cast<BOrder>(9); }},
      {"OrderThatDoesNotFit",
       {"b of rank 0 is 3x65; it must be 3x3"},
       [](Args& a, auto&) { set_order(a, BOrder::kNK); }},
      {"RowsOfOneA",
       {has_shard ? "a of rank 1 is 34x3" : "a of rank 1 is 133x3", has_shard ? "33x3" : "132x3"},
       [](Args& a, auto&) { ++a_of(a[1]).rows; }},
      {"ColsOfOneA",
       {has_shard ? "a of rank 3 is 33x4" : "a of rank 3 is 132x4"},
       [](Args& a, auto&) { a_of(a[3]).cols = 4; }},
      {"RowsOfOneB", {"b of rank 1 is 2x65"}, [](Args& a, auto&) { b_of(a[1]).rows = 2; }},
      {"RowsOfTheFirstB", {"b of rank 0 is 2x65"}, [](Args& a, auto&) { b_of(a[0]).rows = 2; }},
      {"ColsOfOneB", {"b of rank 2 is 3x64"}, [](Args& a, auto&) { b_of(a[2]).cols = 64; }},
      {"RowsOfOneC", {"c of rank 2 is 7x65"}, [](Args& a, auto&) { c_of(a[2]).rows = 7; }},
      {"ColsOfOneC",
       {op == Op::kGemmRs ? "c of rank 0 is 33x66" : "c of rank 0 is 132x66"},
       [](Args& a, auto&) { c_of(a[0]).cols = 66; }},
      {"TooFewArgs", {"args has 3 entries", "4 ranks"}, [](Args& a, auto&) { a.pop_back(); }},
      {"TooManyArgs", {"args has 5 entries", "4 ranks"}, [](Args& a, auto&) { a.push_back(a[0]); }},
      {"NoArgs", {"args has 0 entries"}, [](Args& a, auto&) { a.clear(); }},
      {"StreamOnACpu", {"stream of rank 1"}, [](Args& a, auto&) { a[1].stream = a_of(a[1]).data; }},
      {"SplitWithoutCompute", {"split.compute is 0", "at least 1"}, with_workers(op, "compute", 0)},
      {"SplitNegative", {"split.compute is -1"}, with_workers(op, "compute", -1)},
      {"SplitTooLarge", {"split asks for 4000"}, with_workers(op, "compute", 4000)},
      {"SplitOverflows", {"split asks for 2147483647"}, with_workers(op, "compute", 2147483647)},
      {"SplitWithARoleOfNobody", {"split.cook is 1", "no such role"}, with_workers(op, "cook", 1)},
  };
}

using OpBadCall = std::tuple<Op, BadCall>;

std::vector<OpBadCall> all_bad_calls() {
  std::vector<OpBadCall> all;
  for (const Op op : kGemmOps) {
    for (const BadCall& bad : bad_calls(op)) all.emplace_back(op, bad);
  }
  return all;
}

class OpBadInput : public testing::TestWithParam<OpBadCall> {};

INSTANTIATE_TEST_SUITE_P(Each, OpBadInput, testing::ValuesIn(all_bad_calls()), joined_names);

TEST_P(OpBadInput, IsRefusedByNameAndTheWorldWorksOn) {
  const auto& [op, bad] = GetParam();
  expect_refused(op, bad);
}

class OpWorkspace : public testing::TestWithParam<Op> {};

INSTANTIATE_TEST_SUITE_P(All, OpWorkspace, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

TEST_P(OpWorkspace, RefusesTheSameShapesByName) {
  const World world = World::local(2, 2, DeviceKind::kCpu);
  const auto ask = [&](const Shape& shape) { row_of(GetParam()).workspace_bytes(world, {shape}); };
  EXPECT_TRUE(refuses({"m is 0"}, [&] { ask({0, 8, 8}); }));
  EXPECT_TRUE(refuses({"n is -1"}, [&] { ask({33, -1, 8}); }));
  EXPECT_TRUE(refuses({"k is 0"}, [&] { ask({33, 8, 0}); }));
}

}  // namespace
}  // namespace mk::test
