// SPDX-License-Identifier: MIT
// tests/support/layout_of.h — an operator's layout as AnyLayout; for the files that hold the rows.
//
// Facts says what tests expect of a Layout: signals_used of a rank in a world of several, notes and turn.
#pragma once

#include "ops/gemm/gemm_ledger.h"
#include "tests/support/mutant_machine.h"
#include "tests/support/op_layouts.h"

namespace mk::test {

template <class Layout, class Facts>
class LayoutOf final : public AnyLayout {
 public:
  explicit LayoutOf(const Layout& layout) : layout_(layout) {}

  ledger::Ledger account(int launches) const override { return gemm::account(layout_, launches); }

  ledger::Ledger account(int launches, Mutation& mutation) const override {
    ledger::Ledger ledger(layout_.world);
    gemm::account(ledger, layout_, launches, [&](int rank, uint64_t epoch) {
      return MutantMachine(ledger, layout_.world, rank, epoch, mutation);
    });
    return ledger;
  }

  size_t signals_used() const override {
    return layout_.world.size() == 1 ? 0 : layout_.world.size() * Facts::signals_used(layout_);
  }
  std::vector<Noted> notes(EventKind kind, int rank) const override { return Facts::notes(layout_, kind, rank); }
  int turn(int rank, int source) const override { return Facts::turn(layout_.world, rank, source); }

 private:
  const Layout layout_;
};

}  // namespace mk::test
