// SPDX-License-Identifier: MIT
// tests/sim/signal_mutants.h — mutants around signals, waits, copies and puts.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "tests/sim/mutants.h"

namespace mk::test {

struct DropsASignal : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    if (epoch() == 2 && !is_ready(signal.index) && rank() == 0 && !dropped) {
      dropped = true;
      return;
    }
    Mutant::add(signal, amount);
  }
  bool dropped = false;
};

struct DropsAPut : Mutant {
  using Mutant::Mutant;
  bool put(const Put& put, int64_t subject) override {
    if (epoch() == 2 && put.bytes > 0 && !dropped) return dropped = true;
    return Mutant::put(put, subject);
  }
  bool dropped = false;
};

// Keeps a copy back until after what should follow it.
struct LateCopies : Mutant {
  using Mutant::Mutant;
  void copy(const Place& to, const Place& from, uint64_t bytes) override { pending = {to, from, bytes}; }
  void copy_now() {
    if (pending) Mutant::copy(pending->to, pending->from, pending->bytes);
    pending.reset();
  }
  struct Copy {
    Place to, from;
    uint64_t bytes;
  };
  std::optional<Copy> pending;
};

struct SignalsBeforeData : LateCopies {
  using LateCopies::LateCopies;
  void add(const Signal& signal, uint64_t amount) override {
    Mutant::add(signal, amount);
    copy_now();
  }
  bool put(const Put& put, int64_t subject) override {
    copy_now();
    return Mutant::put(put, subject);
  }
};

struct PutsBeforeStaging : LateCopies {
  using LateCopies::LateCopies;
  void add(const Signal& signal, uint64_t amount) override {
    copy_now();
    Mutant::add(signal, amount);
  }
  bool put(const Put& put, int64_t subject) override {
    const bool handed = Mutant::put(put, subject);
    copy_now();
    return handed;
  }
};

struct SkipsHandBack : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return is_ready(signal) || Mutant::wait(signal, wanted, subject);
  }
};

struct WaitsForTheEpochBefore : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return Mutant::wait(signal, wanted - 1, subject);
  }
};

struct NeverLeavesTheFirstEpoch : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t, int64_t subject) override { return Mutant::wait(signal, 1, subject); }
};

// Its neighbour, whoever was to be told.
struct TellsTheWrongPeer : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    const int peer = world().rank_at(world().node_of(rank()), (world().local_of(rank()) + 1) % world().ranks);
    Mutant::add(is_ready(signal.index) ? signal : Signal{peer, signal.index}, amount);
  }
};

// Announces that it is ready only after it has waited for somebody.
struct WaitsBeforeItAnnounces : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    if (is_ready(signal.index)) {
      kept.push_back(signal);
    } else {
      Mutant::add(signal, amount);
    }
  }
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    const bool seen = Mutant::wait(signal, wanted, subject);
    for (const Signal& late : kept) Mutant::add(late, 1);
    kept.clear();
    return seen;
  }
  std::vector<Signal> kept;
};

struct PassingOnQuitsEarly : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    if (passes_on(signal) && epoch() == 3) return false;
    return Mutant::wait(signal, wanted, subject);
  }
};

struct SignalsTwice : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    Mutant::add(signal, amount);
    if (!is_ready(signal.index)) Mutant::add(signal, amount);
  }
};

struct ReusesRingSlotsTooSoon : Mutant {
  ReusesRingSlotsTooSoon(sim::SimWorld& world, sim::Worker& worker) : Mutant(world, worker) {
    ring().consumed = &plenty;
  }
  uint64_t plenty = std::numeric_limits<uint64_t>::max();
};

struct PutsCarryTheWrongSignal : Mutant {
  using Mutant::Mutant;
  bool put(const Put& put, int64_t subject) override {
    Put wrong = put;
    if (put.bytes > 0) wrong.signal.index = static_cast<uint32_t>(world().size());  // chunk 0 of rank 0
    return Mutant::put(wrong, subject);
  }
};

struct DoesNotSettle : Mutant {
  using Mutant::Mutant;
  bool settle() override { return true; }
};

struct ComputesWithoutWaiting : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return role() == "compute" || Mutant::wait(signal, wanted, subject);
  }
};

struct PassesOnWithoutWaiting : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return passes_on(signal) || Mutant::wait(signal, wanted, subject);
  }
};

struct CopiesAcrossNodes : Mutant {
  using Mutant::Mutant;
  void copy(const Place& to, const Place& from, uint64_t bytes) override {
    Place wrong = to;
    if (to.rank != rank()) wrong.rank = (to.rank + world().ranks) % world().size();
    Mutant::copy(wrong, from, bytes);
  }
};

struct PutsOffItsRail : Mutant {
  using Mutant::Mutant;
  bool put(const Put& put, int64_t subject) override {
    Put wrong = put;
    const int node = world().node_of(put.to.rank);
    wrong.to.rank = wrong.signal.rank = world().rank_at(node, (world().local_of(rank()) + 1) % world().ranks);
    return Mutant::put(wrong, subject);
  }
};

struct PutsFromTheInput : Mutant {
  using Mutant::Mutant;
  bool put(const Put& put, int64_t subject) override {
    Put wrong = put;
    wrong.from.window = kInputWindow;
    return Mutant::put(wrong, subject);
  }
};

struct CopiesToTheWrongPlace : Mutant {
  using Mutant::Mutant;
  void copy(const Place& to, const Place& from, uint64_t bytes) override {
    Place wrong = to;
    if (to.rank != rank()) wrong.offset += 4;
    Mutant::copy(wrong, from, bytes);
  }
};

}  // namespace mk::test
