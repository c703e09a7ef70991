// SPDX-License-Identifier: MIT
// runtime/device_choice.cc — see device_choice.h.
#include "runtime/device_choice.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "base/check.h"

namespace mk::runtime {
namespace {

constexpr int kFewestSms = 2;  // of a rank: one computes, one communicates

constexpr DeviceKind kKinds[] = {DeviceKind::kAuto, DeviceKind::kCpu, DeviceKind::kCuda};

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

DeviceOffer parse(const std::string& text) {
  DeviceOffer offer;
  std::istringstream lines(text);
  std::string asked;
  std::getline(lines, asked);
  for (const DeviceKind kind : kKinds) {
    if (asked == name_of(kind)) offer.asked = kind;
  }
  std::getline(lines, offer.machine);
  std::getline(lines, offer.trouble);
  for (Gpu gpu; lines >> gpu.number >> gpu.sms >> gpu.id;) offer.gpus.push_back(gpu);
  return offer;
}

// Of the kernel that runs: containers of a machine have the same, and no other machine does.
std::string machine_here() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

DeviceKind kind_for_all(const std::vector<DeviceOffer>& ranks) {
  const DeviceKind asked = ranks.front().asked;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    check_arg(ranks[rank].asked == asked, "device is {} on rank {} and {} on rank 0; all must agree",
              name_of(ranks[rank].asked), rank, name_of(asked));
  }
  if (asked == DeviceKind::kCpu) return DeviceKind::kCpu;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].gpus.empty()) continue;
    if (asked == DeviceKind::kAuto) return DeviceKind::kCpu;
    throw Error(ErrorCode::kUnavailable,
                fmt::format("device is {}; rank {} cannot use one: {}", name_of(asked), rank, ranks[rank].trouble));
  }
  return DeviceKind::kCuda;
}

// By rank: its GPU.
std::vector<Gpu> gpus_in_turn(const std::vector<DeviceOffer>& ranks) {
  std::map<std::string, size_t> num_before;  // on a machine
  std::vector<Gpu> chosen;
  for (const DeviceOffer& rank : ranks) chosen.push_back(rank.gpus[num_before[rank.machine]++ % rank.gpus.size()]);
  return chosen;
}

int sms_of_every_rank(const std::vector<Gpu>& chosen) {
  std::map<std::string, int> num_sharing;
  for (const Gpu& gpu : chosen) ++num_sharing[gpu.id];
  int fewest = chosen.front().sms;
  for (const Gpu& gpu : chosen) {
    const int num = num_sharing[gpu.id];
    check_arg(gpu.sms / num >= kFewestSms, "nodes x ranks is {}; {} of them share a GPU that holds at most {} ranks",
              chosen.size(), num, gpu.sms / kFewestSms);
    fewest = std::min(fewest, gpu.sms / num);
  }
  return fewest;
}

}  // namespace

std::string to_text(const DeviceOffer& offer) {
  std::string text =
      fmt::format("{}\n{}\n{}", name_of(offer.asked), on_one_line(offer.machine), on_one_line(offer.trouble));
  for (const Gpu& gpu : offer.gpus) text += fmt::format("\n{} {} {}", gpu.number, gpu.sms, gpu.id);
  return text;
}

DeviceOffer offer_here(DeviceKind asked) {
  DeviceOffer offer{asked, machine_here(), {}, {}};
  if (asked == DeviceKind::kCpu) return offer;
  try {
    offer.gpus = usable_gpus();
    if (offer.gpus.empty()) offer.trouble = why_no_cuda();
  } catch (const Error& error) {
    offer.trouble = error.what();  // for all to know, not for this rank to leave
  }
  return offer;
}

DeviceChoice choose_device(const std::vector<std::string>& offers, int rank) {
  std::vector<DeviceOffer> ranks;
  for (const std::string& text : offers) ranks.push_back(parse(text));
  if (kind_for_all(ranks) == DeviceKind::kCpu) return {};
  const std::vector<Gpu> chosen = gpus_in_turn(ranks);
  return {DeviceKind::kCuda, {rank, chosen[rank].number, sms_of_every_rank(chosen)}};
}

}  // namespace mk::runtime
