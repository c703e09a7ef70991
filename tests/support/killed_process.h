// SPDX-License-Identifier: MIT
// tests/support/killed_process.h — a process that is killed at a chosen moment of its work.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>

namespace mk::test {

// SIGKILL to this process when the time is over; at once if it is 0.
inline void kill_this_process_after(std::chrono::microseconds time) {
  if (time.count() == 0) raise(SIGKILL);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  itimerspec when{};
  when.it_value = {time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, nullptr) != 0) _exit(3);
}

// Runs body() in a process that is killed after that time unless it has ended before, and waits for its end.
template <class Body>
void run_killed_after(std::chrono::microseconds time, Body&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    kill_this_process_after(time);
    try {
      body();
    } catch (const std::exception&) {
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace mk::test
