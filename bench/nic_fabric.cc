// SPDX-License-Identifier: MIT
// bench/nic_fabric.cc — see nic_fabric.h.
#include "bench/nic_fabric.h"

#include <fmt/format.h>

#include "base/atomics.h"
#include "transport/resolved_put.h"

namespace mk::bench {
namespace {

uint64_t number_of(const void* address) { return reinterpret_cast<uint64_t>(address); }

bool is_aligned(const ResolvedPut& put) {
  return (number_of(put.from) | number_of(put.to) | put.bytes) % NicPut::kGrain == 0;
}

}  // namespace

NicFabric::NicFabric(const NicQueue& nic, const WindowRegistry& windows, int rank)
    : nic_(nic), windows_(windows), rank_(rank), tickets_(nic.capacity) {}

PutResult NicFabric::put(const Command& command, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  if (posted_ - completed_ == nic_.capacity) return PutResult::kFull;
  const ResolvedPut put = resolve(command, rank_, windows_);
  if (!put.valid()) {
    failure_ = describe_bad_put(command, rank_);
    return PutResult::kFailed;
  }
  if (put.bytes > 0 && !is_aligned(put)) {
    failure_ = fmt::format("a put of rank {} is not made of whole {} bytes: {} bytes from {:#x} to {:#x}", rank_,
                           NicPut::kGrain, put.bytes, number_of(put.from), number_of(put.to));
    return PutResult::kFailed;
  }
  NicPut* const place = nic_.place(posted_);
  *place = {put.from, put.to, put.bytes, put.signal, put.pays};
  tickets_[place - nic_.puts] = ticket;
  HostAtomics::store_release(nic_.posted, ++posted_);  // pairs with NicWarp::take
  return PutResult::kSent;
}

PutResult NicFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  const uint64_t end = HostAtomics::load_acquire(nic_.completed);  // pairs with NicWarp::tell
  for (; completed_ < end; ++completed_) completed.push_back(tickets_[nic_.place(completed_) - nic_.puts]);
  return PutResult::kSent;
}

}  // namespace mk::bench
