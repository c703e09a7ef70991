// SPDX-License-Identifier: MIT
// bench/pacer.h — a thread that keeps the time of the links of host-driven transfers.
//
// A stream says that bytes are ready by writing a word; the thread reserves the link's time for them and
// counts the transfer as over when that has passed; the stream that copies waits for the count.  Several
// queues may share a link; a queue belongs to one copying stream.  All of it
// is stream memory operations: a timer kernel would need an SM, and behind a GEMM that holds them all it
// would start too late and slow the baseline down.
//
// Words and counts only grow: nothing is reset between runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/cuda_api.h"
#include "runtime/device.h"

namespace mk::bench {

class Pacer {
 public:
  // One rate a link.  Queue q belongs to link q / queues_per_link.
  Pacer(runtime::Device& device, std::vector<double> ns_per_byte, int queues_per_link);
  Pacer(const Pacer&) = delete;
  ~Pacer();

  // Between runs, when no stream writes or waits: words may be used again.
  void begin_run();

  // Queues on `stream` that everything before it is done; gives the word that says so.
  uint32_t mark(cudaStream_t stream);

  // Announces a transfer that is ready with `word`; gives its number, which pass waits for.
  uint64_t announce(int queue, uint32_t word, uint64_t bytes);

  // Queues on `stream` a wait until the link has carried the transfer.
  void pass(int queue, uint64_t number, cudaStream_t stream);

 private:
  struct Transfer {
    uint32_t word;
    uint64_t run;
    uint64_t bytes;
  };
  // The host announces, the thread follows.
  struct Queue {
    std::vector<Transfer> transfers = std::vector<Transfer>(kMostInRun);  // by number, wrapped
    std::atomic<uint64_t> announced{0};
  };

  static constexpr uint64_t kMostInRun = 1024;
  static constexpr uint32_t kWords = 4096;

  void follow_links();

  std::vector<double> ns_per_byte_;
  int queues_per_link_;
  std::vector<Queue> queues_;
  runtime::Buffer words_;   // [kWords]: the last run in which the word's point was reached
  runtime::Buffer counts_;  // [queue]: transfers that are over
  uint64_t run_ = 0;
  uint32_t next_word_ = 0;
  std::atomic<bool> quit_{false};
  std::thread thread_;
};

}  // namespace mk::bench
