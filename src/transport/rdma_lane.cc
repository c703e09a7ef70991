// SPDX-License-Identifier: MIT
// transport/rdma_lane.cc — see rdma_lane.h.
#include "transport/rdma_lane.h"

namespace mk {
namespace {

// Of messages that complete in order, one in so many says so, and the last of a batch.
constexpr uint64_t kSignalEvery = 16;

}  // namespace

RdmaLane::RdmaLane(std::unique_ptr<RdmaQueue> queue, int device_idx, int depth)
    : device_idx_(device_idx),
      depth_(depth),
      sent_(depths(depth).sends),
      records_(depths(depth).sends + depths(depth).receives),
      queue_(std::move(queue)) {
  memory_ = register_memory(queue_->device(), reinterpret_cast<std::byte*>(records_.data()),
                            records_.size() * sizeof(RdmaRecord), MemoryOrdering::kStrict);
  for (int i = 0; i < depths(depth).receives; ++i) take_back(kReceiveBit | static_cast<uint64_t>(i));
  if (const int error = replenish(); error != 0) {
    throw_rdma("nothing can be received on " + queue_->device().name(), error);
  }
}

void RdmaLane::write(const RdmaPost& post, uint32_t put) { add(post, put); }

void RdmaLane::send(const RdmaRecord& record, uint32_t put) {
  RdmaRecord& place = records_[head_ % sent_.size()];
  place = record;
  RdmaPost post;
  post.kind = RdmaPost::Kind::kSend;
  post.bytes = sizeof(record);
  post.from = reinterpret_cast<const std::byte*>(&place);
  post.lkey = memory_.lkey();
  add(post, put);
}

void RdmaLane::add(const RdmaPost& post, uint32_t put) {
  Sent& sent = sent_[head_ % sent_.size()];
  sent = {post, put, false};
  sent.post.id = head_++;
  sent.post.is_signalled = !queue_->is_ordered() || head_ % kSignalEvery == 0;
  bytes_ += post.bytes;
  ++unflushed_;
}

int RdmaLane::flush() {
  if (unflushed_ == 0) return 0;
  batch_.clear();
  for (uint64_t id = head_ - unflushed_; id != head_; ++id) batch_.push_back(sent_[id % sent_.size()].post);
  batch_.back().is_signalled = true;
  unflushed_ = 0;
  return queue_->post(batch_);
}

void RdmaLane::complete(uint64_t id, std::vector<uint32_t>& puts) {
  if (queue_->is_ordered()) {
    for (uint64_t done = tail_; done <= id; ++done) finish(sent_[done % sent_.size()], puts);
  } else {
    finish(sent_[id % sent_.size()], puts);
  }
  while (tail_ != head_ && sent_[tail_ % sent_.size()].is_done) ++tail_;
}

void RdmaLane::finish(Sent& sent, std::vector<uint32_t>& puts) {
  sent.is_done = true;
  bytes_ -= sent.post.bytes;
  if (sent.put != kNoPut) puts.push_back(sent.put);
}

int RdmaLane::replenish() {
  if (free_receives_.empty()) return 0;
  receives_.assign(free_receives_.size(), {});
  pieces_.resize(free_receives_.size());
  for (size_t i = 0; i < free_receives_.size(); ++i) {
    const RdmaRecord& place = received(free_receives_[i]);
    pieces_[i] = {reinterpret_cast<uintptr_t>(&place), sizeof(place), memory_.lkey()};
    receives_[i].wr_id = free_receives_[i];
    receives_[i].next = i + 1 < receives_.size() ? &receives_[i + 1] : nullptr;
    receives_[i].sg_list = &pieces_[i];
    receives_[i].num_sge = 1;
  }
  free_receives_.clear();
  return queue_->post_receives(receives_.data());
}

}  // namespace mk
