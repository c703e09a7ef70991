// SPDX-License-Identifier: MIT
// tests/runtime/kernel_registry_test.cc — what is registered is loaded once on each device.
#include "runtime/kernel_registry.h"

#include <gtest/gtest.h>

#include "mkernel/error.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

TEST(KernelRegistry, LoadsEachOnceOnEachDevice) {
  runtime::KernelRegistry registry;
  int first = 0;
  int second = 0;
  registry.add([&] { ++first; });
  registry.add([&] { ++second; });
  registry.load_all(0);
  registry.load_all(0);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  registry.load_all(3);
  registry.load_all(3);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 2);
}

TEST(KernelRegistry, LoadsLaterWhatIsRegisteredLater) {
  runtime::KernelRegistry registry;
  int early = 0;
  int late = 0;
  registry.add([&] { ++early; });
  registry.load_all(0);
  registry.add([&] { ++late; });
  registry.load_all(0);
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 1);
}

TEST(KernelRegistry, TriesAgainWhatFailedAndNothingElse) {
  runtime::KernelRegistry registry;
  int before = 0;
  int tries = 0;
  registry.add([&] { ++before; });
  registry.add([&] {
    if (++tries == 1) throw Error(ErrorCode::kDevice, "out of memory");
  });
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"out of memory"}, [&] { registry.load_all(0); }));
  registry.load_all(0);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(tries, 2);
}

}  // namespace
}  // namespace mk::test
