// SPDX-License-Identifier: MIT
// tests/runtime/proxy_test.cc — commands from ring to fabric, completions back, failures to the stop word.
#include "runtime/proxy.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "tests/support/eventually.h"
#include "tests/support/recording_fabric.h"
#include "tests/support/ring_memory.h"
#include "tests/support/tampered_fabric.h"

namespace mk::test {
namespace {

class Proxy : public testing::Test {
 protected:
  runtime::ProxySettings settings;

  // Waits for room like a worker does.
  void push(uint64_t number) {
    const uint64_t position = producer.claim();
    ASSERT_TRUE(eventually([&] { return producer.is_free(position); }));
    producer.publish(position, numbered_command(number));
  }
  std::unique_ptr<runtime::Proxy> proxy_over(TamperedFabric::Hooks hooks) {
    auto recording = std::make_unique<RecordingFabric>(log);
    return std::make_unique<runtime::Proxy>(
        memory.view(), std::make_unique<TamperedFabric>(std::move(recording), std::move(hooks)), &stop, settings);
  }
  bool stopped() const { return HostAtomics::load_acquire(&stop) != 0; }
  bool completes(uint64_t count) const {
    return eventually([&] { return memory.completed() >= count; });
  }

  RingMemory memory{4};
  const Producer producer{memory.view()};
  uint64_t stop = 0;
  std::vector<PutRecord> log;  // written by the proxy's thread; read once it has ended
};

TEST_F(Proxy, HandsEveryCommandToTheFabricOnceAndInOrder) {
  constexpr uint64_t kCommands = 100;
  auto proxy = proxy_over({});
  for (uint64_t i = 0; i < kCommands; ++i) push(i);
  EXPECT_TRUE(completes(kCommands));
  proxy.reset();
  ASSERT_EQ(log.size(), kCommands);
  for (uint64_t i = 0; i < kCommands; ++i) {
    EXPECT_EQ(log[i].ticket, i);
    EXPECT_EQ(log[i].command.from_offset, i);
    EXPECT_TRUE(is_whole(log[i].command));
  }
}

TEST_F(Proxy, CountsTheBytesItPut) {
  auto proxy = proxy_over({});
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    push(i);
    bytes += numbered_command(i).bytes;
  }
  EXPECT_TRUE(completes(10));
  EXPECT_EQ(proxy->stats().bytes, bytes);
  EXPECT_EQ(proxy->stats().commands, 10u);
  EXPECT_EQ(proxy->stats().puts, 10u);
}

// Of one signal, next to each other on both sides: number i of `bytes` each.
Command neighbour(uint64_t i, uint64_t bytes = 100) {
  return {i * bytes, 7 + i * bytes, bytes, 1, 2, 3, 4, 1, 1, 0, 0};
}

TEST_F(Proxy, PutsNeighboursAsOneAndCompletesEachOfThem) {
  for (uint64_t i = 0; i < 4; ++i) producer.publish(producer.claim(), neighbour(i));
  auto proxy = proxy_over({});
  EXPECT_TRUE(completes(4));
  EXPECT_EQ(proxy->stats().commands, 4u);
  EXPECT_EQ(proxy->stats().puts, 1u);
  EXPECT_EQ(proxy->stats().bytes, 400u);
  EXPECT_EQ(proxy->stats().batches, 1u);
  EXPECT_EQ(proxy->stats().largest_batch, 4u);
  for (uint64_t i = 4; i < 20; ++i) {
    const uint64_t position = producer.claim();
    ASSERT_TRUE(eventually([&] { return producer.is_free(position); }));
    producer.publish(position, neighbour(i));
  }
  EXPECT_TRUE(completes(20));
  proxy.reset();
  EXPECT_EQ(memory.completed(), 20u);
  // However they were joined, they follow each other, and every byte and every payment is there once.
  uint64_t at = 0, paid = 0;
  for (const PutRecord& put : log) {
    EXPECT_EQ(put.command.from_offset, at);
    EXPECT_EQ(put.command.to_offset, at + 7);
    at += put.command.bytes;
    paid += put.command.amount;
  }
  EXPECT_EQ(at, 2000u);
  EXPECT_EQ(paid, 20u);
}

TEST_F(Proxy, PutsAsOneOnlyWhatIsSmallAndPaysOneSignalBesideEachOther) {
  using Change = void (*)(Command&);
  constexpr Change kChanges[] = {
      [](Command& c) { c.from_window = 9; },       [](Command& c) { c.to_window = 9; },
      [](Command& c) { c.signal_window = 9; },     [](Command& c) { c.signal_index = 9; },
      [](Command& c) { c.to_rank = 9; },           [](Command& c) { c.from_offset += 1; },
      [](Command& c) { c.to_offset += 1; },        [](Command& c) { c.bytes = 64 << 10; },
      [](Command& c) { c.bytes = ~uint64_t{0}; },  [](Command& c) { c.amount = 16; },
      [](Command& c) { c.amount = ~uint32_t{0}; }, [](Command& c) { c.stamp = 1; },
  };
  for (const Change& change : kChanges) {
    RingMemory pair(4);
    const Producer two{pair.view()};
    log.clear();
    Command second = neighbour(1);
    change(second);
    two.publish(two.claim(), neighbour(0));
    two.publish(two.claim(), second);
    auto proxy = std::make_unique<runtime::Proxy>(pair.view(), std::make_unique<RecordingFabric>(log), &stop, settings);
    EXPECT_TRUE(eventually([&] { return pair.completed() == 2; }));
    proxy.reset();
    ASSERT_EQ(log.size(), 2u);
    EXPECT_EQ(log[1].command.bytes, second.bytes);
    EXPECT_EQ(log[1].command.amount, second.amount);
  }
}

TEST_F(Proxy, NeverJoinsStamps) {
  constexpr uint64_t kStamps[] = {5, 6, 6, 0};  // the last one is added
  for (uint64_t i = 0; i < 4; ++i) {
    Command command = neighbour(i);
    command.stamp = kStamps[i];
    producer.publish(producer.claim(), command);
  }
  auto proxy = proxy_over({});
  EXPECT_TRUE(completes(4));
  EXPECT_EQ(proxy->stats().puts, 4u);
  proxy.reset();
  ASSERT_EQ(log.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(log[i].command.stamp, kStamps[i]);
    EXPECT_EQ(log[i].command.from_offset, 100 * i);
    EXPECT_EQ(log[i].command.bytes, 100u);
  }
}

// A fabric that is full has taken none of them; what it takes later may be more.
TEST_F(Proxy, NeighboursThatAFullFabricRefusedArePutOnce) {
  std::atomic<int> refused = 0;
  std::atomic<bool> let_go = false;
  producer.publish(producer.claim(), neighbour(0));
  producer.publish(producer.claim(), neighbour(1));
  auto proxy = proxy_over({.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    if (let_go) return inner.put(command, ticket);
    ++refused;
    return PutResult::kFull;
  }});
  EXPECT_TRUE(eventually([&] { return refused > 0; }));
  EXPECT_EQ(memory.consumed(), 0u);
  producer.publish(producer.claim(), neighbour(2));
  let_go = true;
  EXPECT_TRUE(completes(3));
  EXPECT_EQ(proxy->stats().full, 1u) << "once, however often it was asked";
  EXPECT_EQ(proxy->stats().bytes, 300u);
  EXPECT_EQ(proxy->stats().commands, 3u);
}

