// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/gpu_settings.h — what the variable MKERNEL_SOFT_GPU asks: sms=24,seed=7,slowness=20.
#pragma once

#include <cstdint>

namespace mk::soft_gpu {

struct Settings {
  int sms = 48;
  uint64_t seed = 1;       // of orders
  uint64_t slowness = 20;  // how much slower than the host's its clock runs
};

const Settings& settings();

}  // namespace mk::soft_gpu
