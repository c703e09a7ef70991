// SPDX-License-Identifier: MIT
// transport/rdma_receiver.cc — see rdma_receiver.h.
#include "transport/rdma_receiver.h"

#include <fmt/format.h>

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk {

void RdmaReceiver::take(uint32_t immediate) {
  if ((immediate & kPartBit) == 0) return pay(to_payment(immediate));
  const uint32_t put = immediate & ~kPartBit;
  Arriving& arriving = arriving_[put];
  ++arriving.parts_here;
  pay_if_whole(put, arriving);
}

void RdmaReceiver::take(const RdmaRecord& record) {
  if (record.magic != RdmaRecord{}.magic || record.from_rank != static_cast<uint32_t>(peer_)) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} sent rank {} a record that is none", peer_, rank_));
  }
  if (record.kind == RdmaRecord::kAlive) return;
  if (record.kind == RdmaRecord::kGoodbye) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} closed its end of the fabric to rank {}", peer_, rank_));
  }
  Arriving& arriving = arriving_[record.put];
  arriving.has_record = true;
  arriving.num_parts = record.num_parts;
  arriving.payment = record.payment;
  pay_if_whole(record.put, arriving);
}

void RdmaReceiver::pay_if_whole(uint32_t put, const Arriving& arriving) {
  if (!arriving.has_record || arriving.parts_here < arriving.num_parts) return;
  pay(arriving.payment);
  arriving_.erase(put);
}

void RdmaReceiver::pay(const SignalPayment& payment) {
  uint64_t* const signal = keys_.signal(payment.window, payment.index);
  if (signal == nullptr) {
    throw Error(ErrorCode::kFabric,
                fmt::format("rank {} sent rank {} a put whose signal is no word of host memory: window {}, signal {}",
                            peer_, rank_, payment.window, payment.index));
  }
  HostAtomics::add_release(signal, payment.amount);
}

}  // namespace mk
