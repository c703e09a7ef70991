// SPDX-License-Identifier: MIT
// transport/direct_choice.h — whether NICs reach the windows of a world's GPUs directly, or by way of host memory.
//
// A put is written by one rank's NIC and read by another's, so all ranks do the same.  Each tries with a small piece of
// its GPU's memory and tells the others how that went.
#pragma once

#include <string>
#include <vector>

namespace mk {

// Throws Error(kInvalidArgument) if `gpu_direct` is not auto, on or off.
void check_gpu_direct(const std::string& gpu_direct);

// How it went at one rank.
struct DirectTrial {
  std::string way;      // in which the NICs reach the memory, for people
  std::string trouble;  // empty if they do
};

// For choose_direct only; `gpu_direct` is as in Options.
std::string direct_offer(const std::string& gpu_direct, const DirectTrial& trial);

struct DirectChoice {
  bool is_direct = false;
  std::string reach;  // "GPU memory by DMA-BUF", or why it is host memory
};

// Of the ranks' offers.  Throws Error(kUnavailable) with the rank, and what was tried there, if it must be direct and
// cannot be.
DirectChoice choose_direct(const std::vector<std::string>& offers);

}  // namespace mk
