// SPDX-License-Identifier: MIT
// tests/support/recording_fabric.h — a fabric that only remembers what it was given.
#pragma once

#include <string>
#include <vector>

#include "transport/fabric.h"

namespace mk::test {

struct PutRecord {
  Command command;
  uint64_t ticket;
};

// Puts complete at the next poll.  The log outlives the fabric and belongs to the test.
class RecordingFabric : public Fabric {
 public:
  explicit RecordingFabric(std::vector<PutRecord>& log) : log_(log) {}

  PutResult put(const Command& command, uint64_t ticket) override {
    log_.push_back({command, ticket});
    done_.push_back(ticket);
    return PutResult::kSent;
  }
  PutResult poll(std::vector<uint64_t>& completed) override {
    completed.insert(completed.end(), done_.begin(), done_.end());
    done_.clear();
    return PutResult::kSent;
  }
  std::string failure() const override { return ""; }

 private:
  std::vector<PutRecord>& log_;
  std::vector<uint64_t> done_;
};

}  // namespace mk::test
