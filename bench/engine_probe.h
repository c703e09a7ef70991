// SPDX-License-Identifier: MIT
// bench/engine_probe.h — finds out whether copies on the device leave the SMs alone.
#pragma once

#include "base/cuda_copy.h"

namespace mk::bench {

// True if copies by that path, small and large, land while a kernel holds every thread of every SM.  Takes a
// few milliseconds, or a tenth of a second where they do not; nothing else may run meanwhile.
bool copies_need_no_sm(CopyPath path);

}  // namespace mk::bench
