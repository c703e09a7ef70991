// SPDX-License-Identifier: MIT
// tests/launch/env_meeting_test.cc — ranks of a launcher meet by address or by file, and only those of one job do.
#include "runtime/env_meeting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"
#include "tests/support/handshaker.h"
#include "tests/support/killed_process.h"
#include "transport/private_file.h"

namespace mk::test {
namespace {

using runtime::LaunchEnv;
using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};
constexpr int kSize = 3;

// From below those that the kernel gives to whoever asks for any.
uint16_t free_port() {
  std::random_device random;
  for (;;) {
    const int port = std::uniform_int_distribution<int>(20'000, 32'000)(random);
    try {
      open_listener(port);
      return static_cast<uint16_t>(port);
    } catch (const Error&) {
    }
  }
}

class EnvMeeting : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "mkernel_meet_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  LaunchEnv by_file(int rank, const std::string& job = "job") const {
    LaunchEnv env;
    env.launcher = "test";
    env.rank = rank;
    env.size = kSize;
    env.job = job;
    env.folder = folder;
    return env;
  }
  LaunchEnv by_address(int rank, const std::string& job = "job") const {
    LaunchEnv env = by_file(rank, job);
    env.root = Endpoint{"localhost", port};
    return env;
  }
  size_t num_files() const {
    const std::filesystem::directory_iterator entries(folder);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  using Make = std::function<LaunchEnv(int rank)>;
  using Rank = std::future<std::unique_ptr<Bootstrap>>;

  static Rank start(const LaunchEnv& env, int number = 0, milliseconds timeout = kAmple) {
    return std::async(std::launch::async, [=] { return runtime::meet(env, number, timeout); });
  }

  // All meet, and hear each other.
  static void all_meet(const Make& make, int number) {
    std::vector<std::future<size_t>> heard;
    for (int rank = kSize - 1; rank >= 0; --rank) {
      heard.push_back(std::async(std::launch::async, [=] {
        return runtime::meet(make(rank), number, kAmple)->all_gather("hello", "a test's words").size();
      }));
    }
    for (auto& one : heard) EXPECT_EQ(one.get(), size_t{kSize});
  }

  std::string folder;
  const uint16_t port = free_port();
};

TEST_F(EnvMeeting, ByFileLeavesNothingBehind) {
  for (int number = 0; number < 3; ++number) all_meet([&](int rank) { return by_file(rank); }, number);
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(EnvMeeting, ByAddressWorldAfterWorldAtOnePort) {
  for (int number = 0; number < 3; ++number) all_meet([&](int rank) { return by_address(rank); }, number);
  EXPECT_EQ(num_files(), 1u) << "the user's secret stays";
}

TEST_F(EnvMeeting, ByAddressWithASecretOfTheJobNeedsNoFolder) {
  all_meet(
      [&](int rank) {
        LaunchEnv env = by_address(rank);
        env.folder.clear();
        env.secret = "a secret that is long";
        return env;
      },
      0);
  EXPECT_EQ(num_files(), 0u);
}

// Ranks of different builds must agree on it.  In Python: the label, the job and the number, each behind its length as
// 8 bytes, little-endian; hmac.new(secret, all, "sha256").digest()[:16].
TEST_F(EnvMeeting, TheSecretOfAWorldIsMadeAsItAlwaysWas) {
  LaunchEnv env = by_address(0);
  env.size = 1;
  env.secret = "a secret that is long";
  EXPECT_EQ(to_hex(runtime::meet(env, 0, kAmple)->secret()), "b94c7e93bfa8b1c400a8355dc0f81f87");
  EXPECT_EQ(to_hex(runtime::meet(env, 1, kAmple)->secret()), "ef55c515beaf41440ad91235c375547d");
}

// The next run of a job has the same secret.  Somebody who bound rank 0's port first took what rank 1 said.
TEST_F(EnvMeeting, AHelloTakenAtRankZerosPortIsOfNoUseInTheNextRun) {
  Hello taken;
  {
    const Fd fake = open_listener(port);
    Rank one = start(by_address(1), 0, milliseconds(1000));
    const int fd = fake.number();
    wait_readable({&fd, 1}, handshake_deadline());
    const Fd caller = accept_from(fake);
    say(caller, bytes_of(fresh_challenge()));
    receive_all(caller, writable_bytes_of(taken), handshake_deadline(), "rank 1's hello");
    EXPECT_EQ(taken.rank, 1u);
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {"could not reach rank 0"}, [&] { one.get(); }));
  }
  Rank root = start(by_address(0));
  Fd thief;
  ASSERT_TRUE(eventually([&] {
    try {
      thief = connect_to({"127.0.0.1", port}, handshake_deadline());
    } catch (const Error&) {  // rank 0 does not listen yet
    }
    return static_cast<bool>(thief);
  }));
  hear_challenge(thief);
  say(thief, bytes_of(taken));
  EXPECT_TRUE(is_turned_away_silently(thief));
  Rank one = start(by_address(1)), two = start(by_address(2));
  EXPECT_EQ(root.get()->size(), kSize);
}

