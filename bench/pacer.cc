// SPDX-License-Identifier: MIT
// bench/pacer.cc — see pacer.h.
#include "bench/pacer.h"

#include <utility>

#include "base/atomics.h"
#include "bench/host_clock.h"
#include "bench/link_clock.h"
#include "mkernel/error.h"
#include "transport/start_thread.h"

namespace mk::bench {
namespace {

CUdeviceptr address(const uint64_t* word) { return reinterpret_cast<CUdeviceptr>(word); }

}  // namespace

Pacer::Pacer(runtime::Device& device, std::vector<double> ns_per_byte, int queues_per_link)
    : ns_per_byte_(std::move(ns_per_byte)),
      queues_per_link_(queues_per_link),
      queues_(ns_per_byte_.size() * queues_per_link),
      words_(device, kWords * sizeof(uint64_t), runtime::Buffer::Kind::kShared),
      counts_(device, queues_.size() * sizeof(uint64_t), runtime::Buffer::Kind::kShared),
      thread_(start_thread("the pacer of a link", [this] { follow_links(); })) {}

Pacer::~Pacer() {
  quit_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Pacer::begin_run() {
  ++run_;
  next_word_ = 0;
}

uint32_t Pacer::mark(cudaStream_t stream) {
  if (next_word_ == kWords) throw Error(ErrorCode::kDevice, "a run has more marks than the pacer has words");
  const uint32_t word = next_word_++;
  check_cuda(
      cuda_driver().write_value(stream, address(words_.as<uint64_t>() + word), run_, CU_STREAM_WRITE_VALUE_DEFAULT),
      "mark a stream");
  return word;
}

uint64_t Pacer::announce(int queue, uint32_t word, uint64_t bytes) {
  Queue& to = queues_[queue];
  const uint64_t number = to.announced.load(std::memory_order_relaxed);
  const uint64_t over = HostAtomics::load_acquire(counts_.as<uint64_t>() + queue);
  if (number - over >= kMostInRun) throw Error(ErrorCode::kDevice, "a run has more transfers than a queue holds");
  to.transfers[number % kMostInRun] = {word, run_, bytes};
  to.announced.store(number + 1, std::memory_order_release);  // pairs with follow_links
  return number;
}

void Pacer::pass(int queue, uint64_t number, cudaStream_t stream) {
  check_cuda(
      cuda_driver().wait_value(stream, address(counts_.as<uint64_t>() + queue), number + 1, CU_STREAM_WAIT_VALUE_GEQ),
      "wait for a paced link");
}

void Pacer::follow_links() {
  std::vector<LinkClock> links(ns_per_byte_.begin(), ns_per_byte_.end());
  std::vector<LinkQueue> lines(queues_.size());
  std::vector<uint64_t> told(queues_.size(), 0);
  while (!quit_.load(std::memory_order_relaxed)) {
    for (size_t queue = 0; queue < queues_.size(); ++queue) {
      LinkQueue& line = lines[queue];
      while (line.taken() < queues_[queue].announced.load(std::memory_order_acquire)) {
        const Transfer& next = queues_[queue].transfers[line.taken() % kMostInRun];
        if (HostAtomics::load_acquire(words_.as<uint64_t>() + next.word) < next.run) break;
        line.take(links[queue / queues_per_link_], host_now_ns(), next.bytes);
      }
      if (told[queue] == line.taken()) continue;
      const uint64_t over = line.over(host_now_ns());
      if (over == told[queue]) continue;
      told[queue] = over;
      HostAtomics::store_release(counts_.as<uint64_t>() + queue, over);  // pairs with pass
    }
  }
}

}  // namespace mk::bench
