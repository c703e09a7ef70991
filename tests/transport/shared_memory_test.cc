// SPDX-License-Identifier: MIT
// tests/transport/shared_memory_test.cc — memory between processes: nothing is left behind, and nothing else is taken
// for it.
#include "transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/open_files.h"
#include "transport/free_memory.h"

namespace mk::test {
namespace {

constexpr size_t kBytes = 4096;

std::string path_of(const std::string& handle) { return handle.substr(0, handle.find(':')); }
std::string label_of(const std::string& handle) { return handle.substr(handle.find(':') + 1); }

// A process that has made memory and waits to be killed.
class Maker {
 public:
  Maker() {
    int handles[2];
    if (pipe(handles) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      const SharedMemory memory = SharedMemory::make(kBytes);
      const std::string handle = memory.handle();
      if (write(handles[1], handle.c_str(), handle.size()) < 0) _exit(1);
      for (;;) pause();
    }
    char handle[256];
    const ssize_t bytes = read(handles[0], handle, sizeof(handle));
    handle_.assign(handle, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    close(handles[0]);
    close(handles[1]);
  }
  Maker(const Maker&) = delete;
  ~Maker() { end(); }

  const std::string& handle() const { return handle_; }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_;
  std::string handle_;
};

TEST(SharedMemory, IsTheSameMemoryInAnotherProcess) {
  Maker maker;
  const SharedMemory first = SharedMemory::open(maker.handle(), kBytes);
  const SharedMemory second = SharedMemory::open(maker.handle(), kBytes);
  first.data()[17] = std::byte{42};
  EXPECT_EQ(second.data()[17], std::byte{42});
  EXPECT_EQ(second.data()[18], std::byte{0});
  maker.end();
  EXPECT_EQ(second.data()[17], std::byte{42}) << "what is mapped stays";
}

TEST(SharedMemory, AKilledMakerLeavesNothing) {
  Maker maker;
  const std::string label = label_of(maker.handle());
  maker.end();
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + label));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot open", "its process must be alive", "--pid=host"},
                     [&] { SharedMemory::open(maker.handle(), kBytes); }));
}

TEST(SharedMemory, IsNotOpenedOnceItIsForgotten) {
  const int before = num_open_files();
  SharedMemory memory = SharedMemory::make(kBytes);
  const std::string handle = memory.handle();
  EXPECT_NE(SharedMemory::open(handle, kBytes).data(), nullptr);
  memory.forget();
  EXPECT_EQ(num_open_files(), before) << "neither makers nor openers keep descriptors";
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot open"}, [&] { SharedMemory::open(handle, kBytes); }));
  memory.data()[0] = std::byte{1};
}

// As if the process had ended and another had its id; or it had closed the descriptor and another file has its number.
TEST(SharedMemory, AnotherFileInItsPlaceIsRefused) {
  const Maker maker;
  const SharedMemory other = SharedMemory::make(kBytes);
  const std::string stale = path_of(other.handle()) + ":" + label_of(maker.handle());
  EXPECT_TRUE(throws(ErrorCode::kDevice,
                     {path_of(other.handle()), label_of(other.handle()), "not " + label_of(maker.handle()), "ended"},
                     [&] { SharedMemory::open(stale, kBytes); }));
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::string device = fmt::format("/proc/{}/fd/{}:{}", getpid(), null.number(), label_of(maker.handle()));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"/dev/null is there"}, [&] { SharedMemory::open(device, kBytes); }));
}

TEST(SharedMemory, WhatIsNoHandleOrOfAnotherSizeIsRefused) {
  const SharedMemory memory = SharedMemory::make(kBytes);
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"has 4096 bytes; 8192 were expected"},
                     [&] { SharedMemory::open(memory.handle(), 2 * kBytes); }));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"'/mkernel.0123' is not a handle"},
                     [&] { SharedMemory::open("/mkernel.0123", kBytes); }));
}

TEST(SharedMemory, MoreThanThereIsIsRefusedAndNothingStaysTaken) {
  const FreeMemory memory = free_memory();
  ASSERT_LT(memory.bytes, UINT64_MAX);
  const int before = num_open_files();
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot make", "bytes are free of", "missing"},
                     [&] { SharedMemory::make(memory.bytes + memory.bytes / 2); }));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot make"}, [] { SharedMemory::make(SIZE_MAX); }));
  EXPECT_EQ(num_open_files(), before);
}

// A machine of text files.
class Machine {
 public:
  Machine() {
    std::string name = (std::filesystem::temp_directory_path() / "mkernel_machine_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    root = name;
    put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 0 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  std::string root;
};

TEST(FreeMemory, IsTheMachinesUnlessACgroupLeavesLess) {
  const Machine machine;
  EXPECT_EQ(free_memory(machine.root).bytes, 4000u << 10);
  EXPECT_EQ(free_memory(machine.root).limit, "this machine");
  machine.put("/proc/self/cgroup", "0::/jobs/one\n");
  machine.put("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  machine.put("/sys/fs/cgroup/jobs/one/memory.current", "1000\n");
  EXPECT_EQ(free_memory(machine.root).bytes, 4000u << 10);
  machine.put("/sys/fs/cgroup/jobs/memory.max", "500000\n");
  machine.put("/sys/fs/cgroup/jobs/memory.current", "400000\n");
  machine.put("/sys/fs/cgroup/jobs/memory.stat", "anon 1\nfile 200000\ninactive_file 20000\nactive_file 3000\n");
  EXPECT_EQ(free_memory(machine.root).bytes, 123000u);
  EXPECT_EQ(free_memory(machine.root).limit, "the memory cgroup " + machine.root + "/sys/fs/cgroup/jobs");
}

TEST(FreeMemory, OfACgroupOfTheFirstVersionIsFoundAtTheRootOfAContainer) {
  const Machine machine;
  machine.put("/proc/self/cgroup", "7:cpu:/\n4:memory:/docker/0123\n0::/\n");
  machine.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
  machine.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200000\n");
  machine.put("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 300000\n");
  EXPECT_EQ(free_memory(machine.root).bytes, 100000u);
}

TEST(FreeMemory, NothingThatIsKnownIsNoLimit) { EXPECT_EQ(free_memory("/nowhere").bytes, UINT64_MAX); }

}  // namespace
}  // namespace mk::test
