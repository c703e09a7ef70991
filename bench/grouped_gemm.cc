// SPDX-License-Identifier: MIT
// bench/grouped_gemm.cc — see grouped_gemm.h.
#include "bench/grouped_gemm.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "bench/moment.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

constexpr size_t kWorkspaceBytes = 64 << 20;
constexpr int kTrials = 5;

// Experts have about as many rows each: what is best for one is taken for all of nearly its height.
int64_t tuned_height(int64_t rows) {
  int64_t unit = 1;
  while (rows / unit >= 16) unit *= 2;
  return rows / unit * unit;
}

// Null where this machine has no such library.
cublasHandle_t make_handle() {
  cublasHandle_t handle = nullptr;
  try {
    check_cublas(cublas_groups().create(&handle), "start");
  } catch (const Error&) {
    return nullptr;
  }
  return handle;
}

}  // namespace

GroupedGemm::GroupedGemm(runtime::Device& device, DType dtype, BOrder order, int64_t n, int64_t k, int num_lanes)
    : device_(device),
      type_(dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_16F),
      order_(order),
      n_(n),
      k_(k),
      gemm_(device, dtype, num_lanes * kBranches, order, Reductions::kInFp32),
      grouped_(make_handle()) {
  try {
    for (int lane = 0; lane < num_lanes; ++lane) workspaces_.emplace_back(device, kWorkspaceBytes);
    for (int branch = 0; branch < kBranches; ++branch) {
      check_cuda(cudaStreamCreateWithFlags(&branches_.emplace_back(), cudaStreamNonBlocking), "create a stream");
    }
  } catch (...) {
    release();
    throw;
  }
}

GroupedGemm::~GroupedGemm() { release(); }

