// SPDX-License-Identifier: MIT
// transport/star.cc — what is said and concluded; see star.h.
#include "transport/star.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <utility>

#include "transport/start_thread.h"

namespace mk {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConsider{100};  // for rank 0 to think a report over
// How long a rank waits for rank 0's conclusion on its report.
constexpr milliseconds kVerdict{300};

std::string name_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

milliseconds beat_of(milliseconds timeout) { return std::clamp(timeout / 8, milliseconds{20}, milliseconds{1000}); }

Star::Star(int rank, int size, std::vector<Fd> connections, milliseconds timeout)
    : rank_(rank),
      size_(size),
      timeout_(timeout),
      beat_(beat_of(timeout)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) throw_errno("the thread that hears other ranks cannot be woken", errno);
  for (size_t i = 0; i < connections.size(); ++i) {
    if (!connections[i]) continue;
    Link& link = links_.emplace_back();
    link.rank = rank == 0 ? static_cast<int>(i) : 0;
    link.socket = std::move(connections[i]);
    link.heard = Clock::now();
  }
  if (links_.empty()) return;  // a World of one
  thread_ = start_thread(fmt::format("what rank {} hears from other ranks", rank), [this] { run(); });
}

Star::~Star() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    notify_ = nullptr;
    try {
      if (failure_.empty() && !pending_.empty()) conclude(pending_, pending_reporter_);  // no time to think it over
      send_to_all(MessageKind::kLeft, 0, "");
    } catch (const std::exception&) {
      // Without memory for a goodbye, the others find that this rank is gone.
    }
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void Star::check_going() const {
  if (!failure_.empty()) throw Error(ErrorCode::kFabric, failure_);
  if (!broken_.empty()) throw Error(ErrorCode::kFabric, broken_);
}

void Star::end_exchanges(ErrorCode code, const std::string& why) {
  broken_ = why;
  at_.clear();
  throw Error(code, why);
}

std::vector<std::string> Star::all_gather(const std::string& mine, const std::string& what) {
  if (mine.size() > kMostMessageBytes / 2) {
    decline(fmt::format("{} has {} bytes", what, mine.size()));
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} bytes; at most {} can be exchanged", what, mine.size(), kMostMessageBytes / 2));
  }
  Lock lock(mutex_);
  check_going();
  ++exchanges_;
  std::vector<std::string> all = rank_ == 0 ? gather(lock, mine, what) : ask_root(lock, mine, what);
  return all;
}

// Throws if what ranks have said so far means that this exchange has no result.
void Star::check_gathered(const std::map<int, Answer>& answers, const std::string& what) {
  for (const auto& [rank, answer] : answers) {
    if (answer.kind == MessageKind::kDeclined) {
      const std::string why = fmt::format("rank {} refuses the call: {}", rank, answer.text);
      send_to_all(MessageKind::kDeclined, exchanges_, why);
      throw Declined(why);
    }
    if (answer.what == what) continue;
    const std::string why = fmt::format("rank {} is at {} where rank 0 is at {}", rank, answer.what, what);
    conclude(why, -1);
    end_exchanges(ErrorCode::kFabric, why);
  }
  for (const Link& link : links_) {
    if (link.has_left && !answers.contains(link.rank)) {
      end_exchanges(ErrorCode::kFabric, fmt::format("rank {} has left the World before {}", link.rank, what));
    }
  }
}

std::vector<std::string> Star::gather(Lock& lock, const std::string& mine, const std::string& what) {
  const Deadline deadline = Clock::now() + timeout_;
  const uint32_t number = exchanges_;
  at_ = what;
  // However it ends, it is over: what comes late is not kept.
  const auto finish = [&] {
    at_.clear();
    finished_ = number;
    std::map<int, Answer> answers = std::move(answers_[number]);
    answers_.erase(number);
    return answers;
  };
  try {
    while (answers_[number].size() < links_.size()) {
      check_gathered(answers_[number], what);
      check_going();
      if (Clock::now() >= deadline) {
        end_exchanges(ErrorCode::kTimeout, fmt::format("{} within {} ms", missing_ranks(), timeout_.count()));
      }
      changed_.wait_until(lock, deadline);
    }
    check_gathered(answers_[number], what);
  } catch (...) {
    finish();
    throw;
  }
  std::vector<std::string> all{mine};
  for (auto& [rank, answer] : finish()) all.push_back(std::move(answer.text));
  const std::string text = joined(all);
  if (text.size() > kMostMessageBytes) {
    const std::string why =
        fmt::format("{} has {} bytes in all; at most {} can be exchanged", what, text.size(), kMostMessageBytes);
    conclude(why, -1);
    end_exchanges(ErrorCode::kInvalidArgument, why);
  }
  send_to_all(MessageKind::kData, number, text);
  return all;
}

