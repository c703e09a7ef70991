// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_ledger.h — AllGather+GEMM's protocol on the ledger.
//
// `make` builds the machine of one worker, (rank, epoch) → machine, so a test can hand in one that
// forgets or repeats something.
#pragma once

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "target/ledger/ledger_machine.h"

namespace mk::ag_gemm_op {

template <class MakeMachine>
void account(ledger::Ledger& ledger, const Layout& layout, int launches, MakeMachine&& make) {
  for (int epoch = 1; epoch <= launches; ++epoch) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      for (int worker = 0; worker < layout.roles.total(); ++worker) {
        const Post post = layout.roles.post_of(worker);
        ledger.begin(rank, worker);
        auto machine = make(rank, epoch);
        if (post.role != Layout::kCompute) {
          communicate(machine, layout, post);
        } else {
          for_each_tile(layout, rank, post, [&](const Tile& tile) { return wait_for_rows(machine, layout, tile); });
        }
      }
    }
    ledger.close_launch(epoch);
  }
}

inline ledger::Ledger account(const Layout& layout, int launches) {
  ledger::Ledger ledger(layout.world);
  account(ledger, layout, launches,
          [&](int rank, uint64_t epoch) { return ledger::LedgerMachine(ledger, layout.world, rank, epoch); });
  return ledger;
}

}  // namespace mk::ag_gemm_op
