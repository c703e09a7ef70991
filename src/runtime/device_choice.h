// SPDX-License-Identifier: MIT
// runtime/device_choice.h — on which device a world of processes runs: all ranks say what they have, and all make the
// same choice.
//
// A pure function of what the ranks say.  The ranks of a machine take its GPUs in turn.  All ranks use as many SMs as
// the rank with the fewest has, because all divide their work in the same way.
#pragma once

#include <string>
#include <vector>

#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::runtime {

struct DeviceOffer {
  DeviceKind asked = DeviceKind::kAuto;
  std::string machine;  // the same for ranks that see the same GPUs
  std::string trouble;  // why there are no GPUs
  std::vector<Gpu> gpus;
};

std::string to_text(const DeviceOffer& offer);

// What this process has.  CUDA is not asked where CPUs are asked for.
DeviceOffer offer_here(DeviceKind asked);

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;  // never kAuto
  GpuSeat seat;                        // if kCuda
};

// For `rank`, of all ranks' offers in their order.  Auto is a GPU if every rank has one.  Throws Error, on all ranks
// the same, if they were asked for different devices, a rank lacks the one asked for or too many share a GPU.
DeviceChoice choose_device(const std::vector<std::string>& offers, int rank);

}  // namespace mk::runtime
