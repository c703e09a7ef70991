// SPDX-License-Identifier: MIT
// bench/moment.h — a moment of a stream, and the time between two of them.
#pragma once

#include "base/cuda_api.h"

namespace mk::bench {

class Moment {
 public:
  Moment() { check_cuda(cudaEventCreate(&event_), "create an event"); }
  Moment(const Moment&) = delete;
  ~Moment() { cudaEventDestroy(event_); }

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "record an event"); }
  void hold(cudaStream_t stream) const { check_cuda(cudaStreamWaitEvent(stream, event_, 0), "wait for an event"); }
  void wait() const { check_cuda(cudaEventSynchronize(event_), "wait for a product"); }
  double us_since(const Moment& before) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, before.event_, event_), "read a time");
    return milliseconds * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mk::bench
