// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_nic.cc — a software NIC's queues, and one round of everything it does.
#include "tests/support/soft_nic/soft_nic.h"

#include <atomic>
#include <cerrno>

namespace mk::test::soft {
namespace {

constexpr uint32_t kFirstNumber = 100;  // of queue pairs

// Each NIC of a process takes its own turns.
uint64_t next_stream() {
  static std::atomic<uint64_t> streams = 0;
  return streams++;
}

}  // namespace

SoftNic::SoftNic(const Settings& settings, const Gid& gid)
    : settings_(settings),
      gid_(gid),
      wire_(gid),
      random_(settings.seed * 1'000'003 + next_stream()),
      next_number_(kFirstNumber) {}

void SoftNic::add(SoftQp* qp) {
  qp->base.qp_base.qp_num = next_number_++;
  qps_[qp->number()] = qp;
}

void SoftNic::remove(SoftQp* qp) {
  for (const Packet& packet : qp->air) answer(packet.head, IBV_WC_RETRY_EXC_ERR);
  for (const auto& [name, message] : qp->incoming) {
    PacketHead head;
    head.from = name.from;
    head.from_qp = name.from_qp;
    head.to_qp = qp->number();
    head.message = name.message;
    if (!message.is_refused) answer(head, IBV_WC_RETRY_EXC_ERR);
  }
  qps_.erase(qp->number());
}

int SoftNic::post(SoftQp& qp, std::vector<Send> sends) {
  if (qp.state() != IBV_QPS_RTS) return EINVAL;
  if (qp.num_taken + sends.size() > qp.cap.max_send_wr) return ENOMEM;
  for (Send& send : sends) {
    send.message = qp.next_message++;
    // Long messages in few packets, for speed; short ones in many, for trouble.
    const uint64_t shortest = settings_.seed == 0 ? 4096 : 256u << random_() % 5;
    send.packet_bytes = std::min<uint64_t>(std::max(shortest, send.bytes / 64), Wire::kMostPayload);
    qp.sends.push_back(send);
  }
  qp.num_taken += sends.size();
  return 0;
}

int SoftNic::post(SoftQp& qp, const Receive& receive) {
  if (qp.state() == IBV_QPS_RESET) return EINVAL;
  if (qp.receives.size() >= qp.cap.max_recv_wr) return ENOMEM;
  if (settings_.lose_receives > 0) {
    --settings_.lose_receives;
  } else {
    qp.receives.push_back(receive);
  }
  return 0;
}

void SoftNic::stop(SoftQp& qp) {
  qp.base.qp_base.state = IBV_QPS_ERR;
  ibv_wc completion{};
  completion.status = IBV_WC_WR_FLUSH_ERR;
  completion.qp_num = qp.number();
  for (const Send& send : qp.sends) {
    completion.wr_id = send.id;
    complete(qp.base.qp_base.send_cq, completion, 1);
  }
  qp.sends.clear();
  for (const Receive& receive : qp.receives) {
    completion.wr_id = receive.id;
    complete(qp.base.qp_base.recv_cq, completion, 0);
  }
  qp.receives.clear();
}

void SoftNic::complete(ibv_cq* cq, const ibv_wc& completion, uint64_t reclaims) {
  SoftCq& soft = *reinterpret_cast<SoftCq*>(cq);
  soft.is_overrun |= soft.entries.size() >= static_cast<size_t>(cq->cqe);
  soft.entries.push_back({completion, reclaims});
}

void SoftNic::reclaim(uint32_t qp, uint64_t places) {
  if (const auto found = qps_.find(qp); found != qps_.end()) found->second->num_taken -= places;
}

void SoftNic::advance() {
  receive_some();
  for (const auto& [number, qp] : qps_) {
    look_at_air(*qp);
    land_some(*qp);
    finish_some(*qp);
    tell_sends(*qp);
  }
  send_some();
  flush_outbox();
  if (++num_advances_ % 64 == 0) probe();
}

// What was under way is lost, as after all retries; so is what comes from now on.
void SoftNic::go_down() {
  is_down_ = true;
  for (const auto& [number, qp] : qps_) {
    for (Send& send : qp->sends) {
      if (send.is_answered) continue;
      send.is_answered = true;
      send.status = IBV_WC_RETRY_EXC_ERR;
    }
  }
}

}  // namespace mk::test::soft
