// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_nic.h — a NIC in software: RC and SRD as their specifications allow at worst.
//
// It has no thread: it moves on whenever its owner posts or polls.  It keeps what real NICs keep and no more:
//   RC    packets of a connection come in order, and so do completions.  The bytes of one message land in any order
//         before its completion.  Bytes of strictly ordered memory land message after message; those of relaxed
//         memory land in any order, until a completion of a later or the same message.
//   SRD   packets and messages overtake each other; a completion speaks of its own message only.
// An answer to the sender says that a message has arrived, not that it has landed.  With seed 0 all is in order.
// Memory of a device (tests/support/device_memory.h) is different: what has landed there shows when the device has
// settled.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/soft_nic/soft_objects.h"
#include "tests/support/soft_nic/soft_settings.h"
#include "tests/support/soft_nic/soft_wire.h"

namespace mk::test::soft {

class SoftNic {
 public:
  SoftNic(const Settings& settings, const Gid& gid);

  // Everything below is for who holds it.
  std::mutex mutex;

  const Gid& gid() const { return gid_; }
  bool is_up() const { return !is_down_; }
  const Settings& settings() const { return settings_; }
  uint32_t most_work_requests() const {
    constexpr uint32_t kMost = 8192;
    return settings_.queue == 0 ? kMost : static_cast<uint32_t>(settings_.queue);
  }
  uint32_t most_message_bytes() const { return settings_.no_messages != 0 ? 0 : 1u << 30; }

  void add(SoftMr* mr) { memory_[mr->base.rkey] = mr; }
  void remove(SoftMr* mr) { memory_.erase(mr->base.rkey); }
  uint32_t next_key() { return next_key_ += 1 + static_cast<uint32_t>(random_() % 1000); }

  void add(SoftQp* qp);
  // Tells senders of messages that are not whole that nobody is there.
  void remove(SoftQp* qp);

  // errno.
  int post(SoftQp& qp, std::vector<Send> sends);
  int post(SoftQp& qp, const Receive& receive);
  // Everything posted comes back with an error; of sends, all but those that are whole at the peer.
  void stop(SoftQp& qp);

  // Completions of sends have been polled.
  void reclaim(uint32_t qp, uint64_t places);

  void advance();

 private:
  // soft_send.cc
  void send_some();
  bool send_packet(SoftQp& qp, Send& send);
  Send* choose_send(SoftQp& qp);
  void end_send(SoftQp& qp, uint64_t message, ibv_wc_status status);
  void tell_sends(SoftQp& qp);
  void probe();
  void flush_outbox();

  // soft_receive.cc
  void receive_some();
  void look_at_air(SoftQp& qp);
  bool take(SoftQp& qp, const Packet& packet);
  bool begin(SoftQp& qp, Incoming& message, const PacketHead& head);
  std::optional<Landing> target(const Incoming& message, const PacketHead& head);
  void refuse(SoftQp& qp, Incoming& message, const PacketHead& head, ibv_wc_status status);
  void finish(SoftQp& qp, const Incoming& message, const PacketHead& head);
  void answer(const PacketHead& head, ibv_wc_status status);
  void land_some(SoftQp& qp);
  void land_before(SoftQp& qp, uint64_t order);
  bool may_land(const SoftQp& qp, const Landing& landing) const;
  void finish_some(SoftQp& qp);

  void complete(ibv_cq* cq, const ibv_wc& completion, uint64_t reclaims);
  void go_down();

  // True in `one_in` of all cases, never with seed 0.
  bool by_chance(uint64_t one_in) { return settings_.seed != 0 && random_() % one_in == 0; }
  size_t any_of(size_t count) { return settings_.seed == 0 ? 0 : random_() % count; }

  Settings settings_;
  Gid gid_;
  Wire wire_;
  std::mt19937_64 random_;
  std::map<uint32_t, SoftMr*> memory_;  // by key
  std::map<uint32_t, SoftQp*> qps_;     // by number
  uint32_t next_key_ = 0;
  uint32_t next_number_ = 0;
  std::deque<std::pair<Gid, PacketHead>> outbox_;  // answers that could not leave
  uint64_t num_sent_ = 0;
  uint64_t num_advances_ = 0;
  bool is_down_ = false;
};

}  // namespace mk::test::soft
