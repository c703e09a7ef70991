// SPDX-License-Identifier: MIT
// runtime/completions.h — up to which command all puts are complete, if puts complete in any order.
//
// A put stands for one or more commands that follow each other in the ring; its ticket is the position of the first
// one. Every incomplete command has a place that its position finds, so there is no search.  Memory is allocated only
// when more commands are incomplete than ever before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mk::runtime {

class Completions {
 public:
  // All commands below are complete.
  uint64_t all_below() const { return first_; }

  // The next `num` commands, at least one, were put as one.
  void put(uint32_t num) {
    while (end_ + num - first_ > puts_.size()) grow();
    at(end_) = {num, false};
    end_ += num;
  }

  // Its put is complete.  Of a ticket that is of no put under way nothing changes.
  void complete(uint64_t ticket) {
    if (ticket < first_ || ticket >= end_) return;
    at(ticket).is_complete = true;
    while (first_ != end_ && at(first_).is_complete) first_ += at(first_).num;
  }

 private:
  struct Put {  // in the place of its first command; the places of its others are not looked at
    uint32_t num = 0;
    bool is_complete = false;
  };

  Put& at(uint64_t position) { return puts_[position & (puts_.size() - 1)]; }

  void grow() {
    std::vector<Put> larger(2 * puts_.size());
    for (uint64_t position = first_; position != end_; ++position) {
      larger[position & (larger.size() - 1)] = at(position);
    }
    puts_ = std::move(larger);
  }

  std::vector<Put> puts_ = std::vector<Put>(64);  // a power of two
  uint64_t first_ = 0;
  uint64_t end_ = 0;
};

}  // namespace mk::runtime
