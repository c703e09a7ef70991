// SPDX-License-Identifier: MIT
// tests/support/parcels_protocol.h — an operator for tests only: every rank sends its partners as many parcels as its
// caller says, through a few slots that are used again and again.
//
// It uses what no product operator uses together: two inputs, values, stamps, thresholds, and three roles that put.
// Partners are the peers of the node and those of the rail.
//
//   role      waits for                                       tells
//   count     ready[to]                                       counted[from] at the receiver, with the number of parcels
//   send      credit[to], some of it: a slot is free          arrived[from, slot] at the receiver, a stamp
//   receive   counted[from]; arrived[from, slot]              credit[receiver] at the sender: a parcel was taken
//
// Hand-back: a number is overwritten only when its receiver has begun the launch (ready); a slot only when the receiver
// has taken what was in it (credit).  A launch pays kMost credits for each pair, however many parcels there were, so
// that a sender knows what a credit of its launch is.  What puts read is written after the launch before was settled.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/macros.h"
#include "core/announce.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "core/stamp.h"

namespace mk::parcels {

constexpr uint32_t kRowsInput = kInputWindow;        // [to][parcel]
constexpr uint32_t kCountsInput = kInputWindow + 1;  // [to], a value each

constexpr uint32_t kCountsOutWindow = kFirstOperatorWindow;     // [to]: numbers on their way over the rail
constexpr uint32_t kCountsInWindow = kFirstOperatorWindow + 1;  // [from]
constexpr uint32_t kOutgoingWindow = kFirstOperatorWindow + 2;  // [to][parcel]: parcels on their way over the rail
constexpr uint32_t kSlotsWindow = kFirstOperatorWindow + 3;     // [from][slot]
constexpr uint32_t kReceivedWindow = kFirstOperatorWindow + 4;  // [launch][from][parcel]: the results

constexpr int kMost = 7;   // parcels of a sender for a receiver
constexpr int kSlots = 2;  // that a receiver has for a sender
constexpr uint64_t kBytes = 48;
constexpr uint64_t kKept = 8;  // launches whose results are kept
constexpr uint64_t kValueStride = 16;

struct Layout {
  enum : int { kCount, kSend, kReceive };
  static constexpr std::array<RoleName, 3> kRoles = {{{"count", "rank"}, {"send", "parcel"}, {"receive", "parcel"}}};

  WorldShape world;
  Roster roles;

  MK_HD constexpr int num_partners() const { return world.ranks - 1 + world.nodes - 1; }
  MK_HD constexpr int partner(int rank, int number) const {
    return number < world.ranks - 1 ? peer_at(world, rank, 1 + number)
                                    : rail_peer_at(world, rank, 2 + number - world.ranks);
  }

  MK_HD constexpr bool are_partners(int a, int b) const {
    return a != b && (world.same_node(a, b) || world.local_of(a) == world.local_of(b));
  }

  MK_HD constexpr Place value_at(uint32_t window, int rank, int of) const {
    return {window, rank, static_cast<uint64_t>(of) * kValueStride};
  }
  MK_HD constexpr Place parcel_at(uint32_t window, int rank, int of, int parcel) const {
    return {window, rank, static_cast<uint64_t>(of * kMost + parcel) * kBytes};
  }
  MK_HD constexpr uint64_t received_bytes() const { return world.size() * kMost * kBytes; }  // of one launch
  MK_HD constexpr Place received_at(int rank, uint64_t epoch, int from, int parcel) const {
    Place at = parcel_at(kReceivedWindow, rank, from, parcel);
    at.offset += epoch % kKept * received_bytes();
    return at;
  }
  MK_HD constexpr Place slot_at(int rank, int from, int parcel) const {
    return {kSlotsWindow, rank, static_cast<uint64_t>(from * kSlots + parcel % kSlots) * kBytes};
  }

  MK_HD constexpr uint32_t ready(int peer) const { return static_cast<uint32_t>(peer); }
  MK_HD constexpr uint32_t counted(int from) const { return static_cast<uint32_t>(world.size() + from); }
  MK_HD constexpr uint32_t credit(int to) const { return static_cast<uint32_t>(2 * world.size() + to); }
  MK_HD constexpr uint32_t arrived(int from, int parcel) const {
    return static_cast<uint32_t>(3 * world.size() + from * kSlots + parcel % kSlots);
  }
  MK_HD constexpr uint32_t num_signals() const { return arrived(world.size(), 0); }

