// SPDX-License-Identifier: MIT
// transport/staged_fabric.cc — see staged_fabric.h.
#include "transport/staged_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/what.h"
#include "transport/resolved_put.h"

namespace mk {
namespace {

// For copies under way when the fabric ends; a copy needs microseconds.
constexpr std::chrono::milliseconds kFarewell{1000};

}  // namespace

StagedFabric::StagedFabric(const PortSettings& settings, const WindowRegistry& windows, const Slots& slots,
                           Mover& mover, std::unique_ptr<Fabric> inner)
    : rank_(settings.rank), windows_(windows), mover_(mover), inner_(std::move(inner)) {
  const WorldShape& world = settings.world;
  const int own_node = world.node_of(rank_);
  for (int node = 0; node < world.nodes; ++node) {
    if (node == own_node) continue;
    const StagedLink link{.rank = rank_,
                          .peer = world.rank_at(node, world.local_of(rank_)),
                          .peer_here = peer_number(node, own_node),
                          .self_there = peer_number(own_node, node),
                          .layout = slots.layout,
                          .memory = slots.memory,
                          .window = slots.window};
    peers_.push_back({StagedSender(link, settings.staged.queue_puts, settings.deadline, mover),
                      StagedReceiver(link, windows, mover)});
  }
}

// Whoever frees the slots or the windows next must find no copy under way.
StagedFabric::~StagedFabric() {
  inner_.reset();
  wait_for_copies();
}

StagedFabric::Peer* StagedFabric::find_peer(uint32_t rank) {
  const auto found =
      std::ranges::find_if(peers_, [&](const Peer& peer) { return static_cast<uint32_t>(peer.sender.peer()) == rank; });
  return found == peers_.end() ? nullptr : &*found;
}

PutResult StagedFabric::put(const Command& c, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  const std::byte* const from = windows_.find(c.from_window, static_cast<uint32_t>(rank_), c.from_offset, c.bytes);
  const bool lands = windows_.contains(c.to_window, c.to_offset, c.bytes) &&
                     windows_.contains(c.signal_window, uint64_t{c.signal_index} * sizeof(uint64_t), sizeof(uint64_t));
  if (from == nullptr || !lands) return fail(describe_bad_put(c, static_cast<uint32_t>(rank_)));
  Peer* const peer = find_peer(c.to_rank);
  if (peer == nullptr) {
    return fail(fmt::format("rank {} has no slots for rank {}: only ranks of one rail have", rank_, c.to_rank));
  }
  if (peer->sender.is_full()) return PutResult::kFull;
  peer->sender.add(c, from, ticket);
  return PutResult::kSent;
}

PutResult StagedFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  try {
    take_copies();
    if (move(completed) == PutResult::kFailed) return fail(inner_->failure());
    for (Peer& peer : peers_) {
      peer.receiver.take();
      peer.sender.check_credit();
    }
  } catch (const std::exception& error) {
    return fail(what_of(error));
  }
  return PutResult::kSent;
}

void StagedFabric::take_copies() {
  done_.clear();
  mover_.poll(done_);
  for (const uint64_t word : done_) {
    const StagedToken token = StagedToken::of_word(word);
    if (token.step == StagedToken::kRead) {
      peers_[token.peer].sender.piece_is_read(token.slot);
    } else {
      peers_[token.peer].receiver.piece_has_landed(token.slot);
    }
  }
}

// Credits first: peers wait for them.  What the inner fabric has no room for waits for the next poll.
PutResult StagedFabric::move(std::vector<uint64_t>& completed) {
  for (Peer& peer : peers_) {
    if (peer.receiver.pay(*inner_) == PutResult::kFailed) return PutResult::kFailed;
    peer.sender.fill();
    if (peer.sender.send(*inner_) == PutResult::kFailed) return PutResult::kFailed;
  }
  done_.clear();
  const PutResult result = inner_->poll(done_);
  for (const uint64_t word : done_) {
    const StagedToken token = StagedToken::of_word(word);
    if (token.step == StagedToken::kSent) peers_[token.peer].sender.slot_is_sent(token.slot, completed);
  }
  return result;
}

// Copies tell nobody when they are done, so whoever has some under way polls on.
void StagedFabric::nap(std::chrono::microseconds most) {
  if (inner_ == nullptr) return Fabric::nap(most);
  if (!is_copying()) inner_->nap(most);
}

bool StagedFabric::is_copying() const {
  return std::ranges::any_of(peers_,
                             [](const Peer& peer) { return peer.sender.is_reading() || peer.receiver.is_landing(); });
}

void StagedFabric::wait_for_copies() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  try {
    while (is_copying() && std::chrono::steady_clock::now() < deadline) take_copies();
  } catch (const std::exception&) {
    // The device has failed, and its copies with it.
  }
}

PutResult StagedFabric::fail(std::string why) {
  failure_ = std::move(why);
  inner_.reset();
  return PutResult::kFailed;
}

}  // namespace mk