TEST_F(EnvMeeting, JobsByFileDoNotMix) {
  std::vector<Rank> ranks;
  for (const char* job : {"1234.0", "1234.1"}) {
    for (int rank = 0; rank < kSize; ++rank) ranks.push_back(start(by_file(rank, job)));
  }
  std::vector<Secret> secrets;
  for (Rank& rank : ranks) secrets.push_back(rank.get()->secret());
  for (int rank = 1; rank < kSize; ++rank) {
    EXPECT_EQ(secrets[rank], secrets[0]);
    EXPECT_EQ(secrets[kSize + rank], secrets[kSize]);
  }
  EXPECT_NE(secrets[0], secrets[kSize]);
}

TEST_F(EnvMeeting, ByAddressAnotherJobAnotherWorldOrAnotherSecretIsAStranger) {
  Rank root = start(by_address(0));
  LaunchEnv other = by_address(1);
  other.secret = "a secret of another job";
  Rank strangers[] = {start(other, 0, kAmple / 4), start(by_address(1, "another"), 0, kAmple / 4),
                      start(by_address(1), 1, kAmple / 4)};
  for (Rank& one : strangers) EXPECT_TRUE(throws(ErrorCode::kFabric, {"closed"}, [&] { one.get(); }));
  Rank one = start(by_address(1)), two = start(by_address(2));
  EXPECT_EQ(root.get()->size(), kSize);
}

TEST_F(EnvMeeting, AnOldFileIsReadAgainUntilItIsNew) {
  const std::string path = folder + "/meet.job.0";
  write_private_file(path, UniqueId{random_secret(), {{"127.0.0.1", port}}}.to_string());  // nobody listens there
  Rank one = start(by_file(1)), two = start(by_file(2));
  Rank root = start(by_file(0));
  EXPECT_EQ(one.get()->size(), kSize);
}

TEST_F(EnvMeeting, AnythingInPlaceOfTheFileIsReplaced) {
  const std::string path = folder + "/meet.job.0";
  write_private_file(path, "old");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  write_private_file(path, "new");
  EXPECT_EQ(read_private_file(path), "new");
  remove_file(path);
  ASSERT_EQ(symlink("/nowhere", path.c_str()), 0);
  write_private_file(path, "newer");
  EXPECT_EQ(read_private_file(path), "newer");
}

