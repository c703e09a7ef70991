// SPDX-License-Identifier: MIT
// transport/rdma_receiver.h — pays the signals of puts that one peer sends.
//
// It assumes no order: parts may come before their record, and puts in any order.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "transport/rdma_keys.h"
#include "transport/rdma_message.h"

namespace mk {

class RdmaReceiver {
 public:
  RdmaReceiver(int rank, int peer, const RdmaKeys& keys) : rank_(rank), peer_(peer), keys_(keys) {}

  // A write with this immediate has landed.  Throws Error if it makes no sense.
  void take(uint32_t immediate);

  // Throws Error also if it is a goodbye.
  void take(const RdmaRecord& record);

 private:
  struct Arriving {
    uint32_t parts_here = 0;
    uint32_t num_parts = 0;
    bool has_record = false;
    SignalPayment payment;
  };
  void pay_if_whole(uint32_t put, const Arriving& arriving);
  void pay(const SignalPayment& payment);

  int rank_;
  int peer_;
  const RdmaKeys& keys_;
  std::unordered_map<uint32_t, Arriving> arriving_;
};

}  // namespace mk
