// SPDX-License-Identifier: MIT
// core/fault.h — what a worker leaves behind when it cannot go on.
//
// Each worker owns kRecordsPerWorker records in host-visible memory, one for each of its parts that wait at the same
// time: on a GPU these are the load and the store job of a compute block.  A record keeps the first fault of its part.
// A worker with one part keeps in kRefusalRecord the first input that it refused since the last synchronize.
// `sealed` is stored last with release; the host reads it with acquire.
#pragma once

#include <cstdint>

namespace mk {

enum class FaultKind : uint32_t {
  kNone,
  kSignal,     // a signal did not reach what was wanted in time
  kRingFull,   // the proxy did not take a command in time
  kUnsettled,  // puts did not complete in time
  kNoMemory,   // the worker could not allocate
  kStopped,    // somebody else failed while this worker waited for what the record names
  kRefused,    // no fault of the World: the launch's input cannot be worked with; `signal` is the operator's reason
};

// What `signal` holds when the wait was not for one of the plan's signals.
constexpr uint32_t kRingRoom = 0xffffffffu;
constexpr uint32_t kPutsDone = 0xfffffffeu;
constexpr uint32_t kBegin = 0xfffffffdu;  // an earlier launch had failed

constexpr int kRecordsPerWorker = 2;
constexpr int kRefusalRecord = 1;

struct FaultRecord {
  FaultKind kind = FaultKind::kNone;
  int rank = 0;
  int role = 0;    // in the operator's table
  int worker = 0;  // index in the role
  uint32_t plan = 0;
  uint32_t signal = 0;
  int64_t tile = -1;  // the tile or chunk in hand, -1 for none
  uint64_t seen = 0;
  uint64_t wanted = 0;
  uint64_t epoch = 0;
  uint64_t sealed = 0;
};

}  // namespace mk
