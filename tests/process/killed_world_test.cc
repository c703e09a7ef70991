// SPDX-License-Identifier: MIT
// tests/process/killed_world_test.cc — worlds of processes leave nothing behind, however and whenever they end.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/killed_process.h"
#include "tests/support/op_launch.h"
#include "tests/support/open_files.h"
#include "tests/support/processes.h"

namespace mk::test {
namespace {

constexpr WorldShape kWorld{2, 2};
constexpr Shape kShape{67, 129, 3};

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mkernel_killed_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// As a launcher would start a rank that meets the others by a file.
World join_by_file(const Folder& folder, const std::string& job, int rank) {
  setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
  setenv("OMPI_COMM_WORLD_SIZE", std::to_string(kWorld.size()).c_str(), 1);
  setenv("MKERNEL_MEET_DIR", folder.path.c_str(), 1);
  setenv("MKERNEL_JOB_ID", job.c_str(), 1);
  Options options{.timeout_ms = 20'000};
  options.net = "shm";
  return World::from_env(kWorld.nodes, kWorld.ranks, options);
}

void launch_in(World& world, const Shape& shape = kShape) {
  OpLaunch launch(Op::kAgGemm, kWorld, {shape});
  enqueue(world, launch);
  world.synchronize();
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// That were not there before; worlds of other programs may come and go.
testing::AssertionResult no_name_is_new_since(const std::set<std::string>& before) {
  std::string left;
  const bool none = eventually([&] {
    left.clear();
    for (const std::string& name : names_in("/dev/shm")) {
      if (name.starts_with("mkernel.") && !before.contains(name)) left += " " + name;
    }
    return left.empty();
  });
  return none ? testing::AssertionSuccess() : testing::AssertionFailure() << "in /dev/shm:" << left;
}

// All ranks at once, as a launcher does when one of its processes has ended: at moments of the meeting, and of making
// plan after plan.
TEST(KilledWorld, LeavesNothingInSharedMemoryNorInTheFolderOfTheNext) {
  const Folder folder;
  const std::set<std::string> before = names_in("/dev/shm");
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(processes_do(kWorld.size(), [&](int rank) {
      if (i % 2 == 0) kill_this_process_after(std::chrono::microseconds(500 + i * 1000));
      World world = join_by_file(folder, fmt::format("killed{}", i), rank);
      kill_this_process_after(std::chrono::microseconds(500 + i * 100));
      for (int columns = 1;; ++columns) launch_in(world, {67, columns, 3});
      return true;
    }));
  }
  EXPECT_TRUE(processes_do(kWorld.size(), [&](int rank) {
    World world = join_by_file(folder, "next", rank);
    launch_in(world);
    return true;
  }));
  EXPECT_EQ(names_in(folder.path), std::set<std::string>());
  EXPECT_TRUE(no_name_is_new_since(before));
}

TEST(ProcessWorld, MapsItsWindowsAndNoneHasAName) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(kWorld.size(), [&](int rank) {
    World world = World::join(id, rank, kWorld.nodes, kWorld.ranks, {.timeout_ms = 20'000});
    launch_in(world);
    int mapped = 0, named = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      mapped += line.find("/memfd:mkernel.") == std::string::npos ? 0 : 1;
      named += line.find("/dev/shm/") == std::string::npos ? 0 : 1;
    }
    return mapped > 0 && named == 0;
  }));
}

TEST(ProcessWorld, DescriptorsDoNotGrowWithWorldsAndPlans) {
  const Folder folder;
  EXPECT_TRUE(processes_do(kWorld.size(), [&](int rank) {
    constexpr int kWorlds = 100, kPlans = 20;
    int first = 0, last = 0, plans_first = 0, plans_last = 0;
    for (int i = 0; i < kWorlds; ++i) {
      World world = join_by_file(folder, "job", rank);
      launch_in(world);
      if (i == 0) first = num_open_files();
      last = num_open_files();
      if (i + 1 < kWorlds) continue;
      plans_first = last;
      for (int plan = 1; plan <= kPlans; ++plan) launch_in(world, {67, plan, 3});
      plans_last = num_open_files();
    }
    if (last != first || plans_last != plans_first) {
      fmt::print(stderr, "{} descriptors in the first world, {} in the last; {} with {} plans\n", first, last,
                 plans_last, kPlans + 1);
    }
    return last == first && plans_last == plans_first;
  }));
}

}  // namespace
}  // namespace mk::test
