// SPDX-License-Identifier: MIT
// tests/support/draws.cc — see draws.h.
#include "tests/support/draws.h"

namespace mk::test {

int draws(int plain) { return (plain + MKERNEL_DRAWS_ONE_IN - 1) / MKERNEL_DRAWS_ONE_IN; }

}  // namespace mk::test
