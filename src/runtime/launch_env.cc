// SPDX-License-Identifier: MIT
// runtime/launch_env.cc — see launch_env.h.
#include "runtime/launch_env.h"

#include <charconv>

#include "base/check.h"

namespace mk::runtime {
namespace {

// What a launcher calls things.  It has spoken if the first three are set.
struct Dialect {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* sign;  // of its own processes: Slurm's batch script has a rank as well, and is none
  const char* local_rank;
  const char* local_size[3];  // the first that is set
  const char* job[2];         // all that are set
};

constexpr Dialect kDialects[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "RANK",
     "LOCAL_RANK",
     {"LOCAL_WORLD_SIZE"},
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMIX_NAMESPACE"}},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALRANKID", {"MPI_LOCALNRANKS"}, {}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_STEP_ID",
     "SLURM_LOCALID",
     {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

constexpr int kMostRanks = 1 << 20;

int number_from(const char* name, std::string_view text, int least, int most) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check_arg(error == std::errc() && rest == text.data() + text.size() && value >= least && value <= most,
            "{} is '{}'; it must be a whole number from {} to {}", name, text, least, most);
  return value;
}

std::optional<int> number_of(const Lookup& lookup, const char* name, int least, int most) {
  const std::optional<std::string> text = lookup(name);
  if (!text) return std::nullopt;
  return number_from(name, *text, least, most);
}

// Slurm says "4(x2)": four tasks on each of two nodes, or "4(x2),3" where nodes differ.
std::optional<int> local_size_of(const Lookup& lookup, const Dialect& dialect, int size) {
  for (const char* name : dialect.local_size) {
    const std::optional<std::string> text = name == nullptr ? std::nullopt : lookup(name);
    if (!text) continue;
    check_arg(text->find(',') == std::string::npos, "{} is '{}'; every node must have as many ranks", name, *text);
    return number_from(name, std::string_view(*text).substr(0, text->find('(')), 1, size);
  }
  return std::nullopt;
}

std::string job_of(const Lookup& lookup, const Dialect& dialect) {
  if (const auto given = lookup("MKERNEL_JOB_ID")) return *given;
  std::string job;
  // Every torchrun without an id of its own says "none".
  if (dialect.job[0] == nullptr || lookup(dialect.job[0]).value_or("none") == "none") return job;
  for (const char* name : dialect.job) {
    const std::optional<std::string> text = name == nullptr ? std::nullopt : lookup(name);
    if (text) job += (job.empty() ? "" : ".") + *text;
  }
  return job;
}

// MASTER_PORT itself is taken: torchrun's own store listens there.
int root_port(const Lookup& lookup) {
  constexpr int kMostPort = 65535;
  if (const auto own = number_of(lookup, "MKERNEL_MASTER_PORT", 1, kMostPort)) return *own;
  const auto master = number_of(lookup, "MASTER_PORT", 1, kMostPort - 1);
  check_arg(master.has_value(),
            "MKERNEL_MASTER_PORT is not set; it must be a port that is free on the machine of rank 0");
  return *master + 1;
}

std::optional<Endpoint> root_of(const Lookup& lookup) {
  std::optional<std::string> host = lookup("MKERNEL_MASTER_ADDR");
  const bool is_torch = lookup("MASTER_ADDR") && lookup("MASTER_PORT") && !lookup("MKERNEL_MEET_DIR");
  if (!host && is_torch) host = lookup("MASTER_ADDR");
  if (!host) return std::nullopt;
  return Endpoint{*host, static_cast<uint16_t>(root_port(lookup))};
}

// Whoever guesses a secret may join.
std::string secret_of(const Lookup& lookup) {
  constexpr size_t kShortest = 16;
  const std::string secret = lookup("MKERNEL_SECRET").value_or("");
  check_arg(secret.empty() || secret.size() >= kShortest, "MKERNEL_SECRET has {} characters; it must have at least {}",
            secret.size(), kShortest);
  return secret;
}

std::string folder_of(const Lookup& lookup) {
  if (const auto given = lookup("MKERNEL_MEET_DIR")) return *given;
  const auto home = lookup("HOME");
  return home ? *home + "/.mkernel" : "";
}

LaunchEnv read_as(const Dialect& dialect, const Lookup& lookup) {
  LaunchEnv env;
  env.launcher = dialect.launcher;
  env.size = number_of(lookup, dialect.size, 1, kMostRanks).value();
  env.rank = number_of(lookup, dialect.rank, 0, env.size - 1).value();
  env.local_size = local_size_of(lookup, dialect, env.size);
  env.local_rank = number_of(lookup, dialect.local_rank, 0, env.local_size.value_or(env.size) - 1);
  env.job = job_of(lookup, dialect);
  env.root = root_of(lookup);
  env.folder = folder_of(lookup);
  env.secret = secret_of(lookup);
  return env;
}

}  // namespace

std::optional<LaunchEnv> read_launch_env(const Lookup& lookup) {
  for (const Dialect& dialect : kDialects) {
    if (lookup(dialect.rank) && lookup(dialect.size) && lookup(dialect.sign)) return read_as(dialect, lookup);
  }
  return std::nullopt;
}

LaunchEnv require_launch_env(const Lookup& lookup) {
  if (auto env = read_launch_env(lookup)) return *std::move(env);
  std::string known;
  for (const Dialect& one : kDialects) {
    known += fmt::format("{}{} ({}, {})", known.empty() ? "" : ", ", one.launcher, one.rank, one.size);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the environment is no launcher's; it must have the variables of one of {}", known));
}

WorldShape shape_for(const LaunchEnv& env, int nodes, int ranks) {
  if (ranks <= 0 && nodes > 0 && env.size % nodes == 0) ranks = env.size / nodes;
  if (ranks <= 0) {
    check_arg(env.local_size.has_value(), "ranks_per_node is not given; {} does not say how many ranks a machine has",
              env.launcher);
    ranks = *env.local_size;
  }
  if (nodes <= 0) nodes = (env.size + ranks - 1) / ranks;
  check_arg(int64_t{nodes} * ranks == env.size, "nodes x ranks is {} x {}; {} started {} processes", nodes, ranks,
            env.launcher, env.size);
  // A node's ranks share memory, so they must be on one machine; a machine may hold several nodes.
  check_arg(env.local_size.value_or(ranks) % ranks == 0,
            "ranks_per_node is {}; {} started {} processes on this machine, which is no multiple", ranks, env.launcher,
            env.local_size.value_or(0));
  check_arg(!env.local_rank || *env.local_rank % ranks == env.rank % ranks,
            "rank {} is number {} on its machine; ranks must be numbered machine by machine (mpirun --map-by slot, "
            "srun --distribution=block)",
            env.rank, env.local_rank.value_or(0));
  return {nodes, ranks};
}

}  // namespace mk::runtime
