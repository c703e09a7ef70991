# SPDX-License-Identifier: MIT
# Looks for a CUDA compiler of at least 12.8 and says in one line what was found.
#
# Sets MKERNEL_HAS_CUDA.  Only compute_90a is built: wgmma and setmaxnreg exist there alone.
set(MKERNEL_HAS_CUDA OFF)
set(mkernel_how "install a CUDA toolkit 12.8 or newer, with nvcc on PATH or in /usr/local/cuda")
if(NOT MKERNEL_CUDA)
  message(STATUS "mKernel: GPU part left out (MKERNEL_CUDA=OFF)")
else()
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(mkernel_nvcc nvcc HINTS /usr/local/cuda/bin)
    if(mkernel_nvcc)
      set(CMAKE_CUDA_COMPILER ${mkernel_nvcc})
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      find_package(CUDAToolkit REQUIRED)
      set(MKERNEL_HAS_CUDA ON)
      set(CMAKE_CUDA_STANDARD 20)
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that this compiler can
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      endif()
      set(MKERNEL_CUDA_FLAGS -gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -lineinfo)
      add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${MKERNEL_CUDA_FLAGS}>")
      message(STATUS "mKernel: GPU part built with CUDA ${CMAKE_CUDA_COMPILER_VERSION} for sm_90a")
    else()
      message(STATUS "mKernel: GPU part left out: CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old; ${mkernel_how}")
    endif()
  elseif(EXISTS /dev/nvidiactl)
    message(STATUS "mKernel: GPU part left out: this machine has a GPU but no CUDA compiler; ${mkernel_how}")
  else()
    message(STATUS "mKernel: GPU part left out: no CUDA compiler")
  endif()
endif()

# mk_check_kernels(<target>): a kernel of the target that spills, uses local memory or has its wgmmas serialized does
# not compile.
set(MKERNEL_CHECK_FLAGS -Xptxas=--warn-on-spills,--warn-on-local-memory-usage,--warning-as-error)
set(MKERNEL_CHECK_LAUNCHER sh ${PROJECT_SOURCE_DIR}/cmake/no_serial_wgmma.sh)
function(mk_check_kernels target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${MKERNEL_CHECK_FLAGS}>")
  set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${MKERNEL_CHECK_LAUNCHER}")
endfunction()

# mk_kernel_sources(<target> <name> PROTOCOL <file> LAYOUT <type>): adds a GEMM operator's kernels to a target, in a
# source of their own for each element type and order of B.  The source also registers how its kernels are loaded
# (runtime/kernel_registry.h).
function(mk_kernel_sources target name)
  cmake_parse_arguments(arg "" "PROTOCOL;LAYOUT" "" ${ARGN})
  set(includes "")
  foreach(header ${arg_PROTOCOL} ops/gemm/gemm_kernel.cuh runtime/kernel_registry.h)
    string(APPEND includes "#include \"${header}\"\n")
  endforeach()
  foreach(dtype Bf16 Fp16)
    foreach(order KN NK)
      set(launcher "mk::gemm::GemmLauncher<${arg_LAYOUT}, mk::DType::k${dtype}, mk::BOrder::k${order}>")
      set(source ${CMAKE_BINARY_DIR}/generated/kernels/${name}_${dtype}_${order}.cu)
      file(CONFIGURE OUTPUT ${source} CONTENT
        "${includes}template struct ${launcher};\nstatic const mk::runtime::KernelLoader loader(${launcher}::load);\n")
      target_sources(${target} PRIVATE ${source})
    endforeach()
  endforeach()
endfunction()
