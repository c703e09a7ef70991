// SPDX-License-Identifier: MIT
// runtime/world_faults.cc — how a World fails, and what it says then.
#include <set>
#include <utility>

#include "base/atomics.h"
#include "base/check.h"
#include "base/what.h"
#include "runtime/fault_report.h"
#include "runtime/world_state.h"

namespace mk::runtime {

void WorldState::synchronize() {
  std::unique_lock call(calls_, std::defer_lock);
  try {
    device_->synchronize();  // meanwhile others may call
    call.lock();
    device_->synchronize();
    check_faults();
  } catch (const Error& error) {
    throw explain(error);
  }
  throw_refusals();
}

// No launch runs: the records may be cleared, so that each is told once.  All ranks may have refused for the same
// reason.
void WorldState::throw_refusals() {
  std::string first;
  std::set<std::string> reasons;
  for (Plan* plan : plans()) {
    for (const FaultRecord& record : plan->take_refusals()) {
      const std::string reason = fmt::format("launch {}: {}", record.epoch, plan->spec().names.refusal(record));
      if (first.empty()) first = fmt::format("rank {} refused {}", record.rank, reason);
      reasons.insert(fmt::format("{} {}", record.plan, reason));
    }
  }
  if (first.empty()) return;
  if (reasons.size() > 1) first += fmt::format("; and {} more", reasons.size() - 1);
  throw Error(ErrorCode::kInvalidArgument, first);
}

void WorldState::stop(const std::exception& why) {
  const auto* const error = dynamic_cast<const Error*>(&why);
  {
    const std::lock_guard lock(looked_at_);
    if (!stopped_by_) stopped_by_ = error != nullptr ? *error : Error(ErrorCode::kDevice, what_of(why));
  }
  HostAtomics::store_release(stop_, 1);
}

void WorldState::abort(const std::string& why) {
  if (failed()) return;
  const std::string whose = bootstrap_ == nullptr ? "the World" : fmt::format("rank {}", members_.first);
  const Error error(ErrorCode::kAborted, fmt::format("{} was aborted: {}", whose, why));
  stop(error);
  if (bootstrap_ != nullptr) bootstrap_->star().report(error.what());
}

bool WorldState::failed() const { return HostAtomics::load_acquire(stop_) != 0; }

std::vector<FaultRecord> WorldState::faults() const {
  std::vector<FaultRecord> all;
  for (const Plan* plan : plans()) {
    const std::vector<FaultRecord> of_plan = plan->faults();
    all.insert(all.end(), of_plan.begin(), of_plan.end());
  }
  return all;
}

void WorldState::check_faults() const {
  const std::optional<Error> stopped = stopped_by();
  if (stopped && stopped->code() == ErrorCode::kAborted) throw Error(*stopped);
  for (size_t rank = 0; rank < proxies_.size(); ++rank) {
    const std::string failure = proxies_[rank]->failure();
    if (!failure.empty())
      throw Error(ErrorCode::kFabric, fmt::format("the fabric of rank {} failed: {}", members_.first + rank, failure));
  }
  if (stopped) throw Error(*stopped);  // what workers waited for then is of no interest
  const std::vector<FaultRecord> records = faults();
  if (records.empty()) {
    const std::string heard = bootstrap_ == nullptr ? "" : bootstrap_->star().failure();
    if (!heard.empty()) throw Error(ErrorCode::kFabric, heard);
    return;
  }
  throw Error(ErrorCode::kTimeout,
              describe_faults(records, options_.timeout_ms, [&](const FaultRecord& record) -> const Names& {
                return plans()[record.plan]->spec().names;
              }));
}

void WorldState::check() const {
  if (!failed()) return;
  const std::optional<Error> stopped = stopped_by();
  const bool is_aborted = stopped && stopped->code() == ErrorCode::kAborted;
  const std::string heard = bootstrap_ == nullptr || is_aborted ? "" : bootstrap_->star().failure();
  if (!heard.empty()) throw Error(ErrorCode::kFabric, heard);
  check_faults();
  throw Error(ErrorCode::kTimeout, "a wait gave up, and its reason is not written down yet");
}

void WorldState::check_usable() const {
  try {
    check();
  } catch (const Error& first) {
    throw Error(first.code(), fmt::format("this World has failed, make a new one; the reason was: {}", first.what()));
  }
}

}  // namespace mk::runtime
