// SPDX-License-Identifier: MIT
// target/sim/event_queue.cc — see event_queue.h.
#include "target/sim/event_queue.h"

#include <algorithm>
#include <bit>

namespace mk::sim {
namespace {

constexpr size_t kPerBucket = 8;          // on average, when events are spread
constexpr size_t kMostBuckets = 1 << 14;  // of a rung
constexpr size_t kCrowd = 64;             // more than so many are spread before they are sorted
constexpr size_t kRunLength = 256;        // buckets are taken until a run has so many
constexpr size_t kKeptCapacity = 64;      // of a bucket; what a burst needed is given back

int bit_width(uint64_t value) { return static_cast<int>(std::bit_width(value)); }

constexpr auto kLater = [](const TimedEvent& a, const TimedEvent& b) { return b.before(a); };

}  // namespace

void EventQueue::push_late(const TimedEvent& event) {
  late_.push_back(event);
  std::push_heap(late_.begin(), late_.end(), kLater);
}

TimedEvent EventQueue::pop_late() {
  std::pop_heap(late_.begin(), late_.end(), kLater);
  const TimedEvent event = late_.back();
  late_.pop_back();
  return event;
}

void EventQueue::push_ahead(const TimedEvent& event) {
  for (size_t i = depth_; i-- > 0;) {
    Rung& rung = rungs_[i];
    if (event.time > rung.last) continue;
    rung.buckets[(event.time - rung.begin) >> rung.shift].push_back(event);
    return;
  }
  top_.push_back(event);
}

bool EventQueue::refill() {
  run_.clear();
  next_ = 0;
  while (run_.empty()) {
    if (depth_ > 0) {
      take_buckets();
    } else if (!top_.empty()) {
      take_top();
    } else {
      return false;
    }
  }
  return true;
}

void EventQueue::take_top() {
  Time begin = top_.front().time;
  Time last = begin;
  for (const TimedEvent& event : top_) {
    begin = std::min(begin, event.time);
    last = std::max(last, event.time);
  }
  if (top_.size() > kCrowd) return add_rung(begin, last, top_);
  append_sorted(top_);
  run_last_ = last;
}

void EventQueue::take_buckets() {
  Rung& rung = rungs_[depth_ - 1];
  const size_t count = ((rung.last - rung.begin) >> rung.shift) + 1;
  for (; rung.current < count && run_.size() < kRunLength; ++rung.current) {
    Bucket& bucket = rung.buckets[rung.current];
    const Time begin = rung.begin + (Time{rung.current} << rung.shift);
    const Time last = std::min(rung.last, begin + ((Time{1} << rung.shift) - 1));
    if (bucket.size() > kCrowd && rung.shift > 0) {
      if (!run_.empty()) return;
      ++rung.current;
      return add_rung(begin, last, bucket);
    }
    append_sorted(bucket);
    run_last_ = last;
  }
  if (rung.current == count) --depth_;
}

void EventQueue::add_rung(Time begin, Time last, Bucket& events) {
  const Time span = last - begin;
  const size_t most = std::min(kMostBuckets, std::bit_ceil(events.size() / kPerBucket));
  Bucket crowd;
  crowd.swap(events);
  if (depth_ == rungs_.size()) rungs_.emplace_back();
  Rung& rung = rungs_[depth_++];
  rung.begin = begin;
  rung.last = last;
  rung.shift = static_cast<unsigned>(std::max(0, bit_width(span) - bit_width(most) + 1));
  rung.current = 0;
  const size_t count = (span >> rung.shift) + 1;
  if (rung.buckets.size() < count) rung.buckets.resize(count);
  for (const TimedEvent& event : crowd) rung.buckets[(event.time - begin) >> rung.shift].push_back(event);
}

void EventQueue::append_sorted(Bucket& bucket) {
  const size_t before = run_.size();
  run_.insert(run_.end(), bucket.begin(), bucket.end());
  std::sort(run_.begin() + static_cast<ptrdiff_t>(before), run_.end(),
            [](const TimedEvent& a, const TimedEvent& b) { return a.before(b); });
  bucket.clear();
  if (bucket.capacity() > kKeptCapacity) bucket = Bucket();
}

}  // namespace mk::sim
