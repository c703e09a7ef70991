// SPDX-License-Identifier: MIT
// tests/support/draws.h — how many seeds or random cases a test draws.
#pragma once

namespace mk::test {

// `plain` of them, but a part in trees with sanitizers (tests/CMakeLists.txt).  There each case takes ten times as
// long, and random cases are a second look: tests of their own look at races and at each shape.
int draws(int plain);

}  // namespace mk::test
