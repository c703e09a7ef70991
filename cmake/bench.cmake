# SPDX-License-Identifier: MIT
# Looks for cuBLAS, beside which the benchmarks run; it is loaded when they do.  Sets MKERNEL_HAS_BENCH.
set(MKERNEL_HAS_BENCH OFF)
if(MKERNEL_HAS_CUDA)
  if(TARGET CUDA::cublasLt)
    set(MKERNEL_HAS_BENCH ON)
  else()
    message(STATUS "mKernel: benchmarks left out: the CUDA toolkit has no cublasLt")
  endif()
endif()
