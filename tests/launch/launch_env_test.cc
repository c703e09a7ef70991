// SPDX-License-Identifier: MIT
// tests/launch/launch_env_test.cc — launcher variables become ranks and worlds; wrong ones are refused with a reason.
#include "runtime/launch_env.h"

#include <gtest/gtest.h>

#include "tests/launch/launcher_variables.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

using runtime::LaunchEnv;
using runtime::read_launch_env;

LaunchEnv env_of(const Variables& variables) { return runtime::require_launch_env(lookup_in(variables)); }

TEST(LaunchEnv, EveryLauncherSaysRankSizeAndWhatIsOnThisMachine) {
  struct Case {
    const Variables& variables;
    const char* launcher;
    int local_rank;
    int local_size;
    const char* job;
  };
  for (const Case& one : {Case{kTorchrun, "torchrun", 1, 4, ""}, Case{kMpirun, "mpirun", 5, 8, "1014038529"},
                          Case{kHydra, "mpiexec", 1, 4, ""}, Case{kSlurm, "srun", 1, 4, "1234.0"}}) {
    const LaunchEnv env = env_of(one.variables);
    EXPECT_EQ(env.launcher, one.launcher);
    EXPECT_EQ(env.rank, 5) << one.launcher;
    EXPECT_EQ(env.size, 8) << one.launcher;
    EXPECT_EQ(env.local_rank, one.local_rank) << one.launcher;
    EXPECT_EQ(env.local_size, one.local_size) << one.launcher;
    EXPECT_EQ(env.job, one.job);
    EXPECT_EQ(env.folder, "/home/me/.mkernel");
  }
}

// All torchruns that were given no id of their own say "none".
TEST(LaunchEnv, ATorchrunHasAJobOnlyIfItWasGivenAnId) {
  Variables variables = kTorchrun;
  EXPECT_EQ(env_of(variables).job, "");
  variables["TORCHELASTIC_RUN_ID"] = "mine";
  EXPECT_EQ(env_of(variables).job, "mine.0");
}

