// SPDX-License-Identifier: MIT
// transport/shm_fabric.cc — see shm_fabric.h.
#include "transport/shm_fabric.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "transport/host_payment.h"
#include "transport/resolved_put.h"

namespace mk {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};  // at the seats of others: a system call each

}  // namespace

ShmFabric::ShmFabric(int rank, const WindowRegistry& own, const ShmWindows& others, std::unique_ptr<ShmSeat> seat,
                     std::map<int, ShmGuest> guests)
    : rank_(rank), own_(own), others_(others), seat_(std::move(seat)), guests_(std::move(guests)) {}

PutResult ShmFabric::put(const Command& c, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  const uint64_t signal_offset = uint64_t{c.signal_index} * sizeof(uint64_t);
  const std::byte* const from = own_.find(c.from_window, rank_, c.from_offset, c.bytes);
  const bool lands = own_.contains(c.to_window, c.to_offset, c.bytes) &&
                     own_.contains(c.signal_window, signal_offset, sizeof(uint64_t));
  if (from == nullptr || !lands) return fail(describe_bad_put(c, rank_));
  std::byte* const to = others_.base(c.to_window, c.to_rank);
  std::byte* const signals = others_.base(c.signal_window, c.to_rank);
  if (to == nullptr || signals == nullptr) {
    return fail(
        fmt::format("rank {} has not mapped the windows of rank {}: only ranks of one rail do", rank_, c.to_rank));
  }
  if (c.bytes > 0) std::memcpy(to + c.to_offset, from, c.bytes);
  pay_release(reinterpret_cast<uint64_t*>(signals + signal_offset), payment_of(c));  // pairs with the peer's wait
  done_.push_back(ticket);
  return PutResult::kSent;
}

PutResult ShmFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  completed.insert(completed.end(), done_.begin(), done_.end());
  done_.clear();
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return PutResult::kSent;
  next_look_ = now + kBetweenLooks;
  for (const auto& [rank, guest] : guests_) {
    if (guest.host_is_gone()) return fail(fmt::format("rank {} is gone, which rank {} reached by shm", rank, rank_));
  }
  return PutResult::kSent;
}

PutResult ShmFabric::fail(std::string why) {
  failure_ = std::move(why);
  seat_.reset();
  return PutResult::kFailed;
}

}  // namespace mk
