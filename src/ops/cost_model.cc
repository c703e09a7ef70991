// SPDX-License-Identifier: MIT
// ops/cost_model.cc — see cost_model.h.
#include "ops/cost_model.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "target/h200.h"

namespace mk::cost {

RankTime time_of(const Seats& seats, const RankWork& work) {
  const double part_of_gpu = seats.count / double{h200::kSms};
  return {.compute = work.flops / (h200::kFlopsPerSmSecond * seats.count),
          .links = std::max(work.nvlink_bytes / (h200::kNvlinkPerSecond * part_of_gpu),
                            work.network_bytes / (h200::kNetworkPerSecond * part_of_gpu))};
}

int fair_share(const Seats& seats, int roles, const RankWork& work) {
  if (seats.sharing == 1) return std::clamp(seats.count / 16, 1, 8);
  const double moved_per_second = h200::kMovedPerWorkerSecond * seats.sharing;
  const double seconds = time_of(seats, work).slowest();
  const int wanted = static_cast<int>(std::ceil(work.moved_bytes / moved_per_second / seconds + work.spare));
  return ceil_div(std::clamp(wanted, 1, std::max(1, seats.count / 4)) * seats.sharing, roles);
}

int share_for_sums(const Seats& seats, int roles, const RankWork& work, int64_t tiles) {
  const int fair = fair_share(seats, roles, work);
  if (seats.sharing == 1) return fair;
  const double moved_per_second = h200::kSumPace * h200::kMovedPerWorkerSecond * seats.sharing;
  const RankTime time = time_of(seats, work);
  const auto seconds = [&](int communicating) {
    const int computing = seats.count - communicating;
    const double moving = work.moved_bytes / (communicating * moved_per_second);
    const double last_wave = std::min(1.0, static_cast<double>(computing) / static_cast<double>(tiles));
    const double together = std::max({time.compute * seats.count / computing, time.links, moving});
    return together + moving * last_wave;
  };
  int best = 1;
  for (int more = 2; more <= seats.count / 4; ++more) {
    if (seconds(more) < seconds(best)) best = more;
  }
  return std::max(fair, ceil_div(best * seats.sharing, roles));
}

}  // namespace mk::cost
