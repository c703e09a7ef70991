# SPDX-License-Identifier: MIT
# MKERNEL_SOFT_GPU: device code compiled for the host, and run by the software GPU (tests/support/soft_gpu).  CUDA's own
# headers are needed, its compiler is not.
#
# mk_device_sources(<target>) comes after the target's last source: in a plain build it does nothing.
option(MKERNEL_SOFT_GPU "Run device code on a GPU in software: for tests, on machines without a GPU" OFF)

if(MKERNEL_SOFT_GPU)
  if(NOT MKERNEL_HAS_SIM)
    message(FATAL_ERROR "mKernel: the software GPU needs Boost.Context (Debian: libboost-context-dev)")
  endif()
  find_path(MKERNEL_CUDA_INCLUDE cuda_runtime.h HINTS /usr/local/cuda/include REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(MKERNEL_HAS_CUDA ON)
  set(mk_soft_gpu ${PROJECT_SOURCE_DIR}/tests/support/soft_gpu)
  include_directories(BEFORE ${mk_soft_gpu}/include ${PROJECT_SOURCE_DIR})
  include_directories(SYSTEM ${MKERNEL_CUDA_INCLUDE})
  add_compile_options(-Wno-unknown-pragmas)

  add_library(mkernel_soft_gpu STATIC
    ${mk_soft_gpu}/soft_barrier.cc ${mk_soft_gpu}/soft_block.cc ${mk_soft_gpu}/soft_copies.cc
    ${mk_soft_gpu}/soft_device.cc ${mk_soft_gpu}/soft_driver.cc ${mk_soft_gpu}/soft_launch.cc
    ${mk_soft_gpu}/soft_memory.cc ${mk_soft_gpu}/soft_products.cc ${mk_soft_gpu}/soft_runtime.cc
    ${mk_soft_gpu}/soft_streams.cc ${mk_soft_gpu}/soft_warp.cc)
  target_include_directories(mkernel_soft_gpu PRIVATE include src)
  target_link_libraries(mkernel_soft_gpu PRIVATE fmt::fmt Threads::Threads Boost::context)
  add_library(CUDA::cudart_static ALIAS mkernel_soft_gpu)
  message(STATUS "mKernel: GPU part built for the software GPU")
endif()

function(mk_device_sources target)
  if(NOT MKERNEL_SOFT_GPU)
    return()
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  set(translated "")
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "[.]cu$")
      list(APPEND translated ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    string(MD5 place ${source})
    cmake_path(GET source STEM name)
    set(output ${CMAKE_BINARY_DIR}/soft/${place}/${name}.cc)
    add_custom_command(OUTPUT ${output} DEPENDS ${source} ${mk_soft_gpu}/translate.py VERBATIM
      COMMAND ${Python3_EXECUTABLE} -B ${mk_soft_gpu}/translate.py ${source} ${output})
    # Code that is not optimized would take minutes for what takes seconds.
    set_source_files_properties(${output} PROPERTIES COMPILE_OPTIONS "-include;cuda_runtime.h;-O1;-w"
      SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    list(APPEND translated ${output})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${translated}")
endfunction()
