// SPDX-License-Identifier: MIT
// transport/rdma_receiver.cc — see rdma_receiver.h.
#include "transport/rdma_receiver.h"

#include <fmt/format.h>

#include "mkernel/error.h"

namespace mk {

std::optional<SignalPayment> RdmaReceiver::take(uint32_t immediate) {
  if ((immediate & kPartBit) == 0) return to_payment(immediate);
  const uint32_t put = immediate & ~kPartBit;
  Arriving& arriving = arriving_[put];
  ++arriving.parts_here;
  return due_if_whole(put, arriving);
}

std::optional<SignalPayment> RdmaReceiver::take(const RdmaRecord& record) {
  if (record.magic != RdmaRecord{}.magic || record.from_rank != static_cast<uint32_t>(peer_)) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} sent rank {} a record that is none", peer_, rank_));
  }
  if (record.kind == RdmaRecord::kAlive) return std::nullopt;
  if (record.kind == RdmaRecord::kGoodbye) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} closed its end of the fabric to rank {}", peer_, rank_));
  }
  Arriving& arriving = arriving_[record.put];
  arriving.has_record = true;
  arriving.num_parts = record.num_parts;
  arriving.payment = record.payment;
  return due_if_whole(record.put, arriving);
}

std::optional<SignalPayment> RdmaReceiver::due_if_whole(uint32_t put, const Arriving& arriving) {
  if (!arriving.has_record || arriving.parts_here < arriving.num_parts) return std::nullopt;
  const SignalPayment payment = arriving.payment;
  arriving_.erase(put);
  return payment;
}

}  // namespace mk