  // By one rank in one launch, at most: ready and a number, parcels, and credits.
  constexpr int most_puts() const { return (world.nodes - 1) * (2 + kMost + kMost + 1); }
};

// The stamp of a parcel: how often its slot was used in this launch.
MK_HD constexpr uint64_t stamp_of_parcel(uint64_t epoch, int parcel) {
  return stamp_of(epoch, static_cast<uint32_t>(parcel / kSlots + 1));
}

inline std::vector<uint64_t> window_bytes(const Layout& layout) {
  const uint64_t ranks = layout.world.size();
  return {ranks * kValueStride, ranks * kValueStride, ranks * kMost * kBytes, ranks * kSlots * kBytes,
          kKept * layout.received_bytes()};
}

inline std::string signal_name(const Layout& layout, uint32_t signal) {
  constexpr const char* kNames[] = {"ready", "counted", "credit"};
  const uint32_t size = layout.world.size();
  if (signal < 3 * size) return kNames[signal / size] + ("[" + std::to_string(signal % size) + "]");
  return "arrived[" + std::to_string((signal - 3 * size) / kSlots) + ", " + std::to_string(signal % kSlots) + "]";
}

MK_PROTOCOL
template <Machine M>
MK_HD void count(M& m, const Layout& layout, const Post& post) {
  if (post.index == 0) {
    announce_to_node(m, layout.ready(m.rank()));
    if (!announce_to_rails(m, layout.ready(m.rank()), kCountsInWindow)) return;
  }
  for (int number = post.index; number < layout.num_partners(); number += post.count) {
    const int to = layout.partner(m.rank(), number);
    const uint32_t parcels = m.read(layout.value_at(kCountsInput, m.rank(), to));
    const bool is_near = m.world().same_node(m.rank(), to);
    const Place here = layout.value_at(kCountsOutWindow, m.rank(), to);
    const Place there = layout.value_at(kCountsInWindow, to, m.rank());
    const Signal counted{to, layout.counted(m.rank())};
    if (!is_near) m.write(here, parcels);
    if (!m.wait(layout.ready(to), m.epoch(), to)) return;
    if (is_near) {
      m.write(there, parcels);
      m.add(counted, 1);
    } else if (!m.put(Put{here, there, sizeof(uint32_t), counted}, to)) {
      return;
    }
  }
  if (m.world().nodes > 1) m.settle();
}

MK_PROTOCOL
template <Machine M>
MK_HD int num_parcels(M& m, const Layout& layout, int to) {
  return static_cast<int>(m.read(layout.value_at(kCountsInput, m.rank(), to)));
}

// What goes over the rail, before any slot is free.
MK_PROTOCOL
template <Machine M>
MK_HD void stage(M& m, const Layout& layout, int to) {
  for (int parcel = 0; parcel < num_parcels(m, layout, to); ++parcel) {
    m.copy(layout.parcel_at(kOutgoingWindow, m.rank(), to, parcel), layout.parcel_at(kRowsInput, m.rank(), to, parcel),
           kBytes);
  }
}

MK_PROTOCOL
template <Machine M>
MK_HD bool send_parcel(M& m, const Layout& layout, int to, int parcel) {
  const bool is_near = m.world().same_node(m.rank(), to);
  const Place from = layout.parcel_at(kRowsInput, m.rank(), to, parcel);
  const Place staged = layout.parcel_at(kOutgoingWindow, m.rank(), to, parcel);
  const Place slot = layout.slot_at(to, m.rank(), parcel);
  const Signal arrived{to, layout.arrived(m.rank(), parcel)};
  const uint64_t stamp = stamp_of_parcel(m.epoch(), parcel);
  const uint64_t taken = parcel < kSlots ? 0 : parcel - kSlots + 1;
  if (!m.wait_some(layout.credit(to), (m.epoch() - 1) * kMost + taken, parcel)) return false;
  if (!is_near)
    return m.put(Put{.from = staged, .to = slot, .bytes = kBytes, .signal = arrived, .stamp = stamp}, parcel);
  m.copy(slot, from, kBytes);
  m.stamp(arrived, stamp);
  return true;
}

// The first parcel of every partner, then the second, …: receivers take them in the same order, so nobody waits for a
// slot that is freed only after what it has not sent yet.
MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  for (int number = post.index; number < layout.num_partners(); number += post.count) {
    const int to = layout.partner(m.rank(), number);
    if (!m.world().same_node(m.rank(), to)) stage(m, layout, to);
  }
  for (int parcel = 0; parcel < kMost; ++parcel) {
    for (int number = post.index; number < layout.num_partners(); number += post.count) {
      const int to = layout.partner(m.rank(), number);
      if (parcel == 0 && !m.wait_some(layout.credit(to), (m.epoch() - 1) * kMost, 0)) return;
      if (parcel < num_parcels(m, layout, to) && !send_parcel(m, layout, to, parcel)) return;
    }
  }
  if (m.world().nodes > 1) m.settle();
}

MK_PROTOCOL
template <Machine M>
MK_HD bool give_credit(M& m, const Layout& layout, int to, uint32_t amount, int parcel) {
  const Signal credit{to, layout.credit(m.rank())};
  if (m.world().same_node(m.rank(), to)) {
    m.add(credit, amount);
    return true;
  }
  const Place nowhere{kCountsInWindow, m.rank(), 0};
  return m.put(Put{nowhere, Place{kCountsInWindow, to, 0}, 0, credit, amount}, parcel);
}

MK_PROTOCOL
template <Machine M>
MK_HD bool receive_parcel(M& m, const Layout& layout, int from, int parcel) {
  if (!m.wait_stamp(layout.arrived(from, parcel), stamp_of_parcel(m.epoch(), parcel), parcel)) return false;
  m.copy(layout.received_at(m.rank(), m.epoch(), from, parcel), layout.slot_at(m.rank(), from, parcel), kBytes);
  return give_credit(m, layout, from, 1, parcel);
}

MK_PROTOCOL
template <Machine M>
MK_HD void receive(M& m, const Layout& layout, const Post& post) {
  for (int parcel = 0; parcel <= kMost; ++parcel) {
    for (int number = post.index; number < layout.num_partners(); number += post.count) {
      const int from = layout.partner(m.rank(), number);
      if (!m.wait(layout.counted(from), m.epoch(), from)) return;
      const int parcels = static_cast<int>(m.read(layout.value_at(kCountsInWindow, m.rank(), from)));
      if (parcel < parcels && !receive_parcel(m, layout, from, parcel)) return;
      const uint32_t rest = static_cast<uint32_t>(kMost - parcels);
      if (parcel == parcels && rest > 0 && !give_credit(m, layout, from, rest, parcel)) return;
    }
  }
  if (m.world().nodes > 1) m.settle();
}

MK_PROTOCOL
template <Machine M>
MK_HD void work(M& m, const Layout& layout, const Post& post) {
  switch (post.role) {
    case Layout::kCount: return count(m, layout, post);
    case Layout::kSend: return send(m, layout, post);
    default: return receive(m, layout, post);
  }
}

}  // namespace mk::parcels
