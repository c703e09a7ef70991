// SPDX-License-Identifier: MIT
// transport/loopback.cc — put is memcpy, then the payment.
#include "transport/loopback.h"

#include <cstring>

#include "transport/host_payment.h"
#include "transport/resolved_put.h"

namespace mk {

PutResult LoopbackFabric::put(const Command& command, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  const ResolvedPut put = resolve(command, rank_, windows_);
  if (!put.valid()) {
    failure_ = describe_bad_put(command, rank_);
    return PutResult::kFailed;
  }
  if (put.bytes > 0) std::memcpy(put.to, put.from, put.bytes);
  pay_release(put.signal, put.pays);  // pairs with the peer's wait
  done_.push_back(ticket);
  return PutResult::kSent;
}

PutResult LoopbackFabric::poll(std::vector<uint64_t>& completed) {
  completed.insert(completed.end(), done_.begin(), done_.end());
  done_.clear();
  return failure_.empty() ? PutResult::kSent : PutResult::kFailed;
}

}  // namespace mk
