// SPDX-License-Identifier: MIT
// transport/star.cc — see star.h.
#include "transport/star.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

namespace mk {
namespace {

using std::chrono::milliseconds;

// A rank that dies takes its fabric with it: who was connected to it may report that before rank 0 has heard of the
// death.
constexpr milliseconds kConsider{100};
// For what rank 0 makes of a report.
constexpr milliseconds kVerdict{300};
// For a goodbye to be taken: closing earlier could take what was sent before away from its reader.
constexpr milliseconds kGoodbye{200};

milliseconds beat_of(milliseconds timeout) { return std::clamp(timeout / 8, milliseconds{20}, milliseconds{1000}); }

std::string name_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

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
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kDevice, fmt::format("cannot start the thread that hears other ranks: {}", error.what()));
  }
}

Star::~Star() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    notify_ = nullptr;
    send_to_all(MessageKind::kLeft, 0, "");
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void Star::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.number(), &one, sizeof(one));  // it is awake if there is no room
}

// --- The thread that reads and writes.

void Star::run() {
  Lock lock(mutex_);
  while (!is_over_) {
    if (Clock::now() >= next_beat_) beat();
    consider();
    const Deadline next = pending_.empty() ? next_beat_ : std::min(next_beat_, pending_until_);
    poll_links(lock, next - Clock::now());
  }
  const Deadline until = Clock::now() + kGoodbye;
  part();
  const auto may_answer = [&](const Link& link) { return link.is_open && Clock::now() - link.heard < 3 * beat_; };
  while (Clock::now() < until && std::ranges::any_of(links_, may_answer)) {
    poll_links(lock, until - Clock::now());
    part();
  }
}

// Whoever has taken everything is told that nothing more comes; it closes its end then.
void Star::part() {
  for (const Link& link : links_) {
    if (link.is_open && link.out.empty()) shutdown(link.socket.number(), SHUT_WR);
  }
}

