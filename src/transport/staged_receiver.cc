// SPDX-License-Identifier: MIT
// transport/staged_receiver.cc — see staged_receiver.h.
#include "transport/staged_receiver.h"

#include <fmt/format.h>

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk {

void StagedReceiver::take() {
  const uint64_t num_slots = link_.layout.num_slots;
  for (;; ++num_taken_) {
    const uint64_t slot = num_taken_ % num_slots;
    const uint64_t arrived = HostAtomics::load_acquire(link_.arrived(slot));
    const uint64_t lap = num_taken_ / num_slots + 1;
    if (arrived < lap) return;
    if (arrived > lap) refuse(fmt::format("slot {} before it was free", slot));
    read_slot(slot);
    num_landings_[slot] = landings_.size();
    for (const Landing& one : landings_) {
      mover_.land(one.to, one.from, one.bytes, one.signal, one.pays, link_.token(StagedToken::kLanding, slot));
    }
  }
}

// Into landings_.  Every word of the slot is read once: a peer that maps it could change it meanwhile.
void StagedReceiver::read_slot(uint64_t slot) {
  const std::byte* const memory = link_.incoming(slot);
  const auto header = read_record<SlotHeader>(memory);
  if (header.magic != SlotHeader{}.magic || header.from_rank != static_cast<uint32_t>(link_.peer) ||
      header.number != num_taken_ || header.num_pieces == 0 || header.bytes > link_.layout.slot_bytes) {
    refuse(fmt::format("slot {} in place of {}: {} pieces, {} bytes, of rank {}", header.number, num_taken_,
                       header.num_pieces, header.bytes, header.from_rank));
  }
  landings_.clear();
  uint64_t at = sizeof(header);
  for (uint32_t i = 0; i < header.num_pieces; ++i) {
    const bool is_there = at <= header.bytes && header.bytes - at >= sizeof(Piece);
    const auto piece = is_there ? read_record<Piece>(memory + at) : Piece{};
    if (!is_there || piece.bytes > header.bytes - at - sizeof(Piece)) {
      refuse(fmt::format("slot {} that is shorter than its {} pieces", header.number, header.num_pieces));
    }
    landings_.push_back(to_landing(piece, memory + at + sizeof(Piece)));
    at += piece_room(piece.bytes);
  }
}

StagedReceiver::Landing StagedReceiver::to_landing(const Piece& piece, const std::byte* payload) const {
  const auto rank = static_cast<uint32_t>(link_.rank);
  std::byte* const to = windows_.find(piece.to_window, rank, piece.to_offset, piece.bytes);
  std::byte* const signal =
      windows_.find(piece.signal_window, rank, uint64_t{piece.signal_index} * sizeof(uint64_t), sizeof(uint64_t));
  if (to == nullptr || signal == nullptr) {
    refuse(fmt::format("a put that leaves its window: {} bytes to window {} + {}, signal {} of window {}", piece.bytes,
                       piece.to_window, piece.to_offset, piece.signal_index, piece.signal_window));
  }
  const bool pays = piece.amount != 0 || piece.stamp != 0;
  return {to, payload, piece.bytes, pays ? reinterpret_cast<uint64_t*>(signal) : nullptr, {piece.amount, piece.stamp}};
}

void StagedReceiver::refuse(const std::string& what) const {
  throw Error(ErrorCode::kFabric, fmt::format("rank {} sent rank {} {}", link_.peer, link_.rank, what));
}

void StagedReceiver::piece_has_landed(uint64_t slot) {
  --num_landings_[slot];
  while (num_emptied_ < num_taken_ && num_landings_[num_emptied_ % num_landings_.size()] == 0) ++num_emptied_;
}

PutResult StagedReceiver::pay(Fabric& inner) {
  if (num_emptied_ == num_paid_) return PutResult::kSent;
  const PutResult result = inner.put(link_.crediting(num_emptied_ - num_paid_), link_.token(StagedToken::kCredit, 0));
  if (result == PutResult::kSent) num_paid_ = num_emptied_;
  return result;
}

}  // namespace mk
