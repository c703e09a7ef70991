// SPDX-License-Identifier: MIT
// target/sim/sim_memory.cc — see sim_memory.h.
#include "target/sim/sim_memory.h"

#include <fmt/format.h>

#include <cstring>

namespace mk::sim {

SimMemory::SimMemory(SimCore& core) : core_(core) {
  const SimSpec& spec = core.spec;
  if (!spec.with_data) return;
  const int ranks = spec.world.size();
  lanes_ = spec.put_lanes;
  num_threads_ = static_cast<int>(core.workers.size()) + ranks * lanes_;
  clocks_.assign(core.workers.size(), Clock(num_threads_));
  put_ticks_.assign(static_cast<size_t>(ranks) * lanes_, 0);
  windows_.resize(ranks);
  shadows_.assign(ranks, std::vector<Shadow>(kFirstOperatorWindow + spec.window_bytes.size()));
  for (auto& of_rank : windows_) {
    of_rank.resize(kFirstOperatorWindow);
    for (const uint64_t bytes : spec.window_bytes) of_rank.emplace_back(bytes, kPoison);
  }
  for (const Worker& worker : core.workers) clocks_[worker.number].tick(worker.number);
}

std::byte* SimMemory::at(const Place& place, uint64_t epoch) {
  if (!core_.spec.with_data) return nullptr;
  if (is_input(place.window)) {
    const int input = static_cast<int>(place.window - kInputWindow);
    return const_cast<std::byte*>(core_.spec.input(place.rank, epoch, input)) + place.offset;
  }
  return windows_[place.rank][place.window].data() + place.offset;
}

Actor SimMemory::actor(const Worker& worker, int64_t subject) const {
  if (!core_.spec.with_data) return {};
  return {worker.number, &clocks_[worker.number], worker.epoch, subject};
}

void SimMemory::read(const Actor& actor, const Place& from, uint64_t bytes) {
  if (!core_.spec.with_data || is_input(from.window) || bytes == 0 || !inside(actor, from, bytes)) return;
  const Access access{actor.thread, (*actor.clock)[actor.thread], static_cast<uint32_t>(actor.epoch), actor.subject};
  judge(shadows_[from.rank][from.window].read(from.offset, from.offset + bytes, access, *actor.clock), actor, "reads",
        from);
}

void SimMemory::write(const Actor& actor, const Place& to, uint64_t bytes) {
  if (!core_.spec.with_data || bytes == 0 || !inside(actor, to, bytes)) return;
  const Access access{actor.thread, (*actor.clock)[actor.thread], static_cast<uint32_t>(actor.epoch), actor.subject};
  judge(shadows_[to.rank][to.window].write(to.offset, to.offset + bytes, access, *actor.clock), actor, "overwrites",
        to);
}

void SimMemory::copy(const Actor& actor, const Place& to, const Place& from, uint64_t bytes) {
  if (!core_.spec.with_data || bytes == 0 || !inside(actor, to, bytes) || !inside(actor, from, bytes)) return;
  read(actor, from, bytes);
  write(actor, to, bytes);
  std::memcpy(at(to, actor.epoch), at(from, actor.epoch), bytes);
}

std::vector<std::byte> SimMemory::take(const Actor& actor, const Place& from, uint64_t bytes) {
  if (!core_.spec.with_data || bytes == 0 || !inside(actor, from, bytes)) return {};
  read(actor, from, bytes);
  const std::byte* const first = at(from, actor.epoch);
  return {first, first + bytes};
}

void SimMemory::bring(const Actor& actor, const Place& to, const std::vector<std::byte>& bytes) {
  if (bytes.empty() || !inside(actor, to, bytes.size())) return;
  write(actor, to, bytes.size());
  std::memcpy(at(to, actor.epoch), bytes.data(), bytes.size());
}

bool SimMemory::inside(const Actor& actor, const Place& place, uint64_t bytes) {
  if (is_input(place.window)) return true;
  const uint64_t index = uint64_t{place.window} - kFirstOperatorWindow;
  const uint64_t size = index < core_.spec.window_bytes.size() ? core_.spec.window_bytes[index] : 0;
  if (bytes <= size && place.offset <= size - bytes) return true;
  core_.complain("visibility", fmt::format("{} leaves window {} of rank {}: {} bytes at {}",
                                           describe(actor.thread, actor.epoch, actor.subject), place.window, place.rank,
                                           bytes, place.offset));
  return false;
}

ClockSnapshot SimMemory::release(const Worker& worker) {
  if (!core_.spec.with_data) return nullptr;
  Clock& clock = clocks_[worker.number];
  ClockSnapshot snapshot = std::make_shared<const Clock>(clock);
  clock.tick(worker.number);
  return snapshot;
}

void SimMemory::acquire(const Worker& worker, const ClockSnapshot& clock) {
  if (clock != nullptr) clocks_[worker.number].join(*clock);
}

void SimMemory::acquire(const Worker& worker, const Clock& clock) {
  if (core_.spec.with_data) clocks_[worker.number].join(clock);
}

PutClock SimMemory::start_put(int rank, uint64_t ticket, const Clock& sender) {
  if (!core_.spec.with_data) return {};
  const size_t lane = rank * lanes_ + ticket % lanes_;
  PutClock put{static_cast<int>(core_.workers.size() + lane), sender};
  put.clock.set(put.thread, ++put_ticks_[lane]);
  return put;
}

std::string SimMemory::describe(int thread, uint64_t epoch, int64_t subject) const {
  const int num_workers = static_cast<int>(core_.workers.size());
  if (thread < num_workers) return core_.whereabouts(core_.workers[thread], epoch, subject);
  return fmt::format("a put of rank {}, launch {}, for {}", (thread - num_workers) / lanes_, epoch, subject);
}

void SimMemory::judge(const std::optional<Conflict>& conflict, const Actor& actor, const char* verb,
                      const Place& place) {
  if (!conflict) return;
  const std::string range =
      fmt::format("bytes {}-{} of window {} of rank {}", conflict->begin, conflict->end, place.window, place.rank);
  const std::string me = describe(actor.thread, actor.epoch, actor.subject);
  if (conflict->earlier.thread < 0) {
    core_.complain("visibility", fmt::format("{} {} {}, which nobody has written", me, verb, range));
    return;
  }
  core_.complain("visibility",
                 fmt::format("{} {} {}, which {} {}; no signal orders the two", me, verb, range,
                             describe(conflict->earlier.thread, conflict->earlier.epoch, conflict->earlier.subject),
                             conflict->earlier_wrote ? "wrote" : "may still read"));
}

}  // namespace mk::sim
