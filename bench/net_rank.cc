// SPDX-License-Identifier: MIT
// bench/net_rank.cc — see net_rank.h.
#include "bench/net_rank.h"

#include <fmt/format.h>

#include <future>

#include "transport/fabric_kinds.h"
#include "transport/nic_list.h"

namespace mk::bench {

NetRank::NetRank(std::string_view fabric, std::unique_ptr<Bootstrap> bootstrap, const NetMemory& memory,
                 const WindowRegistry& registry, const NetMemory::Windows& windows, const Options& options)
    : memory_(memory), windows_(windows), bootstrap_(std::move(bootstrap)) {
  PortSettings settings;
  settings.world = {.nodes = kNetRanks, .ranks = 1};
  settings.rank = rank();
  settings.secret = bootstrap_->secret();
  settings.deadline = kNetDeadline;
  settings.rdma.devices = nics_of_rank(options.nics, settings.world.local_of(rank()));
  settings.rdma.depth = options.queue_depth;
  port_ = open_port(fabric, settings, registry);
  fabric_ = port_->connect(bootstrap_->all_gather(port_->address(), "the addresses of both ranks' fabrics"));
  for (const uint32_t window : {windows_.data, windows_.signals}) {
    const std::vector<std::string> keys =
        bootstrap_->all_gather(port_->share_window(window), "the keys of both ranks' windows");
    port_->learn_window(window, peer(), keys[peer()]);
  }
  meet("");
}

void NetRank::put(uint64_t offset, uint64_t bytes, NetSignal signal, uint32_t amount) {
  Command command;
  command.from_offset = offset;
  command.to_offset = memory_.half_bytes() + offset;
  command.bytes = bytes;
  command.from_window = windows_.data;
  command.to_window = windows_.data;
  command.signal_window = windows_.signals;
  command.signal_index = static_cast<uint32_t>(signal);
  command.amount = amount;
  command.to_rank = static_cast<uint32_t>(peer());
  poll_until([&] {
    const PutResult result = fabric_->put(command, num_put_);
    if (result == PutResult::kFailed) throw_failed();
    return result == PutResult::kSent;
  });
  ++num_put_;
}

void NetRank::await(NetSignal signal, uint64_t more) {
  poll_until([&] { return unawaited(signal) >= more; });
  awaited_[static_cast<uint32_t>(signal)] += more;
}

void NetRank::poll() {
  tickets_.clear();
  if (fabric_->poll(tickets_) == PutResult::kFailed) throw_failed();
  num_completed_ += tickets_.size();
}

std::string NetRank::meet(const std::string& mine) {
  auto said = std::async(std::launch::async, [&] { return bootstrap_->all_gather(mine, "what both ranks say"); });
  poll_until([&] { return said.wait_for(std::chrono::seconds{0}) == std::future_status::ready; });
  return said.get()[peer()];
}

void NetRank::part() {
  poll_until([&] { return num_under_way() == 0; });
  meet("");
  bootstrap_->all_gather("", "the end of both ranks");  // without a poll: to it, an end that is gone has died
  fabric_.reset();
}

void NetRank::throw_late() const {
  throw Error(ErrorCode::kTimeout, fmt::format("rank {} waited {} ms for rank {}, with {} of its own puts under way",
                                               rank(), kNetDeadline.count(), peer(), num_under_way()));
}

void NetRank::throw_failed() const { throw Error(ErrorCode::kFabric, fabric_->failure()); }

}  // namespace mk::bench
