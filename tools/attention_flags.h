// SPDX-License-Identifier: MIT
// tools/attention_flags.h — values of flags that only attention has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flags.h"
#include "mkernel/ring_attention.h"
#include "usage.h"

namespace mk::tools {

// --mask: "full", "causal" or "window=N".
inline AttentionMask mask_of(const std::string& text) {
  constexpr std::string_view kWindow = "window=";
  if (!text.starts_with(kWindow)) {
    check_usage(text == name_of(MaskKind::kFull) || text == name_of(MaskKind::kCausal),
                "--mask is '{}'; it must be full, causal or window=N", text);
    return {text == name_of(MaskKind::kFull) ? MaskKind::kFull : MaskKind::kCausal};
  }
  const auto window = number<int64_t>("--mask window", text.substr(kWindow.size()));
  check_usage(window >= 1, "--mask window is {}; it must be at least 1", window);
  return {MaskKind::kCausal, window};
}

// --layout
inline SequenceOrder order_of(const std::string& text) {
  return choice("--layout", text, {SequenceOrder::kContiguous, SequenceOrder::kZigzag});
}

// --packed: lengths of sequences, or nothing.
inline std::vector<int32_t> lengths_of(const std::string& text) {
  std::vector<int32_t> lengths;
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    lengths.push_back(number<int32_t>("--packed", text.substr(first, end - first)));
    check_usage(lengths.back() >= 1, "--packed has a length of {}; it must be at least 1", lengths.back());
    first = end + 1;
  }
  return lengths;
}

}  // namespace mk::tools