// Killed at many moments from before it writes its file until it waits for the others.
TEST_F(EnvMeeting, WhatAKilledRootLeavesIsGoneAfterTheNextMeetingInTheFolder) {
  int num_left = 0;
  for (int i = 0; i < 40; ++i) {
    run_killed_after(std::chrono::microseconds(i * i * 50),
                     [&] { runtime::meet(by_file(0, fmt::format("killed{}", i)), 0, kAmple); });
    num_left = std::max(num_left, static_cast<int>(num_files()));
  }
  EXPECT_GT(num_left, 0) << "none was killed while its file was there";
  all_meet([&](int rank) { return by_file(rank); }, 0);
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(EnvMeeting, FilesOfTheLivingOfOtherMachinesAndOfOthersStay) {
  Rank root = start(by_file(0, "living"));
  ASSERT_TRUE(eventually([&] { return num_files() == 1; }));
  write_private_file(folder + "/meet.of.another.machine", "mkernel1;\nleft on 01234567-89ab-cdef-0123-456789abcdef");
  write_private_file(folder + "/meet.of.nobody", "mkernel1;");
  write_private_file(folder + "/secret", "0123456789abcdef0123456789abcdef");
  ASSERT_EQ(symlink("/nowhere", (folder + "/meet.link").c_str()), 0);
  all_meet([&](int rank) { return by_file(rank); }, 0);
  EXPECT_EQ(num_files(), 5u);
  Rank one = start(by_file(1, "living")), two = start(by_file(2, "living"));
  EXPECT_EQ(root.get()->size(), kSize);
  EXPECT_EQ(num_files(), 4u);
}

// As file systems have it that know no files without a name.
TEST_F(EnvMeeting, AFileThatWasNotFinishedIsGoneAfterTheNextMeeting) {
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  write_private_file(folder + "/meet.job.7.unfinished." + machine + ".0123", "mker");
  write_private_file(folder + "/secret.unfinished." + machine + ".0123", "");
  write_private_file(folder + "/secret.unfinished.another-machine.0123", "");
  all_meet([&](int rank) { return by_file(rank); }, 0);
  EXPECT_EQ(num_files(), 1u);
}

// The writer replaces what a sweeper is about to remove, and must not lose its own.
TEST_F(EnvMeeting, WritersAndSweepersOfOnePathDoNotLoseAFile) {
  const std::string path = folder + "/meet.job.0";
  const auto sweep = [&](const std::stop_token& is_over) {
    while (!is_over.stop_requested()) remove_abandoned_files(folder, "meet.");
  };
  const std::jthread first(sweep), second(sweep);
  int num_lost = 0;
  for (int i = 0; i < 500; ++i) {
    leave_private_file(path, "old");  // and its writer is gone
    const Fd held = leave_private_file(path, fmt::format("new {}", i));
    for (int look = 0; look < 20; ++look) {
      num_lost += read_private_file(path).value_or("").starts_with(fmt::format("new {}", i)) ? 0 : 1;
    }
  }
  EXPECT_EQ(num_lost, 0);
}

TEST_F(EnvMeeting, AFileThatOthersCouldReadOrHaveWrittenIsRefused) {
  const std::string path = folder + "/meet.job.0";
  write_private_file(path, "mkernel1;");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(throws(ErrorCode::kFabric, {path, "mode 644", "mode 600"}, [&] { start(by_file(1)).get(); }));
  write_private_file(folder + "/secret", "0123456789abcdef0123456789abcdef");
  ASSERT_EQ(chmod((folder + "/secret").c_str(), 0660), 0);
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"/secret", "mode 660"}, [&] { start(by_address(1)).get(); }));
}

TEST_F(EnvMeeting, AFileThatNeverComesIsNamed) {
  const auto late = [&] { start(by_file(1), 0, milliseconds(200)).get(); };
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1", folder + "/meet.job.0", "MKERNEL_MEET_DIR"}, late));
}

TEST_F(EnvMeeting, APortThatIsTakenIsNamed) {
  const Fd taken = open_listener(port);
  EXPECT_TRUE(throws(ErrorCode::kFabric, {fmt::format("port {}", port), "MKERNEL_MASTER_PORT"},
                     [&] { start(by_address(0)).get(); }));
}

TEST_F(EnvMeeting, AJobWithoutANameOrAFolderIsRefused) {
  EXPECT_TRUE(refuses({"MKERNEL_JOB_ID is not set"}, [&] { start(by_file(0, "")).get(); }));
  LaunchEnv homeless = by_file(0);
  homeless.folder.clear();
  EXPECT_TRUE(refuses({"MKERNEL_MEET_DIR is not set"}, [&] { start(homeless).get(); }));
  homeless.root = Endpoint{"localhost", port};
  EXPECT_TRUE(refuses({"MKERNEL_SECRET is not set"}, [&] { start(homeless).get(); }));
}

}  // namespace
}  // namespace mk::test
