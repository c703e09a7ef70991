// SPDX-License-Identifier: MIT
// tests/attention/attention_errors_test.cc — both passes of attention on CPUs are as near to fp64 as attention that is
// computed step by step in the element type.
#include "tests/attention/attention_errors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "tests/support/worlds.h"

namespace mk::test {
namespace {

class AttentionErrors : public testing::TestWithParam<std::tuple<WorldShape, DType>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionErrors,
                         testing::Combine(testing::Values(WorldShape{1, 1}, WorldShape{2, 2}, WorldShape{1, 5}),
                                          testing::Values(DType::kBf16, DType::kFp16)),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" + mk::name_of(std::get<1>(info.param));
                         });

HeadValues read(const HeadTensor& from, HeadValues like) {
  std::memcpy(like.bytes.data(), from.data, like.bytes.size());
  return like;
}

TEST_P(AttentionErrors, AreAtMostTwiceThoseOfSteps) {
  const auto [shape, dtype] = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  const AttentionForm forms[] = {{{MaskKind::kFull}, SequenceOrder::kContiguous},
                                 {{MaskKind::kCausal}, SequenceOrder::kZigzag},
                                 {{MaskKind::kCausal, 20}, SequenceOrder::kContiguous},
                                 {{MaskKind::kCausal}, SequenceOrder::kContiguous, 1}};
  for (const AttentionForm& form : forms) {
    const AttentionCase at{.world = shape, .form = form, .shape = {1, 120 / shape.size(), 4, 2, 32, dtype}};
    AttentionBackwardLaunch launch(world, at, 3, 0, Outputs::kOfTheForwardPass);
    launch.enqueue(world);
    world.synchronize();
    const AttentionBackwardData data(at, 3, 0, Outputs::kOfTheForwardPass);
    std::vector<AttentionResults> ranks;
    for (int rank = 0; rank < shape.size(); ++rank) {
      const RingAttentionBackwardArgs& own = launch.args()[rank];
      ranks.push_back({read(own.o, data.q(rank)), read(own.dq, data.q(rank)), read(own.dk, data.k(rank)),
                       read(own.dv, data.k(rank))});
    }
    const auto right = errors_are_at_most_twice_those_of_steps(at, data, ranks);
    EXPECT_TRUE(right) << name_of(form);
    if (right) RecordProperty(name_of(form), right.message());
    for (float& element : std::span(reinterpret_cast<float*>(ranks[0].dk.bytes.data()), 1)) element = 9;
    EXPECT_FALSE(errors_are_at_most_twice_those_of_steps(at, data, ranks)) << "a wrong element is not found";
  }
}

}  // namespace
}  // namespace mk::test
