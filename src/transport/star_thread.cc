// SPDX-License-Identifier: MIT
// transport/star_thread.cc — the thread of a Star, which reads and writes its connections; see star.h.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/what.h"
#include "transport/star.h"

namespace mk {
namespace {

using std::chrono::milliseconds;

// For a goodbye to be taken: closing earlier could take what was sent before away from its reader.
constexpr milliseconds kGoodbye{200};

}  // namespace

void Star::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.number(), &one, sizeof(one));  // it is awake if there is no room
}

// Allocates nothing where there is no memory for more: so short a text lies in the string itself.
std::string Star::why_deaf(const std::exception& error) const {
  try {
    return fmt::format("rank {} cannot hear other ranks: {}", rank_, what_of(error));
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
}

// Of a thread that throws, the process dies: without memory for what it heard, the World ends.
void Star::run() {
  Lock lock(mutex_);
  try {
    while (!is_over_) turn(lock);
  } catch (const std::exception& error) {
    for (Link& link : links_) {
      link.is_open = false;
      link.socket = Fd();
    }
    conclude(why_deaf(error), rank_);
    return;
  }
  say_goodbye(lock);
}

void Star::turn(Lock& lock) {
  if (Clock::now() >= next_beat_) beat();
  check_silence();
  consider();
  const Deadline next = pending_.empty() ? next_beat_ : std::min(next_beat_, pending_until_);
  poll_links(lock, next - Clock::now());
  const Clock::duration late = Clock::now() - next;
  if (late < 3 * beat_) return;
  stalled_for_ = late;
  stalled_until_ = Clock::now();
}

// Until all have closed their ends, or do not answer.
void Star::say_goodbye(Lock& lock) {
  const Deadline until = Clock::now() + kGoodbye;
  const auto may_answer = [&](const Link& link) { return link.is_open && Clock::now() - link.heard < 3 * beat_; };
  part();
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
      if (!pending_.empty() || !failure_.empty()) return;
      return think_over(link.rank, text);
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
    case MessageKind::kNote: notes_[link.rank] = std::move(text); return;
    case MessageKind::kRefused: return conclude(std::move(text), -1);  // the meeting failed when this rank was in it
    case MessageKind::kMissing: return lose(link, "it sent something that is no message of a World");
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

void Star::send(Link& link, MessageKind kind, uint32_t number, const std::string& text) {
  const MessageHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .number = number};
  link.out.append(reinterpret_cast<const char*>(&head), sizeof(head)).append(text);
  flush(link);
  if (!link.out.empty()) wake();  // the thread waits until there is room
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
      return;  // there is no room yet, or the connection broke, which the next read says
    }
  }
  link.out.clear();
  link.num_sent = 0;
}

}  // namespace mk
