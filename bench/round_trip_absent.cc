// SPDX-License-Identifier: MIT
// bench/round_trip_absent.cc — a build without CUDA measures no round trips.
#include "bench/round_trip.h"
#include "mkernel/error.h"
#include "runtime/device.h"

namespace mk::bench {

RoundTripFigures measure_round_trips(double) { throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda()); }

}  // namespace mk::bench