TEST_F(Proxy, StaysOnItsCores) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  settings.cores = {core};
  std::atomic<bool> looked = false, right = false;
  auto proxy = proxy_over({.poll = [&](Fabric& inner, std::vector<uint64_t>& completed) {
    cpu_set_t own;
    right = sched_getaffinity(0, sizeof(own), &own) == 0 && CPU_COUNT(&own) == 1 && CPU_ISSET(core, &own);
    looked = true;
    return inner.poll(completed);
  }});
  EXPECT_TRUE(eventually([&] { return looked.load(); }));
  EXPECT_TRUE(right);
}

TEST_F(Proxy, RunsAnywhereIfItsCoresAreNotThere) {
  settings.cores = {CPU_SETSIZE - 1, -1, 1 << 20};
  auto proxy = proxy_over({});
  push(0);
  EXPECT_TRUE(completes(1));
}

TEST_F(Proxy, OfAFabricThatThrowsSaysSoAndStopsTheWorld) {
  auto proxy = proxy_over(
      {.put = [](Fabric&, const Command&, uint64_t) -> PutResult { throw std::runtime_error("no memory left"); }});
  push(0);
  EXPECT_TRUE(eventually([&] { return stopped(); }));
  EXPECT_EQ(proxy->failure(), "no memory left");
}

TEST_F(Proxy, OfAFabricWithoutMemorySaysSo) {
  auto proxy = proxy_over({.put = [](Fabric&, const Command&, uint64_t) -> PutResult { throw std::bad_alloc(); }});
  push(0);
  EXPECT_TRUE(eventually([&] { return stopped(); }));
  EXPECT_EQ(proxy->failure(), "out of memory");
}

TEST_F(Proxy, TriesAgainWhenTheFabricIsFull) {
  int asked = 0;
  auto proxy = proxy_over({.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    return ++asked % 3 == 0 ? inner.put(command, ticket) : PutResult::kFull;
  }});
  for (uint64_t i = 0; i < 20; ++i) push(i);
  EXPECT_TRUE(completes(20));
  proxy.reset();
  EXPECT_EQ(log.size(), 20u) << "a command was lost or put twice";
}

TEST_F(Proxy, TakesAllThatIsThereBeforeItLooksAtTheFabric) {
  std::atomic<size_t> puts_at_first_poll = 0;
  for (uint64_t i = 0; i < 4; ++i) push(i);
  auto proxy = proxy_over({.poll = [&](Fabric& inner, std::vector<uint64_t>& completed) {
    if (puts_at_first_poll == 0) puts_at_first_poll = log.size();
    return inner.poll(completed);
  }});
  EXPECT_TRUE(completes(4));
  EXPECT_EQ(puts_at_first_poll, 4u);
}

