// SPDX-License-Identifier: MIT
// tests/sim/store_mutants.h — mutants around stores, loads and reductions.
#pragma once

#include <optional>

#include "tests/sim/mutants.h"

namespace mk::test {

// The signal that a tile is delivered goes out before the tile is written.
struct SignalsBeforeStores : Mutant {
  using Mutant::Mutant;
  void store(const Place& to, uint64_t bytes) override {
    store_now();
    pending = {to, bytes};
  }
  void add(const Signal& signal, uint64_t amount) override {
    Mutant::add(signal, amount);
    store_now();
  }
  bool put(const Put& put, int64_t subject) override {
    store_now();
    return Mutant::put(put, subject);
  }
  void store_now() {
    if (pending) Mutant::store(pending->to, pending->bytes);
    pending.reset();
  }
  struct Store {
    Place to;
    uint64_t bytes;
  };
  std::optional<Store> pending;
};

// A put takes a sum along before it is made.
struct PutsBeforeStores : SignalsBeforeStores {
  using SignalsBeforeStores::SignalsBeforeStores;
  void add(const Signal& signal, uint64_t amount) override {
    store_now();
    Mutant::add(signal, amount);
  }
  bool put(const Put& put, int64_t subject) override {
    const bool handed = Mutant::put(put, subject);
    store_now();
    return handed;
  }
};

struct NeverSaysReady : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    if (!is_ready(signal.index)) Mutant::add(signal, amount);
  }
};

struct NeverSaysReadyToRails : Mutant {
  using Mutant::Mutant;
  bool put(const Put& put, int64_t subject) override { return put.bytes == 0 || Mutant::put(put, subject); }
};

struct ReducesWithoutWaiting : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return (role() == "reduce" && !is_ready(signal)) || Mutant::wait(signal, wanted, subject);
  }
};

// One source fewer than there are.
struct ReducesTooEarly : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    const bool sums = role() == "reduce" && !is_ready(signal) && world().ranks > 1;
    return Mutant::wait(signal, sums ? wanted - 1 : wanted, subject);
  }
};

struct ReduceQuitsEarly : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    if (role() == "reduce" && epoch() == 3) return false;
    return Mutant::wait(signal, wanted, subject);
  }
};

struct GathersWithoutWaiting : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    return role() == "intra" || Mutant::wait(signal, wanted, subject);
  }
};

struct GatherQuitsEarly : Mutant {
  using Mutant::Mutant;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) override {
    if (role() == "intra" && epoch() == 3) return false;
    return Mutant::wait(signal, wanted, subject);
  }
};

// What came over the rail is not passed on.
struct HoldersKeepSilent : Mutant {
  using Mutant::Mutant;
  void add(const Signal& signal, uint64_t amount) override {
    if (role() != "intra") Mutant::add(signal, amount);
  }
};

struct StoresAcrossNodes : Mutant {
  using Mutant::Mutant;
  void store(const Place& to, uint64_t bytes) override {
    Place wrong = to;
    if (to.rank != rank()) wrong.rank = (to.rank + world().ranks) % world().size();
    Mutant::store(wrong, bytes);
  }
};

struct StoresToTheWrongPlace : Mutant {
  using Mutant::Mutant;
  void store(const Place& to, uint64_t bytes) override {
    Place wrong = to;
    if (to.rank != rank()) wrong.offset += 4;
    Mutant::store(wrong, bytes);
  }
};

struct LoadsAcrossNodes : Mutant {
  using Mutant::Mutant;
  void load(const Place& from, uint64_t bytes) override {
    Place wrong = from;
    wrong.rank = (from.rank + world().ranks) % world().size();
    Mutant::load(wrong, bytes);
  }
};

// What nobody has told this rank of.
struct LoadsFromANeighbour : Mutant {
  using Mutant::Mutant;
  void load(const Place& from, uint64_t bytes) override {
    if (is_input(from.window)) return Mutant::load(from, bytes);
    Place wrong = from;
    wrong.rank = world().rank_at(world().node_of(from.rank), (world().local_of(from.rank) + 1) % world().ranks);
    Mutant::load(wrong, bytes);
  }
};

}  // namespace mk::test
