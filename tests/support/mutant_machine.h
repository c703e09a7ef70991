// SPDX-License-Identifier: MIT
// tests/support/mutant_machine.h — a ledger machine that does exactly one thing wrong.
//
// A Mutation counts the calls it could spoil, over all workers, ranks and launches, and spoils the one
// whose number is `victim`.
#pragma once

#include <cstdint>
#include <string>

#include "core/machine.h"
#include "target/ledger/ledger_machine.h"

namespace mk::test {

enum class Wrong {
  kAddDropped,
  kAddDoubled,
  kAddMisaimed,  // to the next rank
  kPutDropped,
  kPutDoubled,
  kPutMisaimed,     // to the next rank
  kPutToNextNode,   // the right rail, the wrong node
  kPutDataStray,    // the signal goes where it should, the bytes do not
  kPutFromInput,    // starts from memory the network cannot read
  kWaitForLater,    // for the launch after this one
  kWaitForEarlier,  // for the launch before: passes at once
  kStoreToNextNode,
  kLoadFromNextNode,
};

inline std::string name_of(Wrong wrong) {
  constexpr const char* kNames[] = {"AddDropped",      "AddDoubled",   "AddMisaimed",    "PutDropped",
                                    "PutDoubled",      "PutMisaimed",  "PutToNextNode",  "PutDataStray",
                                    "PutFromInput",    "WaitForLater", "WaitForEarlier", "StoreToNextNode",
                                    "LoadFromNextNode"};
  return kNames[static_cast<int>(wrong)];
}

struct Mutation {
  Wrong wrong;
  int64_t victim = -1;
  int64_t calls = 0;

  bool strikes(Wrong candidate) { return candidate == wrong && calls++ == victim; }
};

class MutantMachine : public ledger::LedgerMachine {
 public:
  MutantMachine(ledger::Ledger& ledger, const WorldShape& world, int rank, uint64_t epoch, Mutation& mutation)
      : LedgerMachine(ledger, world, rank, epoch), mutation_(mutation) {}

  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    if (mutation_.strikes(Wrong::kWaitForLater)) ++wanted;
    if (mutation_.strikes(Wrong::kWaitForEarlier)) --wanted;
    return LedgerMachine::wait(signal, wanted, subject);
  }

  void add(Signal signal, uint64_t amount) {
    if (mutation_.strikes(Wrong::kAddDropped)) return;
    if (mutation_.strikes(Wrong::kAddDoubled)) LedgerMachine::add(signal, amount);
    if (mutation_.strikes(Wrong::kAddMisaimed)) signal.rank = (signal.rank + 1) % world().size();
    LedgerMachine::add(signal, amount);
  }

  bool put(Put put, int64_t subject) {
    const auto aim = [&](int rank) { put.signal.rank = put.to.rank = rank % world().size(); };
    if (mutation_.strikes(Wrong::kPutDropped)) return true;
    if (mutation_.strikes(Wrong::kPutDoubled)) LedgerMachine::put(put, subject);
    if (mutation_.strikes(Wrong::kPutMisaimed)) aim(put.signal.rank + 1);
    if (mutation_.strikes(Wrong::kPutToNextNode)) aim(put.signal.rank + world().ranks);
    if (mutation_.strikes(Wrong::kPutDataStray)) put.to.rank = (put.to.rank + 1) % world().size();
    if (mutation_.strikes(Wrong::kPutFromInput)) put.from.window = kInputWindow;
    return LedgerMachine::put(put, subject);
  }

  void store(Place to, uint64_t bytes) {
    if (mutation_.strikes(Wrong::kStoreToNextNode)) to.rank = in_next_node(to.rank);
    LedgerMachine::store(to, bytes);
  }
  void load(Place from, uint64_t bytes) {
    if (mutation_.strikes(Wrong::kLoadFromNextNode)) from.rank = in_next_node(from.rank);
    LedgerMachine::load(from, bytes);
  }

 private:
  int in_next_node(int rank) const { return (rank + world().ranks) % world().size(); }

  Mutation& mutation_;
};

static_assert(Machine<MutantMachine>);

}  // namespace mk::test
