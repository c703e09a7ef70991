// SPDX-License-Identifier: MIT
// transport/rdma_sender.cc — see rdma_sender.h.
#include "transport/rdma_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/math.h"

namespace mk {
namespace {

uint64_t count_devices(const std::vector<RdmaLane*>& lanes) {
  std::set<int> devices;
  for (const RdmaLane* lane : lanes) devices.insert(lane->device_idx());
  return devices.size();
}

bool are_idle(const std::vector<RdmaLane*>& lanes) {
  return std::ranges::all_of(lanes, [](const RdmaLane* lane) { return lane->is_idle(); });
}

}  // namespace

RdmaSender::RdmaSender(int rank, int peer, std::vector<RdmaLane*> lanes, const RdmaSettings& settings,
                       uint64_t most_bytes)
    : rank_(rank),
      peer_(peer),
      lanes_(std::move(lanes)),
      num_devices_(count_devices(lanes_)),
      most_bytes_(most_bytes),
      stripe_bytes_(settings.stripe_bytes),
      most_waiting_(settings.depth) {}

void RdmaSender::add(RdmaPut put) {
  Outgoing out;
  const Command& c = put.command;
  out.part_bytes = part_bytes_of(c.bytes);
  out.num_parts = static_cast<uint32_t>(ceil_div(c.bytes, out.part_bytes));
  const auto immediate = to_immediate({c.signal_window, c.signal_index, payment_of(c)});
  out.needs_record = out.num_parts != 1 || !immediate;
  if (out.needs_record) {
    out.immediate = kPartBit | next_number_;
    next_number_ = (next_number_ + 1) % kPutNumbers;
  } else {
    out.immediate = *immediate;
  }
  out.slot = take_slot();
  puts_[out.slot] = {c, put.ticket, uint64_t{out.num_parts} + (out.needs_record ? 1 : 0)};
  out.put = std::move(put);
  waiting_.push_back(std::move(out));
}

// At least one byte, so that a put of none has no parts.
uint64_t RdmaSender::part_bytes_of(uint64_t bytes) const {
  const uint64_t stripes = std::clamp<uint64_t>(bytes / std::max<uint64_t>(stripe_bytes_, 1), 1, num_devices_);
  return std::clamp<uint64_t>(ceil_div(bytes, stripes), 1, most_bytes_);
}

uint32_t RdmaSender::take_slot() {
  if (free_slots_.empty()) {
    puts_.emplace_back();
    return static_cast<uint32_t>(puts_.size() - 1);
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void RdmaSender::move(Clock::time_point now) {
  const bool was_idle = are_idle(lanes_);
  while (!waiting_.empty() && advance(waiting_.front())) waiting_.pop_front();
  if (was_idle && !are_idle(lanes_)) since_ = now;
  for (RdmaLane* lane : lanes_) {
    if (const int error = lane->flush(); error != 0) {
      throw_rdma(fmt::format("rank {} cannot send to rank {} on {}", rank_, peer_, lane->queue().device().name()),
                 error);
    }
  }
}

// True when all of it is handed over.
bool RdmaSender::advance(Outgoing& out) {
  const Command& c = out.put.command;
  while (out.needs_record || out.next < c.bytes) {
    RdmaLane* const lane = choose_lane();
    if (lane == nullptr) return false;
    if (out.needs_record) {
      RdmaRecord record;
      record.put = out.immediate & ~kPartBit;
      record.num_parts = out.num_parts;
      record.payment = {c.signal_window, c.signal_index, payment_of(c)};
      record.from_rank = static_cast<uint32_t>(rank_);
      lane->send(record, out.slot);
      out.needs_record = false;
    } else {
      write_part(out, *lane);
    }
  }
  return true;
}

void RdmaSender::write_part(Outgoing& out, RdmaLane& lane) {
  const Command& c = out.put.command;
  RdmaPost post;
  post.bytes = static_cast<uint32_t>(std::min(out.part_bytes, c.bytes - out.next));
  post.from = out.put.from + out.next;
  post.lkey = out.put.lkeys[lane.device_idx()];
  post.rkey = out.put.window.keys[lane.device_idx()];
  post.to = out.put.window.address + c.to_offset + out.next;
  post.immediate = out.immediate;
  lane.write(post, out.slot);
  out.next += post.bytes;
}

// The one with the fewest bytes under way among those with room.
RdmaLane* RdmaSender::choose_lane() const {
  RdmaLane* best = nullptr;
  for (RdmaLane* lane : lanes_) {
    if (lane->room() <= 0) continue;
    const auto load = [](const RdmaLane* of) { return std::pair(of->bytes_under_way(), -of->room()); };
    if (best == nullptr || load(lane) < load(best)) best = lane;
  }
  return best;
}

void RdmaSender::say(RdmaRecord::Kind kind) {
  RdmaLane* lane = choose_lane();
  if (lane == nullptr) lane = lanes_.front();
  RdmaRecord record;
  record.kind = kind;
  record.from_rank = static_cast<uint32_t>(rank_);
  lane->send(record, RdmaLane::kNoPut);
}

void RdmaSender::complete(uint32_t slot, std::vector<uint64_t>& tickets) {
  UnderWay& put = puts_[slot];
  if (--put.messages != 0) return;
  tickets.push_back(put.ticket);
  free_slots_.push_back(slot);
}

bool RdmaSender::is_idle() const { return waiting_.empty() && are_idle(lanes_); }

std::string RdmaSender::describe(uint32_t slot) const {
  if (slot == RdmaLane::kNoPut) return fmt::format("a message of rank {} to rank {}", rank_, peer_);
  const Command& c = puts_[slot].command;
  return fmt::format("a put of rank {} to rank {}, {} bytes from window {} + {} to window {} + {}", rank_, peer_,
                     c.bytes, c.from_window, c.from_offset, c.to_window, c.to_offset);
}

}  // namespace mk
