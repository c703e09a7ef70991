// SPDX-License-Identifier: MIT
// bench/command_rate.cc — see command_rate.h.
#include "bench/command_rate.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "bench/joined_threads.h"
#include "bench/statistics.h"
#include "core/ring.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "runtime/proxy.h"

namespace mk::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kDeadline{30};  // beyond the time a run shall take

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct BusySpan {  // of the proxy's thread; read once it has ended
  double seconds = 0;
  uint64_t commands = 0;  // that it took in them
};

// Copies nothing; a put is complete at the next poll.
class InstantFabric : public Fabric {
 public:
  explicit InstantFabric(BusySpan& span) : span_(span) {}

  PutResult put(const Command&, uint64_t ticket) override {
    if (ticket % kBetweenLooks == 0) look(ticket);
    done_.push_back(ticket);
    return PutResult::kSent;
  }
  PutResult poll(std::vector<uint64_t>& completed) override {
    completed.insert(completed.end(), done_.begin(), done_.end());
    done_.clear();
    return PutResult::kSent;
  }
  std::string failure() const override { return {}; }

 private:
  static constexpr uint64_t kBetweenLooks = 256;  // the clock is a system call

  void look(uint64_t ticket) {
    const double now = thread_seconds();
    if (ticket == 0) first_ = now;
    span_ = {now - first_, ticket};
  }

  BusySpan& span_;
  double first_ = 0;
  std::vector<uint64_t> done_;
};

struct Ring {
  explicit Ring(uint32_t capacity) : slots(capacity) {}
  RingView view() { return {slots.data(), &claimed, &consumed, &completed, static_cast<uint32_t>(slots.size())}; }

  std::vector<Command> slots;
  alignas(64) uint64_t claimed = 0;
  alignas(64) uint64_t consumed = 0;
  alignas(64) uint64_t completed = 0;
};

[[noreturn]] void throw_late() { throw Error(ErrorCode::kTimeout, "the proxy took no command for too long"); }

// Spins, then yields: producers and proxy may have fewer cores than they are.
template <class Holds>
void wait_until(Holds&& holds, Clock::time_point deadline) {
  constexpr int kSpins = 200;
  for (int spins = 0; !holds(); ++spins) {
    if (spins < kSpins) continue;
    std::this_thread::yield();
    if (Clock::now() >= deadline) throw_late();
  }
}

// Until the end, and then the rest of a batch.
void produce(const RingView& ring, Clock::time_point end, Clock::time_point deadline) {
  constexpr int kBatch = 1024;
  const RingProducer<HostAtomics> producer{ring};
  Command command;
  command.bytes = 64;
  command.amount = 1;
  do {
    for (int i = 0; i < kBatch; ++i) {
      const uint64_t position = producer.claim();
      wait_until([&] { return producer.is_free(position); }, deadline);
      producer.publish(position, command);
    }
  } while (Clock::now() < end);
}

struct Run {
  uint64_t commands = 0;
  double per_second = 0;
  double per_proxy_second = 0;
};

Run run_once(int num_producers, double seconds) {
  Ring ring(static_cast<uint32_t>(Options{}.ring_capacity));
  BusySpan span;
  uint64_t stop = 0;
  auto proxy = std::make_unique<runtime::Proxy>(ring.view(), std::make_unique<InstantFabric>(span), &stop,
                                                runtime::ProxySettings{});
  std::atomic<bool> late = false;
  JoinedThreads producers;
  const Clock::time_point start = Clock::now();
  const Clock::time_point end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const Clock::time_point deadline = end + kDeadline;
  for (int i = 0; i < num_producers; ++i) {
    producers.start([&] {
      try {
        produce(ring.view(), end, deadline);
      } catch (const Error&) {
        late = true;
      }
    });
  }
  producers.join();
  if (late) throw_late();
  wait_until([&] { return HostAtomics::load_acquire(&ring.completed) == ring.claimed; }, deadline);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  proxy.reset();
  return {ring.claimed, static_cast<double>(ring.claimed) / took, static_cast<double>(span.commands) / span.seconds};
}

}  // namespace

CommandFigures measure_commands(int num_producers, double seconds) {
  constexpr int kRuns = 5;
  CommandFigures figures;
  figures.producers = num_producers;
  figures.runs = kRuns;
  std::vector<double> rates, proxy_rates;
  for (int i = 0; i < kRuns; ++i) {
    const Run run = run_once(num_producers, seconds / kRuns);
    figures.commands += run.commands;
    rates.push_back(run.per_second);
    proxy_rates.push_back(run.per_proxy_second);
  }
  figures.per_second = median(rates);
  figures.per_proxy_second = median(proxy_rates);
  return figures;
}

}  // namespace mk::bench
