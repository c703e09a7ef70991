// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_receive.cc — what comes to a software NIC: packets, bytes that land, completions.
#include <algorithm>
#include <cstring>

#include "tests/support/device_memory.h"
#include "tests/support/soft_nic/soft_nic.h"

namespace mk::test::soft {
namespace {

constexpr int kMostReceived = 64;     // datagrams in one round
constexpr size_t kMostInFlight = 64;  // landings of a queue pair; then the oldest lands
constexpr size_t kMostLandings = 8;   // in one round
constexpr uint32_t kForever = 7;

bool needs_receive(uint32_t opcode) { return opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }

void land(const Landing& landing) {
  if (landing.device_address != 0) return write_device_memory(landing.device_address, landing.to, landing.bytes);
  if (!landing.bytes.empty()) std::memcpy(landing.to, landing.bytes.data(), landing.bytes.size());
}

}  // namespace

void SoftNic::receive_some() {
  for (int i = 0; i < kMostReceived; ++i) {
    std::optional<Packet> packet = wire_.receive();
    if (!packet) return;
    if (packet->head.kind == PacketKind::kProbe) continue;
    const auto qp = qps_.find(packet->head.to_qp);
    if (packet->head.kind == PacketKind::kAnswer) {
      if (qp == qps_.end()) continue;
      end_send(*qp->second, packet->head.message, static_cast<ibv_wc_status>(packet->head.status));
    } else if (qp == qps_.end() || is_down_) {
      answer(packet->head, IBV_WC_RETRY_EXC_ERR);
    } else {
      qp->second->air.push_back(std::move(*packet));
    }
  }
}

// RC: in order.  SRD: any.  A queue pair that is not ready yet lets them wait, as if they were sent again.
void SoftNic::look_at_air(SoftQp& qp) {
  if (qp.state() == IBV_QPS_ERR) {
    for (const Packet& packet : qp.air) answer(packet.head, IBV_WC_RETRY_EXC_ERR);
    qp.air.clear();
  }
  size_t steps = qp.air.size();
  if (settings_.seed != 0) steps = std::min<size_t>(steps, random_() % (2 + steps / 2));
  for (; steps > 0 && qp.can_receive() && !qp.air.empty(); --steps) {
    const size_t i = qp.kind == QpKind::kRc ? 0 : any_of(qp.air.size());
    if (take(qp, qp.air[i])) {
      if (!qp.air.empty()) qp.air.erase(qp.air.begin() + static_cast<ptrdiff_t>(i));
    } else if (qp.kind == QpKind::kRc) {
      return;
    }
  }
}

// False if there is no room for it.
bool SoftNic::take(SoftQp& qp, const Packet& packet) {
  const PacketHead& head = packet.head;
  const bool is_stranger =
      qp.kind == QpKind::kRc ? head.from != qp.peer_gid || head.from_qp != qp.peer_qp : head.queue_key != qp.queue_key;
  if (is_stranger) {
    answer(head, IBV_WC_RETRY_EXC_ERR);
    return true;
  }
  Incoming& message = qp.incoming[name_of(head)];
  if (message.is_refused) return true;
  if (!message.has_begun && !begin(qp, message, head)) return message.is_refused;
  std::optional<Landing> landing = target(message, head);
  if (!landing) {
    const bool is_send = head.opcode == IBV_WR_SEND;
    refuse(qp, message, head, is_send ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
    return true;
  }
  landing->order = message.order;
  landing->bytes = packet.payload;
  qp.landings.push_back(std::move(*landing));
  message.bytes_here += packet.payload.size();
  if (message.bytes_here == head.message_bytes) {
    answer(head, IBV_WC_SUCCESS);
    finish(qp, message, head);
    qp.incoming.erase(name_of(head));
  }
  return true;
}

// False if it waits for a receive, or is refused.
bool SoftNic::begin(SoftQp& qp, Incoming& message, const PacketHead& head) {
  if (needs_receive(head.opcode)) {
    if (qp.receives.empty()) {
      const bool is_over = head.no_room_tries != kForever && message.tries++ >= head.no_room_tries;
      if (is_over) refuse(qp, message, head, IBV_WC_RNR_RETRY_EXC_ERR);
      return false;
    }
    message.receive = qp.receives.front();
    qp.receives.pop_front();
  }
  message.order = qp.next_order++;
  message.has_begun = true;
  return true;
}

// Where the packet's bytes go, or nothing if the message may not.
std::optional<Landing> SoftNic::target(const Incoming& message, const PacketHead& head) {
  Landing landing;
  if (head.opcode == IBV_WR_SEND) {
    if (head.message_bytes > message.receive.bytes) return std::nullopt;
    landing.to = message.receive.to + head.offset;
    return landing;
  }
  if (head.message_bytes == 0) return landing;
  const auto found = memory_.find(head.key);
  if (found == memory_.end()) return std::nullopt;
  const SoftMr& mr = *found->second;
  if ((mr.access & IBV_ACCESS_REMOTE_WRITE) == 0 || !mr.covers(head.address, head.message_bytes)) return std::nullopt;
  landing.to = mr.at(head.address + head.offset);
  landing.is_relaxed = mr.is_relaxed();
  if (mr.is_device) landing.device_address = head.address + head.offset;
  return landing;
}

// An RC connection ends with it.
void SoftNic::refuse(SoftQp& qp, Incoming& message, const PacketHead& head, ibv_wc_status status) {
  message.is_refused = true;
  answer(head, status);
  if (qp.kind == QpKind::kRc && status != IBV_WC_RNR_RETRY_EXC_ERR) stop(qp);
}

void SoftNic::finish(SoftQp& qp, const Incoming& message, const PacketHead& head) {
  if (!needs_receive(head.opcode)) return;
  Finishing finishing;
  finishing.order = message.order;
  ibv_wc& completion = finishing.completion;
  completion.wr_id = message.receive.id;
  completion.opcode = head.opcode == IBV_WR_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  completion.byte_len = static_cast<uint32_t>(head.message_bytes);
  completion.imm_data = head.immediate;
  completion.wc_flags = head.opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM;
  completion.qp_num = qp.number();
  completion.src_qp = head.from_qp;
  qp.finishing.push_back(finishing);
}

void SoftNic::answer(const PacketHead& head, ibv_wc_status status) {
  PacketHead answer;
  answer.kind = PacketKind::kAnswer;
  answer.from = gid_;
  answer.from_qp = head.to_qp;
  answer.to_qp = head.from_qp;
  answer.message = head.message;
  answer.status = status;
  outbox_.emplace_back(head.from, answer);
  flush_outbox();
}

void SoftNic::land_some(SoftQp& qp) {
  size_t steps = qp.landings.size();
  if (settings_.seed != 0) steps = std::min<size_t>(steps, random_() % kMostLandings);
  for (; steps > 0; --steps) {
    const size_t i = any_of(qp.landings.size());
    if (!may_land(qp, qp.landings[i])) continue;
    land(qp.landings[i]);
    qp.landings.erase(qp.landings.begin() + static_cast<ptrdiff_t>(i));
  }
  while (qp.landings.size() > kMostInFlight) {
    land(qp.landings.front());
    qp.landings.erase(qp.landings.begin());
  }
}

// Only relaxed bytes pass those of earlier messages on their connection.
bool SoftNic::may_land(const SoftQp& qp, const Landing& landing) const {
  if (qp.kind == QpKind::kSrd || landing.is_relaxed) return true;
  return std::ranges::none_of(qp.landings, [&](const Landing& other) { return other.order < landing.order; });
}

// What a completion of the message speaks of.
void SoftNic::land_before(SoftQp& qp, uint64_t order) {
  const auto is_due = [&](const Landing& landing) {
    return qp.kind == QpKind::kRc ? landing.order <= order : landing.order == order;
  };
  for (const Landing& landing : qp.landings) {
    if (is_due(landing)) land(landing);
  }
  std::erase_if(qp.landings, is_due);
}

void SoftNic::finish_some(SoftQp& qp) {
  while (!qp.finishing.empty() && !by_chance(3)) {
    const size_t i = qp.kind == QpKind::kRc ? 0 : any_of(qp.finishing.size());
    const Finishing finishing = qp.finishing[i];
    qp.finishing.erase(qp.finishing.begin() + static_cast<ptrdiff_t>(i));
    land_before(qp, finishing.order);
    complete(qp.base.qp_base.recv_cq, finishing.completion, 0);
  }
}

}  // namespace mk::test::soft