// Every put brings another command, until one of them has completed.
TEST_F(Proxy, LooksAtTheFabricThoughTheRingNeverEmpties) {
  push(0);
  auto proxy = proxy_over({.put = [&](Fabric& inner, const Command& command, uint64_t ticket) {
    if (memory.completed() == 0) producer.publish(producer.claim(), numbered_command(ticket + 1));
    return inner.put(command, ticket);
  }});
  EXPECT_TRUE(completes(1));
}

// Counts how often a proxy looked between two naps.
class DrowsyFabric : public Fabric {
 public:
  explicit DrowsyFabric(std::atomic<int>& longest, std::atomic<int>& naps) : longest_(longest), naps_(naps) {}

  PutResult put(const Command&, uint64_t) override { return PutResult::kSent; }
  PutResult poll(std::vector<uint64_t>&) override {
    ++looks_;
    if (looks_ > longest_) longest_ = looks_;
    return PutResult::kSent;
  }
  std::string failure() const override { return {}; }
  void nap(std::chrono::microseconds) override {
    looks_ = 0;
    ++naps_;
    std::this_thread::yield();
  }

 private:
  int looks_ = 0;
  std::atomic<int>& longest_;
  std::atomic<int>& naps_;
};

TEST_F(Proxy, ThatNapsWakesUpWhenCommandsAreExpected) {
  constexpr int kAwake = 1000;  // looks in a row: one that naps has one
  std::atomic<int> longest = 0, naps = 0;
  runtime::Proxy proxy(memory.view(), std::make_unique<DrowsyFabric>(longest, naps), &stop, settings);
  ASSERT_TRUE(eventually([&] { return naps > 3; }));
  longest = 0;
  const int before = naps;
  ASSERT_TRUE(eventually([&] { return naps > before + 100; }));
  ASSERT_LT(longest, kAwake);
  proxy.expect_commands();
  EXPECT_TRUE(eventually([&] { return longest >= kAwake; }));
}

TEST(ProxyPatience, IsOnlyForMachinesWithTwoCoresForEachProxy) {
  using std::chrono::microseconds;
  constexpr microseconds kAsked{2000};
  EXPECT_EQ(runtime::affordable_patience(kAsked, 4, 8), kAsked);
  EXPECT_EQ(runtime::affordable_patience(kAsked, 5, 8), microseconds{0});
  EXPECT_EQ(runtime::affordable_patience(kAsked, 1, 0), microseconds{0}) << "a machine that does not say";
}

// The fabric tells of tickets 1, 2, 3 first and of 0 when it is let.
TEST_F(Proxy, ReportsACommandCompleteOnlyWhenAllBeforeItAre) {
  std::atomic<int> polled_with_gap = 0;
  std::atomic<bool> let_go = false;
  std::vector<uint64_t> untold;
  auto proxy = proxy_over({.poll = [&](Fabric& inner, std::vector<uint64_t>& completed) {
    inner.poll(untold);
    std::erase_if(untold, [&](uint64_t ticket) {
      if (ticket == 0 && !let_go) return false;
      completed.push_back(ticket);
      return true;
    });
    polled_with_gap += untold.size() == 1 && log.size() == 4 ? 1 : 0;
    return PutResult::kSent;
  }});
  for (uint64_t i = 0; i < 4; ++i) push(i);
  EXPECT_TRUE(eventually([&] { return polled_with_gap > 1; }));
  EXPECT_EQ(memory.completed(), 0u) << "the first put is not complete";
  let_go = true;
  EXPECT_TRUE(completes(4));
}

TEST_F(Proxy, AFailedPutRaisesTheStopWordAndKeepsTheReason) {
  auto proxy = proxy_over(
      {.put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFailed; }, .reason = "the cable is out"});
  EXPECT_EQ(proxy->failure(), "");
  push(0);
  EXPECT_TRUE(eventually([&] { return stopped(); }));
  EXPECT_EQ(proxy->failure(), "the cable is out");
}

TEST_F(Proxy, AFailedPollRaisesTheStopWordAndKeepsTheReason) {
  auto proxy =
      proxy_over({.poll = [](Fabric&, std::vector<uint64_t>&) { return PutResult::kFailed; }, .reason = "link down"});
  EXPECT_TRUE(eventually([&] { return stopped(); }));
  EXPECT_EQ(proxy->failure(), "link down");
}

TEST_F(Proxy, TakesNothingMoreAfterAFailure) {
  std::atomic<int> puts = 0;
  auto proxy = proxy_over({.put =
                               [&](Fabric&, const Command&, uint64_t) {
                                 ++puts;
                                 return PutResult::kFailed;
                               },
                           .reason = "broken"});
  push(0);
  push(1);
  EXPECT_TRUE(eventually([&] { return stopped(); }));
  proxy.reset();
  EXPECT_EQ(puts, 1);
  EXPECT_EQ(memory.consumed(), 0u);
}

TEST_F(Proxy, EndsWithCommandsStillWaiting) {
  auto proxy = proxy_over({.put = [](Fabric&, const Command&, uint64_t) { return PutResult::kFull; }});
  push(0);
  proxy.reset();
  EXPECT_EQ(memory.consumed(), 0u);
}

}  // namespace
}  // namespace mk::test
