// SPDX-License-Identifier: MIT
// ops/sums/host_sums.h — sums of images as plain loops.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/half.h"

namespace mk::sums {

// Images are Addends or NodeSums: added in fp32 in their order, and rounded once.  At: Place → const T*.
template <class T, class Images, class At>
void add_up(const Images& images, const At& at, std::span<T> out) {
  std::vector<float> sums(out.size(), 0.0f);
  for (int i = 0; i < images.count(); ++i) {
    const T* image = at(images.at(i));
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += to_float(image[j]);
  }
  for (size_t j = 0; j < sums.size(); ++j) out[j] = from_float<T>(sums[j]);
}

}  // namespace mk::sums
