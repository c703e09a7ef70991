// SPDX-License-Identifier: MIT
// core/machine.h — what a protocol may ask of the machine it runs on.
//
// A machine is one worker's hands: a thread on a CPU, a crew of threads in a CTA on a GPU, an entry in
// an account.  Protocol code calls nothing else: no OS, no clock, no thread.
//
//   wait    until a signal of this rank is at least `wanted`, acquire.  Bounded: false means leave, and
//           the fault is already recorded.  `subject` is the tile or chunk in hand, for that record.
//   wait_some   the same for a part of what a launch pays: the signal is paid by one worker, in order, and what it
//           paid so far is enough.  Only where no put with bytes pays it, as puts land in any order.
//   wait_turn   the same for a signal that workers of this rank pay one after the other: until all turns before this
//           worker's were paid.  It pays the next one.
//   pass_turn   pays it, release: to workers of this rank all earlier stores of this worker are visible.
//   wait_stamp  until a stamped signal (core/stamp.h) is at least `stamp`, for data that not every launch has.
//   add     to a signal of a rank in this node, release: all earlier copies and stores of this worker are
//           visible to whoever sees it.
//   stamp   sets a signal of a rank in this node, release; the signal has one payer, and stamps that grow.
//   copy    bytes between places of this node.  Done, for others, only after an add or a put.
//   store   says that this worker's target has written bytes at a place of this node.  Like a copy it is
//           done, for others, only after an add or a put; counted if the place is another rank's.
//   load    says that the target reads bytes at a place of this node from here on; counted likewise.
//   read    a small value (a count, an offset) at a place of this node, after a wait that covers it.
//   read_list   up to kMostValues of them, `stride` bytes from one to the next.  Indexed by all threads of the worker.
//   write   such a value.  Like a store it is done, for others, only after an add, a stamp or a put.
//   put     hands a command to the network.  Releases what was written before like add.  Bounded like wait.
//   settle  the last act of all workers of a role that puts: when they have left, every put of theirs has completed,
//           so its source may be overwritten.
//   refuse  says that the launch's input cannot be worked with, in numbers that the operator's Names put into words.
//           The World goes on; its next synchronize throws.
//   note    leaves a trace event.
//
// Launches queued behind one that failed still start.  A CPU worker leaves at once; a GPU's does not ask,
// because the stop word is far away and every launch would pay for it: it computes its own rows and
// leaves at its first wait.  What it overwrites belongs to a World that has already failed.
#pragma once

#include <concepts>
#include <cstdint>

#include "core/command.h"
#include "core/event.h"
#include "core/roles.h"
#include "core/signal.h"
#include "core/window.h"
#include "core/world_shape.h"

namespace mk {

template <class M>
concept Machine = requires(M m, const M c, Signal signal, Place place, Put put, Event event, uint32_t index,
                           uint64_t value, int64_t subject) {
  { c.world() } -> std::convertible_to<WorldShape>;
  { c.rank() } -> std::convertible_to<int>;
  { c.epoch() } -> std::convertible_to<uint64_t>;
  { m.wait(index, value, subject) } -> std::same_as<bool>;
  { m.wait_some(index, value, subject) } -> std::same_as<bool>;
  { m.wait_turn(index, value, subject) } -> std::same_as<bool>;
  { m.wait_stamp(index, value, subject) } -> std::same_as<bool>;
  { m.pass_turn(index) } -> std::same_as<void>;
  { m.add(signal, value) } -> std::same_as<void>;
  { m.stamp(signal, value) } -> std::same_as<void>;
  { m.copy(place, place, value) } -> std::same_as<void>;
  { m.store(place, value) } -> std::same_as<void>;
  { m.load(place, value) } -> std::same_as<void>;
  { m.read(place) } -> std::same_as<uint32_t>;
  { m.read_list(place, int{}, value)[0] } -> std::convertible_to<uint32_t>;
  { m.write(place, index) } -> std::same_as<void>;
  { m.put(put, subject) } -> std::same_as<bool>;
  { m.settle() } -> std::same_as<bool>;
  { m.refuse(index, subject, value, value) } -> std::same_as<void>;
  { m.note(event) } -> std::same_as<void>;
};

}  // namespace mk
