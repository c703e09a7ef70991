// SPDX-License-Identifier: MIT
// core/rules.h — what a protocol may not do on any machine, checked where nothing real would notice.
//
// Each function returns the complaint, empty if there is none.  The ledger and the simulator use them.
#pragma once

#include <cstdint>
#include <string>

#include "core/command.h"
#include "core/signal.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk {

// Copies stay in the node, and nobody reads another rank's input.
std::string broken_copy_rule(const WorldShape& world, int rank, const Place& to, const Place& from);

// What a target writes or reads stays in the node, too, and only its own rank reads an input.
std::string broken_store_rule(const WorldShape& world, int rank, const Place& to);
std::string broken_load_rule(const WorldShape& world, int rank, const Place& from);

// Adds stay in the node.
std::string broken_add_rule(const WorldShape& world, int from, const Signal& signal);

// Puts start in the sender's own windows, stay on its rail, and signal where they land.
std::string broken_put_rule(const WorldShape& world, int from, const Put& put);

// Values are read and written in this node and in the operator's windows; only its own rank reads an input.
std::string broken_read_rule(const WorldShape& world, int rank, const Place& from);
std::string broken_write_rule(const WorldShape& world, int rank, const Place& to);

// Who pays a signal (core/signal.h): NVLink or puts, never both, and if puts, those of one rank; by amounts or by
// stamps, never both, and if stamps, those of one rank.
class Payers {
 public:
  std::string pay_by_add(const Signal& signal);
  std::string pay_by_put(int from, const Signal& signal);
  std::string pay_by_stamp(int from, const Signal& signal);  // besides: NVLink or a put

 private:
  int put_payer_ = -1;
  bool added_ = false;
  int stamp_payer_ = -1;
  bool counted_ = false;  // some amount was paid
};

}  // namespace mk
