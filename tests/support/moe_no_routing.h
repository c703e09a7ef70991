// SPDX-License-Identifier: MIT
// tests/support/moe_no_routing.h — routing on the ledger: nothing is counted or listed, the oracle knows what it
// would be.
#pragma once

#include "ops/moe/moe_layout.h"

namespace mk::test {

struct NoRouting {
  template <class M>
  void count(M&, int) {}
  template <class M>
  void sum(M&, const moe::Table&, int) {}
  template <class M>
  void total(M&) {}
  template <class M>
  void list(M&, int) {}
  template <class M>
  void plan(M&, int) {}

  template <class M>
  void tally(M&, int) {}
  template <class M>
  void claim(M&) {}
  template <class M>
  void cut(M&, int) {}
  template <class M>
  void keep(M&, int) {}
  template <class M>
  void report_dropped(M&) {}
};

}  // namespace mk::test