void Star::poll_links(Lock& lock, Clock::duration longest) {
  std::vector<pollfd> watched{{wake_.number(), POLLIN, 0}};
  for (const Link& link : links_) {
    if (!link.is_open) continue;
    watched.push_back({link.socket.number(), static_cast<short>(link.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(longest).count();
  lock.unlock();
  poll(watched.data(), watched.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
  lock.lock();
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = ::read(wake_.number(), &count, sizeof(count));
  for (Link& link : links_) {
    if (link.is_open) flush(link);
    if (link.is_open) read(link);
  }
}

void Star::read(Link& link) {
  std::byte bytes[64 << 10];
  while (link.is_open) {
    const int64_t got = receive_some(link.socket, bytes);
    if (got < 0) return lose(link, "its process ended, or the connection to it broke");
    if (got == 0) return;
    link.heard = Clock::now();
    link.in.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(got));
    take_messages(link);
  }
}

void Star::take_messages(Link& link) {
  size_t at = 0;
  MessageHead head;
  while (link.is_open && link.in.size() - at >= sizeof(head)) {
    std::memcpy(&head, link.in.data() + at, sizeof(head));
    if (head.magic != kMessageMagic || head.bytes > kMostMessageBytes) {
      return lose(link, "it sent something that is no message of a World");
    }
    if (link.in.size() - at - sizeof(head) < head.bytes) break;
    take(link, head, link.in.substr(at + sizeof(head), head.bytes));
    at += sizeof(head) + head.bytes;
  }
  link.in.erase(0, at);
}

void Star::take(Link& link, const MessageHead& head, std::string text) {
  switch (head.kind) {
    case MessageKind::kBeat: return;
    case MessageKind::kLeft: link.has_left = true; break;
    case MessageKind::kFailed:
      if (rank_ != 0) return conclude(std::move(text), static_cast<int>(head.number) - 1);
      if (!pending_.empty()) return;
      pending_ = fmt::format("rank {} failed: {}", link.rank, text);
      pending_reporter_ = link.rank;
      pending_until_ = Clock::now() + kConsider;
      return;
    case MessageKind::kData:
    case MessageKind::kDeclined: {
      if (head.number <= finished_) return;
      Answer answer{head.kind, {}, std::move(text)};
      if (rank_ == 0 && head.kind == MessageKind::kData) {
        std::optional<std::vector<std::string>> parts = parts_of(answer.text, 2);
        if (!parts) return lose(link, "it sent something that is no message of a World");
        answer.what = std::move((*parts)[0]);
        answer.text = std::move((*parts)[1]);
      }
      answers_[head.number][link.rank] = std::move(answer);
      break;
    }
    case MessageKind::kRefused: return lose(link, "it sent something that is no message of a World");
  }
  changed_.notify_all();
}

void Star::lose(Link& link, const std::string& how) {
  link.is_open = false;
  link.socket = Fd();
  if (!link.has_left && !is_over_) conclude(fmt::format("rank {} is gone: {}", link.rank, how), -1);
  changed_.notify_all();
}

// A peer that has something to read hears from this rank when it reads that.
void Star::beat() {
  for (Link& link : links_) {
    if (link.is_open && link.out.empty()) send(link, MessageKind::kBeat, 0, "");
  }
  next_beat_ = Clock::now() + beat_;
}

// Rank 0 puts what it knows in front of a report.
void Star::consider() {
  if (pending_.empty() || !failure_.empty() || Clock::now() < pending_until_) return;
  std::string cause = silent_ranks();
  if (cause.empty()) cause = missing_ranks();
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
std::string Star::missing_ranks() const {
  if (at_.empty()) return waiting_ranks();
  const auto found = answers_.find(exchanges_);
  std::vector<int> missing;
  for (const Link& link : links_) {
    if (found == answers_.end() || !found->second.contains(link.rank)) missing.push_back(link.rank);
  }
  std::erase(missing, pending_reporter_);
  return missing.empty() ? "" : fmt::format("{} did not come to {}", name_of(missing), at_);
}

// Those that wait in an exchange which rank 0 is not in: what they were needed for elsewhere does not go on.
std::string Star::waiting_ranks() const {
  std::vector<std::string> waiting;
  for (const auto& [number, answers] : answers_) {
    for (const auto& [rank, answer] : answers) {
      if (answer.kind == MessageKind::kData) waiting.push_back(fmt::format("rank {} is at {}", rank, answer.what));
    }
  }
  return fmt::format("{}", fmt::join(waiting, ", "));
}

void Star::send(Link& link, MessageKind kind, uint32_t number, const std::string& text) {
  const MessageHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .number = number};
  link.out.append(reinterpret_cast<const char*>(&head), sizeof(head)).append(text);
  flush(link);
}

void Star::send_to_all(MessageKind kind, uint32_t number, const std::string& text) {
  for (Link& link : links_) {
    if (link.is_open) send(link, kind, number, text);
  }
}

void Star::flush(Link& link) {
  while (link.num_sent < link.out.size()) {
    const ssize_t sent = ::send(link.socket.number(), link.out.data() + link.num_sent, link.out.size() - link.num_sent,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      link.num_sent += static_cast<size_t>(sent);
    } else if (errno != EINTR) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) wake();  // to wait until there is room
      return;                                               // if the connection broke, the next read says so
    }
  }
  link.out.clear();
  link.num_sent = 0;
}

// --- Exchanges.

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
    end_exchanges(ErrorCode::kInvalidArgument, fmt::format("{} has {} bytes in all; at most {} can be exchanged", what,
                                                           text.size(), kMostMessageBytes));
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
    if (Clock::now() >= deadline) {
      end_exchanges(ErrorCode::kTimeout,
                    fmt::format("rank {} waited {} ms for rank 0 at {}", rank_, timeout_.count(), what));
    }
    changed_.wait_until(lock, deadline);
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

// --- Failures.

std::string Star::report(const std::string& why) {
  Lock lock(mutex_);
  if (links_.empty()) return {};
  if (broken_.empty()) broken_ = why;
  if (failure_.empty() && rank_ == 0 && pending_.empty()) {
    pending_ = fmt::format("rank 0 failed: {}", why);
    pending_reporter_ = 0;
    pending_until_ = Clock::now() + kConsider;
    wake();
  } else if (failure_.empty() && rank_ != 0 && links_.front().is_open) {
    send(links_.front(), MessageKind::kFailed, 0, why);
  }
  const milliseconds longest = std::exchange(has_reported_, true) ? milliseconds{0} : kVerdict;
  changed_.wait_until(lock, Clock::now() + longest, [&] { return !failure_.empty(); });
  if (failure_.empty()) return rank_ == 0 ? "" : silent_ranks();
  return reporter_ == rank_ ? "" : failure_;
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
