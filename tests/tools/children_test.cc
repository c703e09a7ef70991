// SPDX-License-Identifier: MIT
// tests/tools/children_test.cc — processes that were forked are waited for, but not for ever, and what they said is
// kept.
#include "tools/children.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/eventually.h"
#include "tools/notices.h"

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

constexpr tools::Children::Patience kPatient{kAmple, kAmple};

// Until the kernel says that the process is stopped.
bool stops(pid_t process) {
  kill(process, SIGSTOP);
  return eventually([&] {
    std::ifstream status("/proc/" + std::to_string(process) + "/stat");
    std::string text((std::istreambuf_iterator<char>(status)), {});
    return text.find(") T ") != text.npos;
  });
}

TEST(Children, TellTheirExitCodes) {
  tools::Children children;
  children.add(start([] { return 0; }), 0);
  children.add(start([] { return 1; }), 1);
  const std::vector<tools::ChildEnd> ends = children.wait_for_all(kPatient);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].exit_code, 1);
  EXPECT_EQ(ends[1].death, "");
}

// Nobody is told how they end then, so this must not wait to be.
TEST(Children, OfWhoseEndNothingIsKnownHaveFailed) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  tools::Children children;
  children.add(start([] { return 0; }), 0);
  const std::vector<tools::ChildEnd> ends = children.wait_for_all(kPatient);
  std::signal(SIGCHLD, before);
  EXPECT_EQ(ends[0].exit_code, -1);
  EXPECT_EQ(ends[0].death, "ended, and nobody knows how");
}

TEST(Children, OneThatIsKilledIsNamedWithItsSignal) {
  tools::Children children;
  const pid_t victim = start(never_ends);
  children.add(victim, 3);
  kill(victim, SIGKILL);
  EXPECT_EQ(children.wait_for_all(kPatient)[0].death, "was killed by signal 9 (Killed)");
}

TEST(Children, OneThatDoesNotEndAfterAFailureIsKilledInTime) {
  tools::Children children;
  children.add(start([] { return 1; }), 1);
  const pid_t stuck = start(never_ends);
  children.add(stuck, 2);
  const std::vector<tools::ChildEnd> ends =
      children.wait_for_all({.after_failure = milliseconds(500), .after_success = kAmple});
  EXPECT_EQ(ends[1].death, "had not ended 500 ms after another rank; it was killed");
  EXPECT_TRUE(ends[1].is_late);
  EXPECT_TRUE(is_gone(stuck));
}

TEST(Children, OneThatIsStoppedIsKilledSoonAfterAnotherEnds) {
  tools::Children children;
  const pid_t stuck = start(never_ends);
  ASSERT_TRUE(stops(stuck));
  children.add(stuck, 0);
  children.add(start([] { return 1; }), 1);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<tools::ChildEnd> ends = children.wait_for_all(kPatient);
  EXPECT_EQ(ends[0].death, "was stopped by signal 19 (Stopped (signal)) and did not go on; it was killed");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kAmple / 2);
  EXPECT_TRUE(is_gone(stuck));
}

// Nobody has ended: the others compute, and wait for it next.
TEST(Children, OneThatIsStoppedForTooLongIsKilledAndTheOthersSoonAfterIt) {
  tools::Children children;
  const pid_t stopped = start(never_ends);
  ASSERT_TRUE(stops(stopped));
  const pid_t busy = start(never_ends);
  children.add(stopped, 0);
  children.add(busy, 1);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<tools::ChildEnd> ends =
      children.wait_for_all({.after_failure = milliseconds(500), .after_success = kAmple});
  EXPECT_EQ(ends[0].death, "was stopped by signal 19 (Stopped (signal)) and did not go on; it was killed");
  EXPECT_FALSE(ends[0].is_late);
  EXPECT_TRUE(ends[1].is_late);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kAmple / 2);
  EXPECT_TRUE(is_gone(stopped) && is_gone(busy));
}

TEST(Children, OneThatGoesOnAfterAStopIsLeftAlone) {
  tools::Children children;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGUSR1);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  const pid_t paused = start([&] {
    int signal = 0;
    return sigwait(&end, &signal);
  });
  sigprocmask(SIG_UNBLOCK, &end, nullptr);
  children.add(paused, 0);
  ASSERT_TRUE(stops(paused));
  kill(paused, SIGUSR1);
  kill(paused, SIGCONT);
  const std::vector<tools::ChildEnd> ends = children.wait_for_all(kPatient);
  EXPECT_EQ(ends[0].exit_code, 0);
}

TEST(Children, ThatWaitForOneWithWrongUsageAreEnded) {
  tools::Children children;
  children.add(start([] { return 2; }), 0);
  children.add(start(never_ends), 1);
  const std::vector<tools::ChildEnd> ends = children.wait_for_all(kPatient);
  EXPECT_EQ(ends[0].exit_code, 2);
  EXPECT_TRUE(ends[1].is_late);
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

TEST(Notices, AreReadByWhoForked) {
  tools::Notices notices(3);
  const pid_t child = start([&] {
    notices.say(1, "what is wrong");
    notices.say(2, std::string(10'000, 'x'));
    return 0;
  });
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(notices.of(0), "");
  EXPECT_EQ(notices.of(1), "what is wrong");
  EXPECT_EQ(notices.of(2), std::string(notices.of(2).size(), 'x'));
  EXPECT_LT(notices.of(2).size(), 10'000u);
}

}  // namespace
}  // namespace mk::test
