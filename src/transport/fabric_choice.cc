// SPDX-License-Identifier: MIT
// transport/fabric_choice.cc — see fabric_choice.h.
#include "transport/fabric_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "transport/fabric_kinds.h"

namespace mk {
namespace {

// Between processes; the first that all have.  Not among them: shm, which works inside one machine only.
constexpr std::string_view kBestFirst[] = {"efa", "verbs", "tcp"};

struct Offer {
  std::string net;
  std::string trouble;  // with `net`
  std::vector<std::string> usable;
};

Offer parse(const std::string& text) {
  Offer offer;
  std::istringstream lines(text);
  std::getline(lines, offer.net);
  std::getline(lines, offer.trouble);
  for (std::string name; std::getline(lines, name);) offer.usable.push_back(name);
  return offer;
}

std::string why_not(const FabricKind& kind) {
  if (!kind.between_processes) return "it carries inside one process only";
  return kind.why_not();
}

std::string joined(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void check_net(const std::string& net) {
  std::string known = kAutomaticFabric;
  for (const FabricKind& kind : fabric_kinds()) {
    if (net == kind.name) return;
    known += fmt::format(", {}", kind.name);
  }
  check_arg(net == kAutomaticFabric, "net is '{}'; it must be one of {}", net, known);
}

std::string fabric_offer(const std::string& net) {
  check_net(net);
  std::string trouble = net == kAutomaticFabric ? "" : why_not(fabric_kind(net));
  std::ranges::replace(trouble, '\n', ' ');
  std::string text = net + "\n" + trouble;
  for (const FabricKind& kind : fabric_kinds()) {
    if (why_not(kind).empty()) text += fmt::format("\n{}", kind.name);
  }
  return text;
}

std::string choose_fabric(const std::vector<std::string>& offers) {
  std::vector<Offer> ranks;
  for (const std::string& text : offers) ranks.push_back(parse(text));
  const std::string& net = ranks.front().net;
  std::vector<std::string> of_all = ranks.front().usable;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    check_arg(ranks[rank].net == net, "net is '{}' on rank {} and '{}' on rank 0; all must agree", ranks[rank].net,
              rank, net);
    std::erase_if(of_all, [&](const std::string& name) { return std::ranges::count(ranks[rank].usable, name) == 0; });
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].trouble.empty()) continue;
    throw Error(ErrorCode::kUnavailable, fmt::format("net is '{}'; rank {} cannot use it: {}; all ranks have: {}", net,
                                                     rank, ranks[rank].trouble, joined(of_all)));
  }
  if (net != kAutomaticFabric) return net;
  for (const std::string_view name : kBestFirst) {
    if (std::ranges::count(of_all, name) > 0) return std::string(name);
  }
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("net is '{}'; there is no fabric between nodes that all ranks have, only: {}", net, joined(of_all)));
}

}  // namespace mk
