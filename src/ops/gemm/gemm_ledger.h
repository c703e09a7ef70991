// SPDX-License-Identifier: MIT
// ops/gemm/gemm_ledger.h — the protocols of GEMM operators, on the ledger.
//
// The protocol is found through the namespace of the Layout.
#pragma once

#include "ops/account.h"
#include "ops/gemm/gemm_compute.h"
#include "ops/gemm/gemm_no_body.h"

namespace mk::gemm {

template <class Layout, class MakeMachine>
void account(ledger::Ledger& ledger, const Layout& layout, int launches, MakeMachine&& make) {
  account_with(ledger, layout.world, layout.roles, launches, make, [&](auto& machine, const Post& post) {
    NoBody body;
    work(machine, layout, in_cluster(layout, post), body);
  });
}

template <class Layout>
ledger::Ledger account(const Layout& layout, int launches) {
  ledger::Ledger ledger(layout.world);
  account(ledger, layout, launches,
          [&](int rank, uint64_t epoch) { return ledger::LedgerMachine(ledger, layout.world, rank, epoch); });
  return ledger;
}

}  // namespace mk::gemm