std::vector<std::string> Star::ask_root(Lock& lock, const std::string& mine, const std::string& what) {
  const Deadline deadline = Clock::now() + timeout_;
  const uint32_t number = exchanges_;
  Link& root = links_.front();
  if (root.is_open) send(root, MessageKind::kData, number, joined({what, mine}));
  while (!answers_.contains(number)) {
    check_going();
    if (root.has_left || !root.is_open) {
      end_exchanges(ErrorCode::kFabric, fmt::format("rank 0 has left the World before {}", what));
    }
    if (Clock::now() >= root.heard + timeout_) {
      end_exchanges(ErrorCode::kTimeout, fmt::format("{}; rank {} waits for it at {}", silent_ranks(), rank_, what));
    }
    if (Clock::now() >= deadline) {
      end_exchanges(ErrorCode::kTimeout,
                    fmt::format("rank {} waited {} ms for rank 0 at {}", rank_, timeout_.count(), what));
    }
    changed_.wait_until(lock, std::min(deadline, root.heard + timeout_));
  }
  finished_ = number;
  const Answer answer = std::move(answers_[number][0]);
  answers_.erase(number);
  if (answer.kind == MessageKind::kDeclined) throw Declined(answer.text);
  std::optional<std::vector<std::string>> all = parts_of(answer.text, static_cast<size_t>(size_));
  if (!all) end_exchanges(ErrorCode::kFabric, fmt::format("rank 0 sent {} that is not of {} ranks", what, size_));
  return *std::move(all);
}

void Star::decline(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || !broken_.empty()) return;
  const uint32_t number = ++exchanges_;
  finished_ = number;
  answers_.erase(number);
  if (rank_ == 0) {
    send_to_all(MessageKind::kDeclined, number, fmt::format("rank 0 refuses the call: {}", why));
  } else if (links_.front().is_open) {
    send(links_.front(), MessageKind::kDeclined, number, why);
  }
}

// Whether others have come to an exchange that this one has not.
bool Star::is_awaited(int rank) const {
  if (!at_.empty() && (!answers_.contains(exchanges_) || !answers_.at(exchanges_).contains(rank))) return true;
  return std::ranges::any_of(answers_, [&](const auto& entry) { return !entry.second.contains(rank); });
}

// Rank 0: those that wait began to do so at different times; the deadline is counted from the last word of the silent
// one.
void Star::check_silence() {
  if (rank_ != 0 || !failure_.empty()) return;
  for (const Link& link : links_) {
    const bool is_silent = link.is_open && !link.has_left && Clock::now() >= link.heard + timeout_;
    if (!is_silent || !is_awaited(link.rank)) continue;
    const std::string waiting = waiting_ranks();
    return conclude(fmt::format("{}; {}", silent_ranks(), at_.empty() ? waiting : "rank 0 is at " + at_), -1);
  }
}

// A rank that dies takes its fabric with it: who was connected to it may report that before rank 0 has heard of the
// death.
void Star::think_over(int reporter, const std::string& why) {
  pending_ = fmt::format("rank {} failed: {}", reporter, why);
  pending_reporter_ = reporter;
  pending_until_ = Clock::now() + kConsider;
}

// Rank 0 was stopped itself and goes on: what others waited for in vain was its own part.
std::string Star::own_stall() const {
  if (stalled_for_ == Clock::duration{} || Clock::now() >= stalled_until_ + timeout_) return {};
  const auto stall = std::chrono::duration_cast<milliseconds>(stalled_for_);
  return fmt::format("rank {} did not run for {} ms", rank_, stall.count());
}

