// SPDX-License-Identifier: MIT
// tests/support/eventually.h — waits for what another thread must do, bounded.
#pragma once

#include <chrono>
#include <thread>

namespace mk::test {

// False if `holds` did not come true in a time no healthy machine needs.
template <class Predicate>
bool eventually(Predicate&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace mk::test
