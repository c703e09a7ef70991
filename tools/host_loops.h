// SPDX-License-Identifier: MIT
// tools/host_loops.h — loops on all threads of this machine, and the element types of a host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "base/half.h"
#include "mkernel/types.h"

namespace mk::tools {

// work(first, last) on one piece of [0, count) per thread; the first exception of a piece is thrown here.  An item
// takes about `cost` operations: a piece that takes less than starting a thread does is not cut.
template <class Work>
void in_parallel(int64_t count, int64_t cost, const Work& work) {
  constexpr double kLeast = 1 << 15;  // operations
  const double worthwhile = static_cast<double>(count) * static_cast<double>(cost) / kLeast;
  const auto most = static_cast<int64_t>(std::min<double>(worthwhile, std::thread::hardware_concurrency()));
  const int64_t pieces = std::clamp<int64_t>(most, 1, std::max<int64_t>(count, 1));
  if (pieces == 1) return work(int64_t{0}, count);
  std::vector<std::future<void>> running;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = count * piece / pieces;
    const int64_t last = count * (piece + 1) / pieces;
    try {
      running.push_back(std::async(std::launch::async, [&work, first, last] { work(first, last); }));
    } catch (const std::system_error&) {
      work(first, last);  // no thread is to be had: this one does it
    }
  }
  for (std::future<void>& piece : running) piece.get();
}

// Calls work.operator()<T>() with the element type.
template <class Work>
void with_host_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kBf16: return work.template operator()<Bf16>();
    case DType::kFp16: return work.template operator()<Fp16>();
    case DType::kFp32: return work.template operator()<float>();
  }
}

}  // namespace mk::tools
