// SPDX-License-Identifier: MIT
// transport/direct_choice.cc — see direct_choice.h.
#include "transport/direct_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/check.h"

namespace mk {
namespace {

struct Offer {
  std::string asked;
  DirectTrial trial;
};

Offer parse(const std::string& text) {
  Offer offer;
  std::istringstream lines(text);
  std::getline(lines, offer.asked);
  std::getline(lines, offer.trial.way);
  std::getline(lines, offer.trial.trouble);
  return offer;
}

std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

DirectChoice staged(const std::string& why) { return {false, "by way of host memory: " + why}; }

}  // namespace

void check_gpu_direct(const std::string& gpu_direct) {
  check_arg(gpu_direct == "auto" || gpu_direct == "on" || gpu_direct == "off",
            "gpu_direct is '{}'; it must be auto, on or off", gpu_direct);
}

std::string direct_offer(const std::string& gpu_direct, const DirectTrial& trial) {
  return gpu_direct + "\n" + in_one_line(trial.way) + "\n" + in_one_line(trial.trouble);
}

DirectChoice choose_direct(const std::vector<std::string>& offers) {
  std::vector<Offer> ranks;
  for (const std::string& text : offers) ranks.push_back(parse(text));
  const std::string& asked = ranks.front().asked;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    check_arg(ranks[rank].asked == asked, "gpu_direct is '{}' on rank {} and '{}' on rank 0; all must agree",
              ranks[rank].asked, rank, asked);
  }
  if (asked == "off") return staged("gpu_direct is off");
  std::set<std::string> ways;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const DirectTrial& trial = ranks[rank].trial;
    ways.insert(trial.way);
    if (trial.trouble.empty()) continue;
    const std::string why = fmt::format("rank {}: {}", rank, trial.trouble);
    if (asked == "on") throw Error(ErrorCode::kUnavailable, fmt::format("gpu_direct is on and cannot be, {}", why));
    return staged(why);
  }
  return {true, fmt::format("{}", fmt::join(ways, ", "))};
}

}  // namespace mk
