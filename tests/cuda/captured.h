// SPDX-License-Identifier: MIT
// tests/cuda/captured.h — a CUDA graph of a World's launches.
#pragma once

#include <cuda_runtime.h>

#include "base/cuda_api.h"
#include "mkernel/world.h"

namespace mk::test {

struct OwnStream {
  OwnStream() { check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream"); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

// Captures call() on every stream of the World, and replays it.
class Captured {
 public:
  template <class Call>
  Captured(World& world, Call&& call) : world_(world) {
    call();  // makes the plan
    world.synchronize();
    cudaGraph_t graph = nullptr;
    // Global mode: not even the proxies' CUDA calls on other threads may disturb the capture.
    check_cuda(cudaStreamBeginCapture(own_.stream, cudaStreamCaptureModeGlobal), "begin a capture");
    world.fork(own_.stream);
    call();
    world.join(own_.stream);
    check_cuda(cudaStreamEndCapture(own_.stream, &graph), "end a capture");
    const cudaError_t made = cudaGraphInstantiate(&runnable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(made, "instantiate a graph");
  }
  Captured(const Captured&) = delete;
  ~Captured() { cudaGraphExecDestroy(runnable_); }

  void replay() {
    check_cuda(cudaGraphLaunch(runnable_, own_.stream), "launch a graph");
    world_.synchronize();
  }

 private:
  World& world_;
  const OwnStream own_;
  cudaGraphExec_t runnable_ = nullptr;
};

}  // namespace mk::test
