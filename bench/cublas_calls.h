// SPDX-License-Identifier: MIT
// bench/cublas_calls.h — cublasLt, and of cuBLAS products in groups, loaded when they are first needed.
//
// Nothing links against it: it takes a tenth of a second to load, and a machine that runs no benchmark needs
// none.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace mk::bench {

struct CublasApi {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmulDescCreate) product_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) product_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) product_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
};

// Throws Error(kUnavailable) that says what to install.
const CublasApi& cublas();

// Of cuBLAS itself.
struct CublasGroupsApi {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGemmGroupedBatchedEx) multiply = nullptr;
};
const CublasGroupsApi& cublas_groups();

// Throws Error(kDevice) with what was attempted and what cuBLAS said.
void check_cublas(cublasStatus_t status, const char* attempted);

}  // namespace mk::bench
