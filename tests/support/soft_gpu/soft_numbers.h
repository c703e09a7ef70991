// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_numbers.h — elements of 16 bits as numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"
#include "tests/support/soft_gpu/soft_products.h"

namespace mk::soft_gpu {

inline float number_of(Half16 type, uint16_t bits) {
  if (type == Half16::kBf16) return std::bit_cast<float>(uint32_t{bits} << 16);
  return to_float(std::bit_cast<Fp16>(bits));
}

}  // namespace mk::soft_gpu