void GroupedGemm::release() noexcept {
  for (const Prepared& one : prepared_) {
    if (one.graph != nullptr) cudaGraphExecDestroy(one.graph);
  }
  for (const cudaStream_t stream : branches_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  if (grouped_ != nullptr) cublas_groups().destroy(grouped_);
}

template <class Queue>
cudaGraphExec_t GroupedGemm::captured(Queue&& queue) const {
  check_cuda(cudaStreamBeginCapture(branches_[0], cudaStreamCaptureModeRelaxed), "begin a graph");
  bool is_queued = false;
  try {
    is_queued = queue();
  } catch (const Error&) {
    is_queued = false;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  if (cudaStreamEndCapture(branches_[0], &graph) == cudaSuccess && is_queued) {
    if (cudaGraphInstantiate(&made, graph, 0) != cudaSuccess) made = nullptr;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // a way that cannot be captured is no error
  return made;
}

cudaGraphExec_t GroupedGemm::capture_each(const Prepared& one, int num_branches) const {
  const int used = static_cast<int>(std::min<size_t>(num_branches, one.groups.size()));
  std::array<Moment, kBranches> moments;
  return captured([&] {
    moments[0].record(branches_[0]);
    for (int branch = 1; branch < used; ++branch) moments[0].hold(branches_[branch]);
    for (size_t i = 0; i < one.groups.size(); ++i) {
      const int branch = static_cast<int>(i) % used;
      gemm_.run(shape_of(one.groups[i].rows), one.groups[i].of, one.lane * kBranches + branch, branches_[branch]);
    }
    for (int branch = 1; branch < used; ++branch) {
      moments[branch].record(branches_[branch]);
      moments[branch].hold(branches_[0]);
    }
    return true;
  });
}

cudaGraphExec_t GroupedGemm::capture_grouped(Prepared& one) const {
  if (grouped_ == nullptr) return nullptr;
  std::vector<const void*> pointers;
  for (const GemmGroup& group : one.groups) pointers.push_back(group.of.a);
  for (const GemmGroup& group : one.groups) pointers.push_back(group.of.b);
  for (const GemmGroup& group : one.groups) pointers.push_back(group.of.c);
  one.pointers = runtime::Buffer(device_, pointers.size() * sizeof(pointers[0]));
  device_.upload(one.pointers.as(), pointers.data(), one.pointers.bytes());
  return captured([&] { return call_grouped(one, branches_[0]); });
}

// cuBLAS is column-major: row-major C = A·B is Cᵀ = Bᵀ·Aᵀ, so its first operand is our B.
bool GroupedGemm::call_grouped(const Prepared& one, cudaStream_t stream) const {
  const size_t count = one.groups.size();
  const bool is_kn = order_ == BOrder::kKN;
  const std::vector<cublasOperation_t> first_op(count, is_kn ? CUBLAS_OP_N : CUBLAS_OP_T);
  const std::vector<cublasOperation_t> second_op(count, CUBLAS_OP_N);
  const std::vector<int> m(count, static_cast<int>(n_));
  std::vector<int> n;
  for (const GemmGroup& group : one.groups) n.push_back(static_cast<int>(group.rows));
  const std::vector<int> k(count, static_cast<int>(k_));
  const std::vector<int> first_stride(count, static_cast<int>(is_kn ? n_ : k_));
  const std::vector<int> sizes(count, 1);
  const std::vector<float> ones(count, 1);
  const std::vector<float> zeros(count, 0);
  const auto* const a = one.pointers.as<const void*>();
  if (cublas_groups().set_stream(grouped_, stream) != CUBLAS_STATUS_SUCCESS) return false;
  const runtime::Buffer& workspace = workspaces_[one.lane];
  if (cublas_groups().set_workspace(grouped_, workspace.as<void>(), kWorkspaceBytes) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  return cublas_groups().multiply(grouped_, first_op.data(), second_op.data(), m.data(), n.data(), k.data(),
                                  ones.data(), a + count, type_, first_stride.data(), a, type_, k.data(), zeros.data(),
                                  const_cast<void* const*>(a + 2 * count), type_, m.data(), static_cast<int>(count),
                                  sizes.data(), CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_SUCCESS;
}

// The median of a few, after one that loads kernels.
template <class Queue>
double GroupedGemm::time_us(Queue&& queue, cudaStream_t stream) {
  queue();
  std::array<Moment, kTrials + 1> moments;
  moments[0].record(stream);
  for (int trial = 1; trial <= kTrials; ++trial) {
    queue();
    moments[trial].record(stream);
  }
  moments.back().wait();
  std::array<double, kTrials> times{};
  for (int trial = 0; trial < kTrials; ++trial) times[trial] = moments[trial + 1].us_since(moments[trial]);
  std::ranges::nth_element(times, times.begin() + kTrials / 2);
  return times[kTrials / 2];
}

int GroupedGemm::prepare(const std::vector<GemmGroup>& groups, int lane, cudaStream_t stream) {
  Prepared& one = prepared_.emplace_back();
  one.groups = groups;
  one.lane = lane;
  const int number = static_cast<int>(prepared_.size()) - 1;
  if (groups.empty()) return number;
  for (const GemmGroup& group : groups) {
    gemm_.prepare_like(shape_of(group.rows), shape_of(tuned_height(group.rows)), {&group.of, 1}, stream);
  }
  double best_us = std::numeric_limits<double>::infinity();
  const auto try_out = [&](cudaGraphExec_t graph) {
    if (graph == nullptr) return;
    const double us = time_us([&] { check_cuda(cudaGraphLaunch(graph, stream), "launch a graph"); }, stream);
    cudaGraphExec_t slower = graph;
    if (us < best_us) {
      best_us = us;
      slower = std::exchange(one.graph, graph);
    }
    if (slower != nullptr) cudaGraphExecDestroy(slower);
  };
  try_out(capture_each(one, 1));
  if (groups.size() > 1) try_out(capture_each(one, kBranches));
  try_out(capture_grouped(one));
  if (one.graph == nullptr) throw Error(ErrorCode::kDevice, "no product of cuBLAS can be captured in a CUDA graph");
  return number;
}

void GroupedGemm::run(int number, cudaStream_t stream) const {
  const Prepared& one = prepared_[number];
  if (one.graph != nullptr) check_cuda(cudaGraphLaunch(one.graph, stream), "launch a graph");
}

}  // namespace mk::bench
