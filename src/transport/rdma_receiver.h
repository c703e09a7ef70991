// SPDX-License-Identifier: MIT
// transport/rdma_receiver.h — tells which puts of one peer have landed, and so which signals are due.
//
// It assumes no order: parts may come before their record, and puts in any order.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "transport/rdma_message.h"

namespace mk {

class RdmaReceiver {
 public:
  RdmaReceiver(int rank, int peer) : rank_(rank), peer_(peer) {}

  // A write with this immediate has landed: what is due if its put is whole now.
  std::optional<SignalPayment> take(uint32_t immediate);

  // The same.  Throws Error if it makes no sense, or is a goodbye.
  std::optional<SignalPayment> take(const RdmaRecord& record);

 private:
  struct Arriving {
    uint32_t parts_here = 0;
    uint32_t num_parts = 0;
    bool has_record = false;
    SignalPayment payment;
  };
  std::optional<SignalPayment> due_if_whole(uint32_t put, const Arriving& arriving);

  int rank_;
  int peer_;
  std::unordered_map<uint32_t, Arriving> arriving_;
};

}  // namespace mk
