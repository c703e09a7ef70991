// SPDX-License-Identifier: MIT
// ops/account.h — walks every worker of every rank through its protocol on the ledger.
//
// `make` builds the machine of one worker, (rank, epoch) → machine, so a test can hand in one that
// forgets or repeats something; `work` is the worker's launch, (machine, post).
#pragma once

#include "core/roles.h"
#include "target/ledger/ledger_machine.h"

namespace mk {

template <class MakeMachine, class Work>
void account_with(ledger::Ledger& ledger, const WorldShape& world, const Roster& roles, int launches,
                  MakeMachine&& make, Work&& work) {
  for (int epoch = 1; epoch <= launches; ++epoch) {
    for (int rank = 0; rank < world.size(); ++rank) {
      for (int worker = 0; worker < roles.total(); ++worker) {
        ledger.begin(rank, worker);
        auto machine = make(rank, epoch);
        work(machine, roles.post_of(worker));
      }
    }
    ledger.close_launch(epoch);
  }
}

}  // namespace mk
