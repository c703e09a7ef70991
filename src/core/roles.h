// SPDX-License-Identifier: MIT
// core/roles.h — the roles of an operator, and which worker plays which.
//
// An operator has a table of roles (RoleName); a role's number is its row, and the last role computes.  A Roster says
// how many workers each role has and where they sit.  Workers are numbered 0 … total-1 inside their rank: first those
// that do not sit with compute, role after role, because a GPU starts blocks in order and what others wait for should
// start first; then each worker that computes, followed by the workers inside its seat.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string_view>

#include "base/macros.h"
#include "base/math.h"

namespace mk {

constexpr int kMostRoles = 6;

// A row of an operator's table.
struct RoleName {
  std::string_view name;     // in reports, and in a Split
  std::string_view subject;  // what a worker of the role has in hand: "tile" or "chunk"
};

// A worker's task: its role, its index among the workers of that role, and how many those are.
struct Post {
  int role = 0;
  int index = 0;
  int count = 0;
};

// Where the workers of a role sit.  A seat is a CPU thread, or an SM of a GPU.
enum class Seating : uint32_t {
  kShared,  // on a GPU each worker is a warp, and several share an SM
  kOwn,     // each has a seat to itself
  kInside,  // on a GPU a warp in the block of each worker that computes; they are as many as those
};

class Roster {
 public:
  // In one word: a roster is a part of a kernel's parameters.
  struct Row {
    int count : 24;
    Seating seating : 8;

    constexpr Row(int workers = 0, Seating where = Seating::kShared) : count(workers), seating(where) {}
  };

  constexpr Roster() = default;
  // In the order of the operator's table; the last row computes.
  constexpr Roster(std::initializer_list<Row> rows) {
    for (const Row& row : rows) add(row);
  }

  // Adds the next role, which is the one that computes until another is added.  It has its own seats then, and a
  // role inside has as many workers as it has.
  constexpr void add(const Row& row) {
    if (num_roles_ == kMostRoles) throw std::length_error("an operator has more roles than kMostRoles");
    rows_[num_roles_++] = row;
    recount();
  }
  constexpr void set(int role, int count) {
    rows_[role].count = count;
    recount();
  }
  constexpr void set_compute(int count) { set(compute_role(), count); }

  MK_HD constexpr int num_roles() const { return num_roles_; }
  MK_HD constexpr int compute_role() const { return num_roles_ - 1; }
  MK_HD constexpr int count(int role) const { return rows_[role].count; }
  MK_HD constexpr Seating seating(int role) const {
    return role == compute_role() ? Seating::kOwn : rows_[role].seating;
  }

  MK_HD constexpr int num_compute() const { return num_compute_; }
  MK_HD constexpr int num_shared() const { return num_shared_; }            // workers that share seats
  MK_HD constexpr int num_outside() const { return num_outside_; }          // workers that do not sit with compute
  MK_HD constexpr int workers_per_compute() const { return per_compute_; }  // one that computes, and those inside
  MK_HD constexpr int total() const { return num_outside_ + num_compute_ * per_compute_; }
  MK_HD constexpr bool has_inside() const { return per_compute_ > 1; }

  MK_HD constexpr int compute_worker(int index) const { return num_outside_ + index * per_compute_; }

  // Compute is looked at first: most workers are that, and a launch waits for their first copy.
  MK_HD constexpr Post post_of(int worker) const {
    const int after = worker - num_outside_;
    if (after < 0) return post_outside(worker);
    if (per_compute_ == 1) return {compute_role(), after, num_compute_};
    const int index = after / per_compute_;
    return post_inside(after - index * per_compute_, index);
  }
  // Of the workers that sit with compute worker `index`: number 0 computes, the others follow, role after role.
  MK_HD constexpr Post post_inside(int number, int index) const { return {role_inside(number), index, num_compute_}; }

 private:
  // Those that share seats come before those that have their own.
  MK_HD constexpr Post post_outside(int worker) const {
    const bool shares = worker < num_shared_;
    if (!shares) worker -= num_shared_;
    int role = 0;
    for (; role < compute_role(); ++role) {
      if (rows_[role].seating != (shares ? Seating::kShared : Seating::kOwn)) continue;
      if (worker < rows_[role].count) break;
      worker -= rows_[role].count;
    }
    return {role, worker, rows_[role].count};
  }

  MK_HD constexpr int role_inside(int number) const {
    if (number == 0) return compute_role();
    int role = 0;
    for (; role < compute_role(); ++role) {
      if (rows_[role].seating == Seating::kInside && --number == 0) break;
    }
    return role;
  }

  constexpr void recount() {
    num_compute_ = rows_[compute_role()].count;
    num_shared_ = 0;
    num_outside_ = 0;
    per_compute_ = 1;
    for (int role = 0; role < compute_role(); ++role) {
      Row& row = rows_[role];
      if (row.seating == Seating::kInside) {
        row.count = num_compute_;
        ++per_compute_;
      } else {
        num_outside_ += row.count;
        num_shared_ += row.seating == Seating::kShared ? row.count : 0;
      }
    }
  }

  Row rows_[kMostRoles];
  int num_roles_ = 0;
  int num_compute_ = 0;
  int num_shared_ = 0;
  int num_outside_ = 0;
  int per_compute_ = 1;
};

// The seats of a rank.  `sharing` workers share one, if they may.
struct Seats {
  int count = 1;
  int sharing = 1;

  MK_HD constexpr Seats(int number, int workers_sharing = 1) : count(number), sharing(workers_sharing) {}

  // Without those of the workers that compute.
  MK_HD constexpr int outside(const Roster& roles) const {
    return ceil_div(roles.num_shared(), sharing) + roles.num_outside() - roles.num_shared();
  }
  MK_HD constexpr int needed_by(const Roster& roles) const { return outside(roles) + roles.num_compute(); }
};

}  // namespace mk
