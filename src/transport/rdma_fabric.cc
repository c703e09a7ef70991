// SPDX-License-Identifier: MIT
// transport/rdma_fabric.cc — see rdma_fabric.h.
#include "transport/rdma_fabric.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/what.h"
#include "mkernel/error.h"
#include "transport/rdma_completion.h"
#include "transport/resolved_put.h"

namespace mk {
namespace {

constexpr int kMostCompletions = 64;  // at one look at a device

// Longest silence before a peer is asked whether it is there.
constexpr std::chrono::milliseconds kSilence{1000};

// For goodbyes to leave; a NIC needs microseconds.
constexpr std::chrono::milliseconds kFarewell{5};

// For signals under way on a GPU when the fabric ends; one needs microseconds.
constexpr std::chrono::milliseconds kLastSignals{1000};

}  // namespace

RdmaFabric::RdmaFabric(const PortSettings& settings, const WindowRegistry& windows, const RdmaDevices& devices,
                       const RdmaKeys& keys, std::vector<std::unique_ptr<RdmaLane>> lanes, std::vector<Peer> peers)
    : settings_(settings),
      windows_(windows),
      devices_(devices),
      keys_(keys),
      signals_(keys, settings.mover),
      lanes_(std::move(lanes)),
      peers_(std::move(peers)),
      routes_(devices.size()) {
  for (Peer& peer : peers_) {
    for (RdmaLane* lane : peer.sender.lanes()) routes_[lane->device_idx()][lane->queue().number()] = {lane, &peer};
  }
}

// Whoever frees the windows next must find no signal on its way to them.
RdmaFabric::~RdmaFabric() {
  close();
  wait_for_signals();
}

PutResult RdmaFabric::put(const Command& c, uint64_t ticket) {
  if (!failure_.empty()) return PutResult::kFailed;
  RdmaPut put{c, ticket, windows_.find(c.from_window, settings_.rank, c.from_offset, c.bytes), {}, {}};
  const bool lands = windows_.contains(c.to_window, c.to_offset, c.bytes) &&
                     windows_.contains(c.signal_window, uint64_t{c.signal_index} * sizeof(uint64_t), sizeof(uint64_t));
  if (put.from == nullptr || !lands) return fail(describe_bad_put(c, settings_.rank));
  const auto peer = std::ranges::find_if(
      peers_, [&](const Peer& one) { return static_cast<uint32_t>(one.sender.peer()) == c.to_rank; });
  if (peer == peers_.end()) {
    return fail(
        fmt::format("rank {} has no queue pair to rank {}: only ranks of one rail have", settings_.rank, c.to_rank));
  }
  if (peer->sender.is_full()) return PutResult::kFull;
  put.lkeys = keys_.local_keys(c.from_window);
  put.window = keys_.remote(c.to_window, c.to_rank);
  if (put.lkeys.empty() || put.window.keys.empty()) {
    return fail(fmt::format("rank {} puts from window {} to window {} of rank {}, which were not both shared",
                            settings_.rank, c.from_window, c.to_window, c.to_rank));
  }
  peer->sender.add(std::move(put));
  return PutResult::kSent;
}

PutResult RdmaFabric::poll(std::vector<uint64_t>& completed) {
  if (!failure_.empty()) return PutResult::kFailed;
  now_ = Clock::now();
  try {
    for (Peer& peer : peers_) peer.sender.move(now_);
    reap(completed);
    signals_.move();
    check_peers();
  } catch (const std::exception& error) {
    return fail(what_of(error));
  }
  return PutResult::kSent;
}

void RdmaFabric::reap(std::vector<uint64_t>& completed) {
  std::array<ibv_wc, kMostCompletions> completions;
  for (size_t device = 0; device < devices_.size(); ++device) {
    const int num = ibv_poll_cq(devices_[device]->cq(), kMostCompletions, completions.data());
    if (num < 0) throw Error(ErrorCode::kFabric, devices_[device]->name() + " lost its completions");
    for (int i = 0; i < num; ++i) take(completions[i], routes_[device].at(completions[i].qp_num), completed);
  }
  for (const auto& lane : lanes_) {
    if (const int error = lane->replenish(); error != 0) {
      throw_rdma("nothing more can be received on " + lane->queue().device().name(), error);
    }
  }
}

void RdmaFabric::take(const ibv_wc& completion, const Route& route, std::vector<uint64_t>& completed) {
  const bool is_receive = (completion.wr_id & RdmaLane::kReceiveBit) != 0;
  RdmaSender& sender = route.peer->sender;
  if (completion.status != IBV_WC_SUCCESS) {
    const std::string what = is_receive
                                 ? fmt::format("what rank {} receives from rank {}", settings_.rank, sender.peer())
                                 : sender.describe(route.lane->put_of(completion.wr_id));
    throw Error(ErrorCode::kFabric, fmt::format("{}, failed on {}: {}", what, route.lane->queue().device().name(),
                                                describe_completion(completion)));
  }
  if (!is_receive) {
    slots_.clear();
    route.lane->complete(completion.wr_id, slots_);
    for (const uint32_t slot : slots_) sender.complete(slot, completed);
    sender.note_progress(now_);
    return;
  }
  RdmaReceiver& receiver = route.peer->receiver;
  const std::optional<SignalPayment> due = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM
                                               ? receiver.take(ntohl(completion.imm_data))
                                               : receiver.take(route.lane->received(completion.wr_id));
  if (due) pay(*due, sender.peer());
  route.lane->take_back(completion.wr_id);
}

void RdmaFabric::pay(const SignalPayment& payment, int peer) {
  if (signals_.pay(payment)) return;
  throw Error(ErrorCode::kFabric,
              fmt::format("rank {} sent rank {} a put whose signal is in no window: window {}, signal {}", peer,
                          settings_.rank, payment.window, payment.index));
}

void RdmaFabric::check_peers() {
  const auto silence = std::min(kSilence, settings_.deadline / 4);
  for (Peer& peer : peers_) {
    const auto quiet = now_ - peer.sender.since();
    if (peer.sender.is_idle()) {
      if (quiet <= silence) continue;
      peer.sender.say(RdmaRecord::kAlive);
      peer.sender.note_progress(now_);
    } else if (quiet > settings_.deadline) {
      throw Error(ErrorCode::kFabric, fmt::format("rank {} took nothing from rank {} for {} ms", peer.sender.peer(),
                                                  settings_.rank, settings_.deadline.count()));
    }
  }
}

// A GPU tells nobody when signals are paid, so whoever has some under way polls on; after a failure nobody polls them.
void RdmaFabric::nap(std::chrono::microseconds most) {
  if (!failure_.empty() || !signals_.are_paying()) Fabric::nap(most);
}

PutResult RdmaFabric::fail(std::string why) {
  failure_ = std::move(why);
  close();
  return PutResult::kFailed;
}

void RdmaFabric::close() noexcept {
  try {
    for (Peer& peer : peers_) peer.sender.say(RdmaRecord::kGoodbye);
    wait_for_goodbyes();
  } catch (const std::exception&) {
    // Nobody is left to tell; whoever misses the goodbye notices the silence.
  }
  peers_.clear();
  lanes_.clear();
}

// Bounded, and until nothing is under way.  A message that failed is over, too.
void RdmaFabric::wait_for_goodbyes() {
  for (const auto& lane : lanes_) lane->flush();
  const auto deadline = Clock::now() + kFarewell;
  std::array<ibv_wc, kMostCompletions> completions;
  const auto is_busy = [](const auto& lane) { return !lane->is_idle(); };
  while (std::ranges::any_of(lanes_, is_busy) && Clock::now() < deadline) {
    for (size_t device = 0; device < devices_.size(); ++device) {
      const int num = ibv_poll_cq(devices_[device]->cq(), kMostCompletions, completions.data());
      for (int i = 0; i < num; ++i) {
        if ((completions[i].wr_id & RdmaLane::kReceiveBit) != 0) continue;
        routes_[device].at(completions[i].qp_num).lane->complete(completions[i].wr_id, slots_);
      }
    }
  }
}

void RdmaFabric::wait_for_signals() noexcept {
  const auto deadline = Clock::now() + kLastSignals;
  try {
    if (!failure_.empty()) signals_.forget_due();
    while (signals_.are_paying() && Clock::now() < deadline) signals_.move();
  } catch (const std::exception&) {
    // The device has failed, and what it was asked for with it.
  }
}

}  // namespace mk
