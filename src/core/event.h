// SPDX-License-Identifier: MIT
// core/event.h — one line of a trace.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace mk {

enum class EventKind : uint32_t { kTileBegin, kTileEnd, kChunkCopied, kChunkPut, kTilePut, kTileReduced, kTileTaken };

MK_HD constexpr const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::kTileBegin: return "tile_begin";
    case EventKind::kTileEnd: return "tile_end";
    case EventKind::kChunkCopied: return "chunk_copied";
    case EventKind::kChunkPut: return "chunk_put";
    case EventKind::kTilePut: return "tile_put";
    case EventKind::kTileReduced: return "tile_reduced";
    case EventKind::kTileTaken: return "tile_taken";
  }
  return "?";
}

// What a protocol says; the machine adds who and when.
struct Event {
  EventKind kind = EventKind::kTileBegin;
  int64_t subject = 0;  // tile or chunk number
  int peer = -1;        // the other rank, if any
};

struct EventRecord {
  Event event;
  int rank = 0;
  int role = 0;
  int worker = 0;
  uint64_t epoch = 0;
  uint64_t time_ns = 0;  // the machine's clock
};

}  // namespace mk