// Rank 0 puts what it knows in front of a report.
void Star::consider() {
  if (!failure_.empty()) pending_.clear();  // it came too late
  if (pending_.empty() || Clock::now() < pending_until_) return;
  std::string cause = silent_ranks();
  if (cause.empty()) cause = own_stall();
  if (cause.empty()) cause = missing_ranks(pending_reporter_);
  for (const auto& [rank, note] : notes_) {
    cause += fmt::format("{}rank {} refused a call: {}", cause.empty() ? "" : "; ", rank, note);
  }
  if (cause.empty()) return conclude(pending_, pending_reporter_);
  conclude(fmt::format("{}; {}", cause, pending_), -1);
}

void Star::conclude(std::string text, int reporter) {
  if (!failure_.empty()) return;
  failure_ = std::move(text);
  reporter_ = reporter;
  if (rank_ == 0) send_to_all(MessageKind::kFailed, static_cast<uint32_t>(reporter + 1), failure_);
  if (notify_) notify_();
  changed_.notify_all();
}

std::string Star::silent_ranks() const {
  std::vector<int> silent;
  Clock::duration longest{};
  for (const Link& link : links_) {
    const Clock::duration silence = Clock::now() - link.heard;
    if (!link.is_open || link.has_left || silence < 3 * beat_) continue;
    silent.push_back(link.rank);
    longest = std::max(longest, silence);
  }
  if (silent.empty()) return {};
  return fmt::format("{} {} not answered for {} ms", name_of(silent), silent.size() == 1 ? "has" : "have",
                     std::chrono::duration_cast<milliseconds>(longest).count());
}

// Those without which the exchange that rank 0 is in cannot end.
std::string Star::missing_ranks(int but) const {
  if (at_.empty()) return waiting_ranks();
  const auto found = answers_.find(exchanges_);
  std::vector<int> missing;
  for (const Link& link : links_) {
    const bool is_missing = found == answers_.end() || !found->second.contains(link.rank);
    if (is_missing && link.rank != but) missing.push_back(link.rank);
  }
  return missing.empty() ? "" : fmt::format("{} did not come to {}", name_of(missing), at_);
}

// Those that wait in an exchange which rank 0 is not in.  Whatever else needs them does not go on.
std::string Star::waiting_ranks() const {
  std::vector<std::string> waiting;
  for (const auto& [number, answers] : answers_) {
    for (const auto& [rank, answer] : answers) {
      if (answer.kind == MessageKind::kData) waiting.push_back(fmt::format("rank {} is at {}", rank, answer.what));
    }
  }
  return fmt::format("{}", fmt::join(waiting, ", "));
}

void Star::mention(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (links_.empty()) return;
  if (rank_ == 0) {
    notes_[0] = why;
  } else if (links_.front().is_open) {
    send(links_.front(), MessageKind::kNote, 0, why);
  }
}

std::string Star::report(const std::string& why) {
  Lock lock(mutex_);
  if (links_.empty()) return {};
  if (broken_.empty()) broken_ = why;
  if (failure_.empty() && rank_ == 0 && pending_.empty()) {
    think_over(0, why);
    wake();
  } else if (failure_.empty() && rank_ != 0 && links_.front().is_open) {
    send(links_.front(), MessageKind::kFailed, 0, why);
  }
  const milliseconds longest = std::exchange(has_reported_, true) ? milliseconds{0} : kVerdict;
  changed_.wait_until(lock, Clock::now() + longest, [&] { return !failure_.empty(); });
  if (failure_.empty()) return rank_ == 0 ? "" : silent_ranks();
  const bool is_same = reporter_ >= 0 && failure_ == fmt::format("rank {} failed: {}", reporter_, why);
  return is_same ? "" : failure_;  // what all ranks find is the rank's own as well
}

std::string Star::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Star::on_failure(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  notify_ = std::move(notify);
  if (notify_ && !failure_.empty()) notify_();
}

}  // namespace mk
