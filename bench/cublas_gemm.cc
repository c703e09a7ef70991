// SPDX-License-Identifier: MIT
// bench/cublas_gemm.cc — see cublas_gemm.h.
#include "bench/cublas_gemm.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "bench/cublas_calls.h"
#include "bench/moment.h"
#include "mkernel/error.h"

namespace mk::bench {
namespace {

constexpr size_t kWorkspaceBytes = 64 << 20;  // lets every heuristic compete
constexpr int kCandidates = 8;
constexpr int kTrials = 9;
constexpr double kNever = std::numeric_limits<double>::infinity();

cublasLtMatrixLayout_t make_layout(cudaDataType type, int64_t rows, int64_t cols, int32_t batch, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublas().layout_create(&layout, type, rows, cols, rows), "describe a matrix");
  check_cublas(cublas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
               "describe a batch");
  check_cublas(cublas().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
               "describe a batch");
  return layout;
}

}  // namespace

CublasGemm::CublasGemm(runtime::Device& device, DType dtype, int num_lanes, BOrder order, Reductions reductions)
    : type_(dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_16F), order_(order), reductions_(reductions) {
  check_cublas(cublas().create(&handle_), "start");
  check_cublas(cublas().product_create(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
  const cublasOperation_t transpose = order == BOrder::kNK ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_cublas(cublas().product_set(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)),
               "describe a product");
  for (int lane = 0; lane < num_lanes; ++lane) workspaces_.emplace_back(device, kWorkspaceBytes);
}

CublasGemm::~CublasGemm() {
  for (const auto& [shape, plan] : plans_) destroy(plan);
  if (product_ != nullptr) cublas().product_destroy(product_);
  if (handle_ != nullptr) cublas().destroy(handle_);
}

void CublasGemm::destroy(const Plan& plan) {
  for (const cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
    if (layout != nullptr) cublas().layout_destroy(layout);
  }
}

// cuBLAS is column-major: row-major C = A·B is Cᵀ = Bᵀ·Aᵀ, so its first operand is our B.
void CublasGemm::describe(const GemmShape& shape, Plan& plan) const {
  const bool is_kn = order_ == BOrder::kKN;
  plan.a = make_layout(type_, is_kn ? shape.n : shape.k, is_kn ? shape.k : shape.n, shape.batch, 0);
  plan.b = make_layout(type_, shape.k, shape.m, shape.batch, shape.a_stride);
  plan.c = make_layout(type_, shape.n, shape.m, shape.batch, shape.c_stride);
}

// Operands begin at a row of memory from cudaMalloc, which is aligned to 256 bytes.
std::vector<cublasLtMatmulAlgo_t> CublasGemm::candidates(const GemmShape& shape, const Plan& plan) const {
  const auto alignment_of_rows = [](int64_t elements) { return static_cast<uint32_t>(std::gcd(256, 2 * elements)); };
  const uint32_t a_bytes = alignment_of_rows(shape.k);
  const uint32_t c_bytes = alignment_of_rows(shape.n);
  cublasLtMatmulPreference_t preference = nullptr;
  check_cublas(cublas().preference_create(&preference), "state a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    cublas().preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_bytes);
  if (reductions_ == Reductions::kInFp32) {
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  }
  cublasLtMatmulHeuristicResult_t found[kCandidates] = {};
  int num_found = 0;
  const cublasStatus_t status =
      cublas().heuristic(handle_, product_, plan.a, plan.b, plan.c, plan.c, preference, kCandidates, found, &num_found);
  cublas().preference_destroy(preference);
  check_cublas(status, "find an algorithm");
  std::vector<cublasLtMatmulAlgo_t> usable;
  for (int i = 0; i < num_found; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) usable.push_back(found[i].algo);
  }
  if (usable.empty()) throw Error(ErrorCode::kDevice, "cuBLAS has no algorithm for this shape");
  return usable;
}

cublasStatus_t CublasGemm::launch(const Plan& plan, const GemmOperands& operands, int lane, cudaStream_t stream) const {
  const float one = 1;
  const float zero = 0;
  return cublas().multiply(handle_, product_, &one, operands.b, plan.a, operands.a, plan.b, &zero, operands.c, plan.c,
                           operands.c, plan.c, &plan.algo, workspaces_[lane].as<void>(), kWorkspaceBytes, stream);
}

// The median of a few, after one that loads the kernel.  They are queued without a pause, as they will be when it
// counts.  kNever if cuBLAS refuses what it offered.
double CublasGemm::time_us(const Plan& plan, std::span<const GemmOperands> sets, cudaStream_t stream) const {
  if (launch(plan, sets[0], 0, stream) != CUBLAS_STATUS_SUCCESS) return kNever;
  std::array<Moment, kTrials + 1> moments;
  moments[0].record(stream);
  for (int trial = 1; trial <= kTrials; ++trial) {
    check_cublas(launch(plan, sets[trial % sets.size()], 0, stream), "multiply");
    moments[trial].record(stream);
  }
  moments.back().wait();
  std::array<double, kTrials> times{};
  for (int trial = 0; trial < kTrials; ++trial) times[trial] = moments[trial + 1].us_since(moments[trial]);
  std::ranges::nth_element(times, times.begin() + kTrials / 2);
  return times[kTrials / 2];
}

void CublasGemm::prepare(const GemmShape& shape, std::span<const GemmOperands> sets, cudaStream_t stream) {
  const auto [entry, fresh] = plans_.try_emplace(shape);
  if (!fresh) return;
  Plan& plan = entry->second;
  describe(shape, plan);
  cublasLtMatmulAlgo_t best{};
  double best_us = kNever;
  for (const cublasLtMatmulAlgo_t& algo : candidates(shape, plan)) {
    plan.algo = algo;
    const double us = time_us(plan, sets, stream);
    if (us < best_us) {
      best_us = us;
      best = algo;
    }
  }
  if (best_us == kNever) throw Error(ErrorCode::kDevice, "cuBLAS could not run any algorithm it has for this shape");
  plan.algo = best;
}

void CublasGemm::prepare_like(const GemmShape& shape, const GemmShape& tuned, std::span<const GemmOperands> sets,
                              cudaStream_t stream) {
  prepare(tuned, sets, stream);
  const auto [entry, fresh] = plans_.try_emplace(shape);
  if (!fresh) return;
  Plan& plan = entry->second;
  describe(shape, plan);
  plan.algo = plans_.at(tuned).algo;
  if (launch(plan, sets[0], 0, stream) == CUBLAS_STATUS_SUCCESS) return;
  const Plan refused = plan;
  plans_.erase(entry);
  destroy(refused);
  prepare(shape, sets, stream);
}

void CublasGemm::run(const GemmShape& shape, const GemmOperands& operands, int lane, cudaStream_t stream) const {
  const auto found = plans_.find(shape);
  if (found == plans_.end()) throw Error(ErrorCode::kDevice, "a product's shape was not prepared");
  check_cublas(launch(found->second, operands, lane, stream), "multiply");
}

}  // namespace mk::bench
