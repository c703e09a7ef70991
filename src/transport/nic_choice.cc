// SPDX-License-Identifier: MIT
// transport/nic_choice.cc — see nic_choice.h.
#include "transport/nic_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/check.h"
#include "transport/nic_list.h"
#include "transport/placement.h"

namespace mk {
namespace {

constexpr const char* kGiven = "given";  // rank by rank: neither more nor fewer
constexpr const char* kFound = "found";

struct Offer {
  std::string how;
  std::string trouble;
  std::vector<std::string> nics;

  size_t count() const { return std::max<size_t>(nics.size(), 1); }
  bool is_given() const { return how == kGiven; }
  std::string names() const {
    return nics.empty() ? "the first that is active" : fmt::format("{}", fmt::join(nics, ", "));
  }
};

Offer parse(const std::string& text) {
  Offer offer;
  std::istringstream lines(text);
  std::getline(lines, offer.how);
  std::getline(lines, offer.trouble);
  for (std::string name; std::getline(lines, name);) offer.nics.push_back(name);
  return offer;
}

Offer offer_of(const Topology& topology, const std::vector<std::string>& devices, const std::string& nics, int local) {
  try {
    if (is_by_gpu(nics)) return {kGiven, "", nics_of_rank(nics, local)};
    return {kFound, "", nearest_nics(topology, devices, nics, local)};
  } catch (const Error& error) {
    if (is_by_gpu(nics)) return {kGiven, error.what(), {}};
    return {kFound, "", {}};  // the list has what the topology does not: opening it will tell
  }
}

}  // namespace

std::vector<std::string> nearest_nics(Topology topology, const std::vector<std::string>& devices,
                                      const std::string& nics, int local) {
  std::erase_if(topology.nics, [&](const Nic& nic) { return std::ranges::count(devices, nic.device) == 0; });
  const auto num_active = std::ranges::count_if(topology.nics, [](const Nic& nic) { return nic.active(); });
  if (num_active < 2 || local >= static_cast<int>(topology.gpus.size())) return {};
  const Placement placement = place(std::move(topology), nics);
  std::vector<std::string> names;
  for (const Rail& rail : placement.gpus[local].rails) names.push_back(placement.topology.nics[rail.nic].name());
  return names;
}

std::string nic_offer(const Topology& topology, const std::vector<std::string>& devices, const std::string& nics,
                      int local) {
  Offer offer = offer_of(topology, devices, nics, local);
  if (offer.nics.empty() && offer.trouble.empty()) offer.nics = nics_of_rank(nics, local);
  std::ranges::replace(offer.trouble, '\n', ' ');
  std::string text = offer.how + "\n" + offer.trouble;
  for (const std::string& name : offer.nics) text += "\n" + name;
  return text;
}

std::vector<std::string> choose_nics(const std::vector<std::string>& offers, int rank) {
  std::vector<Offer> all;
  for (const std::string& text : offers) all.push_back(parse(text));
  std::optional<size_t> giver;
  size_t count = all.front().count();
  for (size_t i = 0; i < all.size(); ++i) {
    check_arg(all[i].trouble.empty(), "{} (on rank {})", all[i].trouble, i);
    if (all[i].is_given() && !giver) giver = i;
    count = std::min(count, all[i].count());
  }
  if (giver) count = all[*giver].count();
  for (size_t i = 0; giver && i < all.size(); ++i) {
    const Offer& one = all[i];
    const bool fits = one.is_given() ? one.count() == count : one.count() >= count;
    check_arg(fits, "nics is for {} NICs on rank {} ({}); rank {} {} {} ({}) and all must use as many", count, *giver,
              all[*giver].names(), i, one.is_given() ? "was given" : "has", one.count(), one.names());
  }
  std::vector<std::string> nics = all[rank].nics;
  nics.resize(std::min(nics.size(), count));
  return nics;
}

}  // namespace mk
