// SPDX-License-Identifier: MIT
// transport/staged_sender.cc — see staged_sender.h.
#include "transport/staged_sender.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk {

StagedSender::StagedSender(const StagedLink& link, int queue_puts, std::chrono::milliseconds deadline, Mover& mover)
    : link_(link),
      most_waiting_(static_cast<size_t>(queue_puts)),
      deadline_(deadline),
      mover_(mover),
      slots_(link.layout.num_slots) {}

void StagedSender::add(const Command& command, const std::byte* from, uint64_t ticket) {
  waiting_.push_back({command, from, ticket});
}

bool StagedSender::has_free_slot() const { return num_filled_ - std::min(credit_, num_done_) < slots_.size(); }

void StagedSender::fill() {
  while (!waiting_.empty() && has_free_slot()) fill_next();
}

void StagedSender::fill_next() {
  const uint64_t most_bytes = sizeof(SlotHeader) + piece_room(link_.layout.payload_bytes);
  const uint64_t slot_idx = num_filled_ % slots_.size();
  Slot& slot = slots_[slot_idx];
  SlotHeader header;
  slot.bytes = sizeof(header);
  slot.is_under_way = true;
  while (!waiting_.empty()) {
    Waiting& put = waiting_.front();
    // Whatever shares a slot is whole: a put in two slots is two copies more.
    const bool fits = slot.bytes + piece_room(put.command.bytes - put.next) <= most_bytes;
    if (header.num_pieces > 0 && !fits) break;
    ++header.num_pieces;
    add_piece(slot, put);
    if (put.next < put.command.bytes) break;  // the slot is full
    slot.tickets.push_back(put.ticket);
    waiting_.pop_front();
  }
  header.from_rank = static_cast<uint32_t>(link_.rank);
  header.number = num_filled_++;
  header.bytes = slot.bytes;
  write_record(link_.outgoing(slot_idx), header);
}

void StagedSender::add_piece(Slot& slot, Waiting& put) {
  const uint64_t slot_idx = num_filled_ % slots_.size();
  const Command& c = put.command;
  const uint64_t bytes = std::min(c.bytes - put.next, link_.layout.payload_bytes);
  const bool is_last = put.next + bytes == c.bytes;
  Piece piece{c.to_offset + put.next, bytes, c.to_window, c.signal_window, c.signal_index};
  if (is_last) {
    piece.amount = c.amount;
    piece.stamp = c.stamp;
  }
  std::byte* const at = link_.outgoing(slot_idx) + slot.bytes;
  write_record(at, piece);
  if (bytes > 0) {
    mover_.read(at + sizeof(piece), put.from + put.next, bytes, link_.token(StagedToken::kRead, slot_idx));
    ++slot.num_reads;
    ++num_reads_;
  }
  slot.bytes += piece_room(bytes);
  put.next += bytes;
}

void StagedSender::piece_is_read(uint64_t slot) {
  --num_reads_;
  --slots_[slot].num_reads;
}

PutResult StagedSender::send(Fabric& inner) {
  for (; num_sent_ < num_filled_; ++num_sent_) {
    const uint64_t slot_idx = num_sent_ % slots_.size();
    const Slot& slot = slots_[slot_idx];
    if (slot.num_reads > 0) break;
    const PutResult result = inner.put(link_.sending(slot_idx, slot.bytes), link_.token(StagedToken::kSent, slot_idx));
    if (result != PutResult::kSent) return result;
  }
  return PutResult::kSent;
}

// In any order; a put is complete when all slots before are done, in which earlier pieces of it may be.
void StagedSender::slot_is_sent(uint64_t slot_idx, std::vector<uint64_t>& completed) {
  slots_[slot_idx].is_under_way = false;
  for (; num_done_ < num_sent_; ++num_done_) {
    Slot& slot = slots_[num_done_ % slots_.size()];
    if (slot.is_under_way) return;
    completed.insert(completed.end(), slot.tickets.begin(), slot.tickets.end());
    slot.tickets.clear();
  }
}

void StagedSender::check_credit() {
  const uint64_t credit = HostAtomics::load_acquire(link_.credit());
  if (credit < credit_ || credit > num_sent_) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} says that it has emptied {} slots of rank {}, which sent {}",
                                                link_.peer, credit, link_.rank, num_sent_));
  }
  const bool has_moved = credit != credit_;
  credit_ = credit;
  if (credit_ == num_sent_) return waiting_since_.reset();
  const Clock::time_point now = Clock::now();
  if (has_moved || !waiting_since_) {
    waiting_since_ = now;
  } else if (now - *waiting_since_ > deadline_) {
    throw Error(ErrorCode::kFabric,
                fmt::format("rank {} took nothing from rank {} for {} ms", link_.peer, link_.rank, deadline_.count()));
  }
}

}  // namespace mk