TEST(LaunchEnv, NoLauncherIsNoError) {
  EXPECT_FALSE(read_launch_env(lookup_in({})));
  EXPECT_FALSE(read_launch_env(lookup_in({{"RANK", "3"}}))) << "somebody's own RANK";
  EXPECT_TRUE(refuses({"the environment is no launcher's", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"},
                      [] { env_of({}); }));
}

// It has rank 0 of as many tasks as the job may start, and is none of them.
TEST(LaunchEnv, ABatchScriptIsNoRank) {
  EXPECT_FALSE(read_launch_env(lookup_in(with(kSlurm, {{"SLURM_STEP_ID", ""}}))));
}

TEST(LaunchEnv, TheInnermostLauncherCounts) {
  const Variables around = with(kSlurm, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(env_of(with(around, kMpirun)).launcher, "mpirun");
  EXPECT_EQ(env_of(with(with(around, kMpirun), kTorchrun)).launcher, "torchrun");
}

TEST(LaunchEnv, RanksMeetBesideTheMastersPort) {
  const LaunchEnv env = env_of(kTorchrun);
  ASSERT_TRUE(env.root);
  EXPECT_EQ(env.root->to_string(), "node7:29501");
  EXPECT_EQ(env_of(with(kTorchrun, {{"MKERNEL_MASTER_PORT", "4000"}})).root->to_string(), "node7:4000");
  EXPECT_EQ(env_of(with(kTorchrun, {{"MKERNEL_MASTER_ADDR", "node8"}})).root->to_string(), "node8:29501");
}

TEST(LaunchEnv, WithoutAnAddressRanksMeetInAFolder) {
  for (const Variables& variables : {kMpirun, kSlurm}) {
    EXPECT_FALSE(env_of(variables).root);
    EXPECT_EQ(env_of(with(variables, {{"MKERNEL_MEET_DIR", "/shared"}})).folder, "/shared");
  }
  EXPECT_FALSE(env_of(with(kTorchrun, {{"MKERNEL_MEET_DIR", "/shared"}})).root) << "what is ours wins";
  const Variables addressed = with(kSlurm, {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(env_of(addressed).root->to_string(), "node7:29501") << "as scripts for torch have it";
}

TEST(LaunchEnv, AJobMayBeNamed) { EXPECT_EQ(env_of(with(kHydra, {{"MKERNEL_JOB_ID", "mine"}})).job, "mine"); }

TEST(LaunchEnv, AWrongVariableIsNamedWithItsValueAndWhatIsNeeded) {
  struct Case {
    const Variables& base;
    Variables change;
    std::string_view words[2];
  };
  const Case cases[] = {
      {kTorchrun, {{"RANK", "eight"}}, {"RANK is 'eight'", "0 to 7"}},
      {kTorchrun, {{"RANK", "8"}}, {"RANK is '8'", "0 to 7"}},
      {kTorchrun, {{"RANK", "-1"}}, {"RANK is '-1'", "0 to 7"}},
      {kTorchrun, {{"WORLD_SIZE", "0"}}, {"WORLD_SIZE is '0'", "from 1"}},
      {kTorchrun, {{"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE is '99999999999'", "to 1048576"}},
      {kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}, {"LOCAL_WORLD_SIZE is '9'", "1 to 8"}},
      {kTorchrun, {{"LOCAL_RANK", "4"}}, {"LOCAL_RANK is '4'", "0 to 3"}},
      {kTorchrun, {{"MASTER_PORT", "65535"}}, {"MASTER_PORT is '65535'", "to 65534"}},
      {kTorchrun, {{"MASTER_PORT", "http"}}, {"MASTER_PORT is 'http'", "whole number"}},
      {kTorchrun, {{"MKERNEL_MASTER_PORT", "0"}}, {"MKERNEL_MASTER_PORT is '0'", "from 1"}},
      {kTorchrun, {{"MKERNEL_SECRET", "short"}}, {"MKERNEL_SECRET has 5 characters", "at least 16"}},
      {kMpirun, {{"OMPI_COMM_WORLD_RANK", "1.5"}}, {"OMPI_COMM_WORLD_RANK is '1.5'", "0 to 7"}},
      {kMpirun, {{"MKERNEL_MASTER_ADDR", "node7"}}, {"MKERNEL_MASTER_PORT is not set", "free"}},
      {kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}}, {"SLURM_STEP_TASKS_PER_NODE is '4(x2),3'", "as many"}},
      {kSlurm, {{"SLURM_PROCID", "x"}}, {"SLURM_PROCID is 'x'", "0 to 7"}},
  };
  for (const Case& one : cases) {
    EXPECT_TRUE(refuses({one.words[0], one.words[1]}, [&] { env_of(with(one.base, one.change)); }));
  }
}

TEST(WorldOfALauncher, IsItsMachinesUnlessAskedOtherwise) {
  const auto shape = [](const Variables& variables, int nodes, int ranks) {
    const WorldShape shape = runtime::shape_for(env_of(variables), nodes, ranks);
    return std::pair(shape.nodes, shape.ranks);
  };
  EXPECT_EQ(shape(kTorchrun, 0, 0), std::pair(2, 4));
  EXPECT_EQ(shape(kMpirun, 0, 0), std::pair(1, 8));
  EXPECT_EQ(shape(kMpirun, 2, 4), std::pair(2, 4)) << "two nodes on one machine";
  EXPECT_EQ(shape(kMpirun, 2, 0), std::pair(2, 4));
  EXPECT_EQ(shape(kMpirun, 0, 2), std::pair(4, 2));
  EXPECT_EQ(shape(with(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}, {"LOCAL_RANK", ""}}), 2, 4), std::pair(2, 4));
}

TEST(WorldOfALauncher, IsOfItsProcessesAndOfWholeMachines) {
  const auto refused = [](const Variables& variables, int nodes, int ranks, std::string_view word) {
    return refuses({word}, [&] { runtime::shape_for(env_of(variables), nodes, ranks); });
  };
  EXPECT_TRUE(refused(kMpirun, 2, 8, "nodes x ranks is 2 x 8; mpirun started 8 processes"));
  EXPECT_TRUE(refused(kMpirun, 3, 0, "nodes x ranks is 3 x 8"));
  EXPECT_TRUE(refused(kTorchrun, 1, 8, "ranks_per_node is 8; torchrun started 4"));
  EXPECT_TRUE(refused(with(kTorchrun, {{"LOCAL_WORLD_SIZE", ""}}), 0, 0, "ranks_per_node is not given"));
  EXPECT_TRUE(refused(with(kTorchrun, {{"LOCAL_RANK", "2"}}), 0, 0, "rank 5 is number 2 on its machine"));
}

}  // namespace
}  // namespace mk::test
