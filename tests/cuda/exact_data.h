// SPDX-License-Identifier: MIT
// tests/cuda/exact_data.h — operands whose products and sums are exact, for a test's own kernel.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <random>
#include <type_traits>
#include <vector>

#include "mkernel/types.h"

namespace mk::test {

template <class Element>
constexpr DType kDTypeOf = std::is_same_v<Element, float>    ? DType::kFp32
                           : std::is_same_v<Element, __half> ? DType::kFp16
                                                             : DType::kBf16;

// Whole numbers from -2 to 2.
template <class Element>
std::vector<Element> integers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Element> values(count);
  for (Element& value : values) value = static_cast<Element>(static_cast<float>(static_cast<int>(random() % 5) - 2));
  return values;
}

}  // namespace mk::test
