// SPDX-License-Identifier: MIT
// tests/launch/launcher_variables.h — what launchers put into the environment of a process.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/environment.h"

namespace mk::test {

using Variables = std::map<std::string, std::string>;

inline runtime::Lookup lookup_in(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

// `base` with some changed; an empty value takes a variable away.
inline Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

// torchrun --nnodes 2 --nproc-per-node 4
inline const Variables kTorchrun{{"RANK", "5"},
                                 {"LOCAL_RANK", "1"},
                                 {"GROUP_RANK", "1"},
                                 {"ROLE_RANK", "5"},
                                 {"WORLD_SIZE", "8"},
                                 {"LOCAL_WORLD_SIZE", "4"},
                                 {"ROLE_WORLD_SIZE", "8"},
                                 {"MASTER_ADDR", "node7"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_RUN_ID", "none"},
                                 {"TORCHELASTIC_RESTART_COUNT", "0"},
                                 {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"HOME", "/home/me"}};

// mpirun -n 8 on one machine, Open MPI 4.1
inline const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "5"},
                               {"OMPI_COMM_WORLD_SIZE", "8"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "5"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                               {"OMPI_COMM_WORLD_NODE_RANK", "5"},
                               {"OMPI_UNIVERSE_SIZE", "8"},
                               {"PMIX_NAMESPACE", "1014038529"},
                               {"PMIX_RANK", "5"},
                               {"HOME", "/home/me"}};

// mpiexec -n 8 of MPICH on two machines
inline const Variables kHydra{{"PMI_RANK", "5"},        {"PMI_SIZE", "8"},        {"PMI_FD", "6"},
                              {"MPI_LOCALNRANKS", "4"}, {"MPI_LOCALRANKID", "1"}, {"HOME", "/home/me"}};

// srun -N 2 --ntasks-per-node 4 in a job of that size
inline const Variables kSlurm{{"SLURM_PROCID", "5"},
                              {"SLURM_NTASKS", "8"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_NTASKS_PER_NODE", "4"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                              {"SLURM_TASKS_PER_NODE", "4(x2)"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_NNODES", "2"},
                              {"SLURM_JOB_ID", "1234"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.7"},
                              {"HOME", "/home/me"}};

}  // namespace mk::test
