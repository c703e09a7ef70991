// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_send.cc — what leaves a software NIC.
#include <algorithm>
#include <set>

#include "tests/support/soft_nic/soft_nic.h"

namespace mk::test::soft {
namespace {

constexpr size_t kMostUnanswered = 16;  // messages of a queue pair
constexpr size_t kMostPackets = 64;     // in one round

ibv_wc_opcode completed_as(ibv_wr_opcode opcode) { return opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE; }

}  // namespace

// Packets of all queue pairs, each time of any of them.
void SoftNic::send_some() {
  if (is_down_) go_down();
  std::set<SoftQp*> ready;
  for (const auto& [number, qp] : qps_) ready.insert(qp);
  const size_t most = settings_.seed == 0 ? kMostPackets : 1 + random_() % kMostPackets;
  for (size_t sent = 0; sent < most && !ready.empty() && !is_down_; ++sent) {
    const auto chosen = std::next(ready.begin(), static_cast<ptrdiff_t>(any_of(ready.size())));
    SoftQp& qp = **chosen;
    Send* const send = choose_send(qp);
    if (send == nullptr || !send_packet(qp, *send)) ready.erase(chosen);
  }
}

// RC: the next.  SRD: any of the next few.
Send* SoftNic::choose_send(SoftQp& qp) {
  if (qp.state() != IBV_QPS_RTS) return nullptr;
  std::vector<Send*> open;
  const size_t most = std::min(qp.sends.size(), kMostUnanswered);
  for (size_t i = 0; i < most; ++i) {
    Send& send = qp.sends[i];
    if (!send.has_left && !send.is_answered) open.push_back(&send);
  }
  if (open.empty()) return nullptr;
  return qp.kind == QpKind::kRc ? open.front() : open[any_of(open.size())];
}

// False if the peer takes nothing now.
bool SoftNic::send_packet(SoftQp& qp, Send& send) {
  const auto fail = [&](ibv_wc_status status) {
    send.is_answered = true;
    send.status = status;
    return true;
  };
  const auto mr = memory_.find(send.lkey);
  if (send.bytes > 0 &&
      (mr == memory_.end() || !mr->second->covers(reinterpret_cast<uint64_t>(send.from), send.bytes))) {
    return fail(IBV_WC_LOC_PROT_ERR);
  }
  PacketHead head;
  head.from = gid_;
  head.from_qp = qp.number();
  head.to_qp = send.to_qp;
  head.queue_key = send.queue_key;
  head.message = send.message;
  head.opcode = send.opcode;
  head.immediate = send.immediate;
  head.address = send.to;
  head.key = send.rkey;
  head.no_room_tries = qp.no_room_tries;
  head.message_bytes = send.bytes;
  head.offset = send.next;
  const uint64_t bytes = std::min(send.packet_bytes, send.bytes - send.next);
  const std::byte* const from =
      send.bytes == 0 ? nullptr : mr->second->at(reinterpret_cast<uint64_t>(send.from) + send.next);
  switch (wire_.send(send.gid, head, from, bytes)) {
    case Carried::kNotNow: return false;
    case Carried::kNobodyThere: return fail(IBV_WC_RETRY_EXC_ERR);
    case Carried::kYes: break;
  }
  send.next += bytes;
  send.has_left = send.next == send.bytes;
  if (++num_sent_ == settings_.down_after) go_down();
  return true;
}

void SoftNic::end_send(SoftQp& qp, uint64_t message, ibv_wc_status status) {
  const auto is_it = [&](const Send& send) { return send.message == message && !send.is_answered; };
  const auto found = std::ranges::find_if(qp.sends, is_it);
  if (found == qp.sends.end()) return;
  found->is_answered = true;
  found->status = status;
}

// RC: in order, and only those that are to be told; an error is the end.  SRD: in any order, each.
void SoftNic::tell_sends(SoftQp& qp) {
  while (qp.state() == IBV_QPS_RTS && !qp.sends.empty() && !by_chance(4)) {
    const size_t first = qp.kind == QpKind::kRc ? 0 : any_of(std::min(qp.sends.size(), kMostUnanswered));
    auto send = qp.sends.begin() + static_cast<ptrdiff_t>(first);
    if (qp.kind == QpKind::kSrd) send = std::find_if(send, qp.sends.end(), [](const Send& s) { return s.is_answered; });
    if (send == qp.sends.end() || !send->is_answered) return;
    ibv_wc completion{};
    completion.wr_id = send->id;
    completion.status = send->status;
    completion.opcode = completed_as(send->opcode);
    completion.qp_num = qp.number();
    const bool is_told = send->is_signalled || send->status != IBV_WC_SUCCESS;
    qp.sends.erase(send);
    ++qp.num_unclaimed;
    if (!is_told) continue;
    complete(qp.base.qp_base.send_cq, completion, std::exchange(qp.num_unclaimed, 0));
    if (completion.status != IBV_WC_SUCCESS && qp.kind == QpKind::kRc) stop(qp);
  }
}

// A peer that died with messages in its hands answers none of them.
void SoftNic::probe() {
  PacketHead head;
  head.kind = PacketKind::kProbe;
  for (const auto& [number, qp] : qps_) {
    for (Send& send : qp->sends) {
      if (send.is_answered || !send.has_left) continue;
      if (wire_.send(send.gid, head, nullptr, 0) != Carried::kNobodyThere) break;
      end_send(*qp, send.message, IBV_WC_RETRY_EXC_ERR);
    }
  }
}

void SoftNic::flush_outbox() {
  while (!outbox_.empty()) {
    const auto& [to, head] = outbox_.front();
    if (wire_.send(to, head, nullptr, 0) == Carried::kNotNow) return;
    outbox_.pop_front();
  }
}

}  // namespace mk::test::soft
