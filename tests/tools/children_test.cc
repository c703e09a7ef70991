// SPDX-License-Identifier: MIT
// tests/tools/children_test.cc — processes that were forked are waited for, but not for ever.
#include "tools/children.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

template <class Body>
pid_t start(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  EXPECT_GT(child, 0);
  return child;
}

int never_ends() {
  for (;;) pause();
}

// Neither runs nor waits for somebody to ask how it ended.
bool is_gone(pid_t process) { return kill(process, 0) < 0 && errno == ESRCH; }

TEST(Children, AreWellIfAllExitWithZero) {
  for (const int worst : {0, 1}) {
    tools::Children children;
    children.add(start([=] { return worst; }), 1);
    children.add(start([] { return 0; }), 2);
    EXPECT_EQ(children.wait_for_all(kAmple), worst == 0);
  }
}

TEST(Children, OneThatDoesNotEndIsKilledAndNamed) {
  tools::Children children;
  children.add(start([] { return 0; }), 1);
  const pid_t stuck = start(never_ends);
  children.add(stuck, 2);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(children.wait_for_all(milliseconds(500)));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mkernel: rank 2 had not ended 500 ms after rank 0 and was killed\n");
  EXPECT_TRUE(is_gone(stuck));
}

TEST(Children, ThatAreNotWaitedForAreEnded) {
  pid_t left = 0;
  {
    tools::Children children;
    left = start(never_ends);
    children.add(left, 1);
  }
  EXPECT_TRUE(is_gone(left));
}

}  // namespace
}  // namespace mk::test
