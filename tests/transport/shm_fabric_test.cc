// SPDX-License-Identifier: MIT
// tests/transport/shm_fabric_test.cc — what only the shm fabric can get wrong: seats, handles, windows that cannot be
// mapped.
#include "transport/shm_fabric.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "transport/shm_port.h"

namespace mk::test {
namespace {

PortSettings settings_of(int rank, std::chrono::milliseconds deadline = std::chrono::milliseconds{20'000}) {
  PortSettings settings;
  settings.world = {2, 1};
  settings.rank = rank;
  settings.deadline = deadline;
  return settings;
}

TEST(ShmSeat, IsTakenUntilItsOwnerLetsGo) {
  auto seat = std::make_unique<ShmSeat>();
  const ShmGuest guest(seat->handle()), other(seat->handle());
  EXPECT_EQ(seat->num_guests(), 2u);
  EXPECT_FALSE(guest.host_is_gone());
  seat->hide();
  EXPECT_FALSE(guest.host_is_gone());
  seat.reset();
  EXPECT_TRUE(guest.host_is_gone());
  EXPECT_TRUE(other.host_is_gone());
}

TEST(ShmSeat, IsGivenUpByAProcessThatIsKilled) {
  int handles[2];
  ASSERT_EQ(pipe(handles), 0);
  const pid_t child = fork();
  if (child == 0) {
    const ShmSeat seat;
    const std::string handle = seat.handle();
    if (write(handles[1], handle.c_str(), handle.size() + 1) < 0) _exit(1);
    for (;;) pause();
  }
  char handle[256]{};
  ASSERT_GT(read(handles[0], handle, sizeof(handle)), 0);
  const ShmGuest guest(handle);
  EXPECT_FALSE(guest.host_is_gone());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(guest.host_is_gone());
  close(handles[0]);
  close(handles[1]);
}

TEST(ShmPort, ASeatOfAnotherMachineIsNotFound) {
  const WindowRegistry windows;
  ShmPort port(settings_of(0), windows);
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 0 does not find rank 1 on this machine"}, [&] {
    port.connect({port.address(), "/mkernel.of.another.machine"});
  }));
}

TEST(ShmPort, APeerThatDoesNotConnectIsMissedAtTheDeadline) {
  const WindowRegistry windows;
  ShmPort port(settings_of(0, std::chrono::milliseconds{50}), windows);
  const ShmPort peer(settings_of(1), windows);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 0 waited 50 ms", "0 of 1 ranks came"}, [&] {
    port.connect({port.address(), peer.address()});
  }));
}

TEST(ShmPort, AWindowOfPrivateMemoryIsRefused) {
  WindowRegistry windows;
  std::byte memory[64];
  const uint32_t window = windows.add({memory, nullptr}, sizeof(memory));
  ShmPort port(settings_of(0), windows);
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"not in shared memory"}, [&] { port.share_window(window); }));
}

TEST(ShmPort, NobodyOpensTheSeatsOfRanksThatHaveMet) {
  const WindowRegistry windows;
  ShmPort first(settings_of(0), windows), second(settings_of(1), windows);
  const std::vector<std::string> addresses{first.address(), second.address()};
  std::unique_ptr<Fabric> of_second;
  std::thread peer([&] { of_second = second.connect(addresses); });
  const std::unique_ptr<Fabric> of_first = first.connect(addresses);
  peer.join();
  for (const std::string& handle : addresses) {
    EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot open"}, [&] { ShmGuest{handle}; }));
  }
}

// It takes no part any more, so its peers must not wait for it.
TEST(ShmFabric, AFabricThatFailsFailsItsPeers) {
  FabricWorld world("shm", {2, 1}, 64);
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 1'000'000), 0), PutResult::kFailed);
  std::vector<uint64_t> completed;
  EXPECT_TRUE(busily([&] { return world.fabric(1).poll(completed) == PutResult::kFailed; }));
  EXPECT_NE(world.fabric(1).failure().find("rank 0 is gone"), std::string::npos) << world.fabric(1).failure();
}

}  // namespace
}  // namespace mk::test
