// SPDX-License-Identifier: MIT
// bench/cublas_calls.cc — see cublas_calls.h.
#include "bench/cublas_calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "mkernel/error.h"

namespace mk::bench {
namespace {

// The library of the headers this was compiled with, in the toolkit's folder (the program's run path) or
// wherever the system has it.
void* open_library(const char* kind) {
  const std::string name = fmt::format("lib{}.so.{}", kind, CUBLAS_VER_MAJOR);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{} is missing; install cuBLAS {} (of the CUDA toolkit)", name, CUBLAS_VER_MAJOR));
}

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  void* const found = dlsym(library, name);
  if (found == nullptr) throw Error(ErrorCode::kUnavailable, fmt::format("the cuBLAS found here has no {}", name));
  function = reinterpret_cast<Function>(found);
}

CublasApi load() {
  void* const library = open_library("cublasLt");
  CublasApi api;
  look_up(library, "cublasLtCreate", api.create);
  look_up(library, "cublasLtDestroy", api.destroy);
  look_up(library, "cublasLtGetStatusString", api.status_string);
  look_up(library, "cublasLtMatmulDescCreate", api.product_create);
  look_up(library, "cublasLtMatmulDescDestroy", api.product_destroy);
  look_up(library, "cublasLtMatmulDescSetAttribute", api.product_set);
  look_up(library, "cublasLtMatrixLayoutCreate", api.layout_create);
  look_up(library, "cublasLtMatrixLayoutDestroy", api.layout_destroy);
  look_up(library, "cublasLtMatrixLayoutSetAttribute", api.layout_set);
  look_up(library, "cublasLtMatmulPreferenceCreate", api.preference_create);
  look_up(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  look_up(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  look_up(library, "cublasLtMatmulAlgoGetHeuristic", api.heuristic);
  look_up(library, "cublasLtMatmul", api.multiply);
  return api;
}

CublasGroupsApi load_groups() {
  void* const library = open_library("cublas");
  CublasGroupsApi api;
  look_up(library, "cublasCreate_v2", api.create);
  look_up(library, "cublasDestroy_v2", api.destroy);
  look_up(library, "cublasSetStream_v2", api.set_stream);
  look_up(library, "cublasSetWorkspace_v2", api.set_workspace);
  look_up(library, "cublasGemmGroupedBatchedEx", api.multiply);
  return api;
}

}  // namespace

const CublasApi& cublas() {
  static const CublasApi api = load();
  return api;
}

const CublasGroupsApi& cublas_groups() {
  static const CublasGroupsApi api = load_groups();
  return api;
}

void check_cublas(cublasStatus_t status, const char* attempted) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::kDevice, fmt::format("cuBLAS could not {}: {}", attempted, cublas().status_string(status)));
}

}  // namespace mk::bench
