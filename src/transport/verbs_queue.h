// SPDX-License-Identifier: MIT
// transport/verbs_queue.h — a reliable connection (RC) of libibverbs to one peer.
#pragma once

#include <vector>

#include "transport/rdma_queue.h"

namespace mk {

class VerbsQueue : public RdmaQueue {
 public:
  VerbsQueue(const RdmaDevice& device, const RdmaSettings& settings, const RdmaDepths& depths);

  bool is_ordered() const override { return true; }
  void connect(const RdmaQueueAddress& peer) override;
  int post(std::span<const RdmaPost> posts) override;

 private:
  void make_ready_to_receive(const RdmaQueueAddress& peer);
  void make_ready_to_send();

  RdmaSettings settings_;
  std::vector<ibv_send_wr> requests_;  // post's scratch
  std::vector<ibv_sge> pieces_;
};

}  // namespace mk
