// SPDX-License-Identifier: MIT
// tests/support/launching.cc — see launching.h.
#include "tests/support/launching.h"

namespace mk::test {

void fill(Matrix& matrix, Data data, std::mt19937_64& random) {
  std::uniform_int_distribution<int> whole(-4, 4);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int64_t col = 0; col < matrix.cols(); ++col) {
      matrix.set(row, col, data == Data::kExact ? static_cast<float>(whole(random)) : uniform(random));
    }
  }
}

void finish(World& world) { world.synchronize(); }

void finish(runtime::WorldState& world) {
  world.device().synchronize();
  world.check_faults();
}

WorldShape shape_of(const World& world) { return {world.nodes(), world.ranks_per_node()}; }

WorldShape shape_of(const runtime::WorldState& world) { return world.shape(); }

}  // namespace mk::test
