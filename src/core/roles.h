// SPDX-License-Identifier: MIT
// core/roles.h — which role a worker plays.
//
// Workers are numbered 0 … total-1 inside their rank.  Communication roles take the lowest numbers:
// a GPU starts blocks in order, and what others wait for should start first.  A worker beside one that computes
// comes right after it.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace mk {

enum class Role : uint32_t { kIntra, kSend, kReduce, kCompute };

MK_HD constexpr const char* name_of(Role role) {
  switch (role) {
    case Role::kIntra: return "intra";
    case Role::kSend: return "send";
    case Role::kReduce: return "reduce";
    case Role::kCompute: return "compute";
  }
  return "?";
}

// What a worker of a role has in hand, in words.
MK_HD constexpr const char* subject_of(Role role) {
  return role == Role::kCompute || role == Role::kReduce ? "tile" : "chunk";
}

// A worker's place: its role, its index among the workers of that role, and how many those are.
struct Post {
  Role role = Role::kCompute;
  int index = 0;
  int count = 0;
};

struct RoleCounts {
  int intra = 0;
  int send = 0;
  int compute = 0;
  int reduce = 0;
  bool intra_inside = false;  // each compute worker has an intra worker beside it, on its place: they are as many

  MK_HD constexpr int total() const { return intra + send + reduce + compute; }
  MK_HD constexpr int communicating() const { return total() - compute; }
  // Those that communicate and are not beside one that computes.
  MK_HD constexpr int apart() const { return communicating() - (intra_inside ? intra : 0); }

  MK_HD constexpr int workers_together() const { return intra_inside ? 2 : 1; }  // on a compute worker's place
  MK_HD constexpr int compute_worker(int index) const { return apart() + index * workers_together(); }

  // Compute is looked at first: most workers are that, and a launch waits for their first copy.
  MK_HD constexpr Post post_of(int worker) const {
    const int after = worker - apart();
    if (after >= 0) {
      if (!intra_inside) return {Role::kCompute, after, compute};
      return after % 2 == 0 ? Post{Role::kCompute, after / 2, compute} : Post{Role::kIntra, after / 2, intra};
    }
    if (!intra_inside) {
      if (worker < intra) return {Role::kIntra, worker, intra};
      worker -= intra;
    }
    if (worker < send) return {Role::kSend, worker, send};
    worker -= send;
    return {Role::kReduce, worker, reduce};
  }
};

// The same with an intra worker beside each that computes, and none elsewhere.
MK_HD constexpr RoleCounts with_intra_inside(RoleCounts roles) {
  roles.intra = roles.compute;
  roles.intra_inside = true;
  return roles;
}

// Communication workers on an SM: a warp each; its shared memory has room for what so many have in flight.
constexpr int kCommunicationWorkersPerSm = 8;

// Where the workers of a rank are: a thread each on a CPU; on a GPU an SM for each compute worker, while
// communication workers, which mostly wait, share one, or are beside those that compute.
struct Places {
  int count = 1;
  int sharing = 1;  // communication workers of one place

  MK_HD constexpr Places(int number, int communication_workers = 1) : count(number), sharing(communication_workers) {}

  MK_HD constexpr int of_communication(const RoleCounts& roles) const {
    return (roles.apart() + sharing - 1) / sharing;
  }
  MK_HD constexpr int needed_by(const RoleCounts& roles) const { return of_communication(roles) + roles.compute; }
};

}  // namespace mk
