// SPDX-License-Identifier: MIT
// target/sim/visibility.cc — see visibility.h.
#include "target/sim/visibility.h"

#include <algorithm>
#include <iterator>

namespace mk::sim {
namespace {

bool ordered(const Access& earlier, const Clock& now) {
  return earlier.thread < 0 || earlier.tick <= now[earlier.thread];
}

}  // namespace

void Shadow::cut(uint64_t at) {
  auto after = cells_.upper_bound(at);
  if (after == cells_.begin()) return;
  const auto cell = std::prev(after);
  if (cell->first == at || cell->second.end <= at) return;
  Cell right = cell->second;
  cell->second.end = at;
  cells_.emplace_hint(after, at, std::move(right));
}

Shadow::Cells::iterator Shadow::cover(uint64_t begin, uint64_t end) {
  cut(begin);
  cut(end);
  // Fill the gaps: memory nobody has touched yet.
  uint64_t at = begin;
  for (auto cell = cells_.lower_bound(begin); at < end;) {
    if (cell == cells_.end() || cell->first > at) {
      const uint64_t gap_end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{gap_end, {}, {}});
    }
    at = cell->second.end;
    ++cell;
  }
  return cells_.find(begin);
}

std::optional<Conflict> Shadow::read(uint64_t begin, uint64_t end, const Access& access, const Clock& clock) {
  for (auto cell = cover(begin, end); cell != cells_.end() && cell->first < end; ++cell) {
    const Access& write = cell->second.write;
    if (write.thread < 0 || !ordered(write, clock)) return Conflict{write, cell->first, cell->second.end, true};
    std::vector<Access>& reads = cell->second.reads;
    const auto mine =
        std::find_if(reads.begin(), reads.end(), [&](const Access& read) { return read.thread == access.thread; });
    if (mine == reads.end()) {
      reads.push_back(access);
    } else {
      *mine = access;
    }
  }
  return std::nullopt;
}

std::optional<Conflict> Shadow::write(uint64_t begin, uint64_t end, const Access& access, const Clock& clock) {
  for (auto cell = cover(begin, end); cell != cells_.end() && cell->first < end; ++cell) {
    if (!ordered(cell->second.write, clock)) return Conflict{cell->second.write, cell->first, cell->second.end, true};
    for (const Access& read : cell->second.reads) {
      if (!ordered(read, clock)) return Conflict{read, cell->first, cell->second.end, false};
    }
    cell->second.write = access;
    cell->second.reads.clear();
  }
  return std::nullopt;
}

}  // namespace mk::sim
