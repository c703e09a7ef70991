// SPDX-License-Identifier: MIT
// transport/staged_slot.h — what lies in a slot of host memory on its way from one GPU's windows to another's.
//
//   SlotHeader   Piece, payload   Piece, payload   …
//
// Each starts at a multiple of 32 bytes.  A sender numbers its slots without end and uses them in turn; the receiver
// takes slots, and the pieces in them, in that order.  The pieces of a put follow each other, and only its last one
// pays, so a receiver that takes them in order need not remember puts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mk {

constexpr uint64_t kPieceAlignment = 32;

constexpr uint64_t align_piece(uint64_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

struct SlotHeader {
  uint32_t magic = 0x6d6b7374;  // "mkst"
  uint32_t from_rank = 0;
  uint64_t number = 0;  // of this use of the slot
  uint32_t num_pieces = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;  // of the whole, this header included
};
static_assert(sizeof(SlotHeader) == kPieceAlignment);

struct Piece {
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
  uint32_t to_window = 0;
  uint32_t signal_window = 0;
  uint32_t signal_index = 0;
  uint32_t amount = 0;  // with no stamp either it pays nothing, as more of the put follows
  uint64_t stamp = 0;   // as a Command's
  uint64_t reserved[3]{};
};
static_assert(sizeof(Piece) == 2 * kPieceAlignment);

// What a piece takes up in a slot.
constexpr uint64_t piece_room(uint64_t payload_bytes) { return sizeof(Piece) + align_piece(payload_bytes); }

template <class T>
T read_record(const std::byte* from) {
  T record;
  std::memcpy(&record, from, sizeof(record));
  return record;
}
template <class T>
void write_record(std::byte* to, const T& record) {
  std::memcpy(to, &record, sizeof(record));
}

}  // namespace mk
