// SPDX-License-Identifier: MIT
// transport/rdma_lane.h — one queue pair to a peer, with what is under way on it and room for what arrives.
//
// Messages wait until flush, which hands all of them over with one doorbell.  Each belongs to a put of the sender;
// when it completes, the put's number comes back.  Records lie in memory of the lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/rdma_memory.h"
#include "transport/rdma_message.h"
#include "transport/rdma_queue.h"

namespace mk {

class RdmaLane {
 public:
  // A message that is no put's.
  static constexpr uint32_t kNoPut = UINT32_MAX;
  // Beyond the depth, for a goodbye.
  static constexpr int kReserve = 1;
  static RdmaDepths depths(int depth) { return {depth + kReserve, 2 * depth}; }
  // The greatest depth of queue pairs that hold so many messages each way.
  static int most_depth(int messages) { return std::min(messages - kReserve, messages / 2); }

  // Receives from here on.  Throws Error.
  RdmaLane(std::unique_ptr<RdmaQueue> queue, int device_idx, int depth);

  RdmaQueue& queue() const { return *queue_; }
  int device_idx() const { return device_idx_; }

  // From now on at most so many messages are under way: a peer with less room would be sent the others again and again.
  void limit(int depth) { depth_ = std::min(depth_, depth); }

  int room() const { return depth_ - static_cast<int>(head_ - tail_); }
  uint64_t bytes_under_way() const { return bytes_; }
  bool is_idle() const { return head_ == tail_; }

  void write(const RdmaPost& post, uint32_t put);
  // Takes a place of the reserve, if it must.
  void send(const RdmaRecord& record, uint32_t put);

  // 0, or errno.
  int flush();

  // The messages that a completion with this id speaks of: appends their puts' numbers.
  void complete(uint64_t id, std::vector<uint32_t>& puts);

  // Whose message that was.
  uint32_t put_of(uint64_t id) const { return sent_[id % sent_.size()].put; }

  // Receives have this bit in their ids: of a message that failed a completion tells nothing but its id.
  static constexpr uint64_t kReceiveBit = uint64_t{1} << 63;
  // The record that came into the receive of this id; its place is free again after replenish.
  const RdmaRecord& received(uint64_t id) const { return records_[sent_.size() + (id & ~kReceiveBit)]; }
  void take_back(uint64_t id) { free_receives_.push_back(id); }
  int replenish();

 private:
  struct Sent {
    RdmaPost post;
    uint32_t put = kNoPut;
    bool is_done = false;
  };
  void add(const RdmaPost& post, uint32_t put);
  void finish(Sent& sent, std::vector<uint32_t>& puts);

  int device_idx_;
  int depth_;
  std::vector<Sent> sent_;           // [id % size], from tail_ to head_
  std::vector<RdmaRecord> records_;  // one for each of sent_, then one for each receive
  RdmaMemory memory_;                // of records_
  uint64_t head_ = 0;                // the next id
  uint64_t tail_ = 0;                // all before are done
  uint64_t unflushed_ = 0;           // of the last ids
  uint64_t bytes_ = 0;
  std::vector<RdmaPost> batch_;  // flush's scratch
  std::vector<uint64_t> free_receives_;
  std::vector<ibv_recv_wr> receives_;  // replenish's scratch
  std::vector<ibv_sge> pieces_;
  std::unique_ptr<RdmaQueue> queue_;  // goes before the memory it may write to
};

}  // namespace mk
