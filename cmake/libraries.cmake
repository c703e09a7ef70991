# SPDX-License-Identifier: MIT
# libmkernel.a and libmkernel.so, from the same objects.  Both leave nothing to their users but the headers of include/:
# what the objects need is only linked.
#
#   mkernel_static  what the tree's own programs use, too
#   mkernel_shared  exports what MK_API marks; only in trees that can be installed
#   mkernel_core    mkernel_static with the headers of src/, for tools, tests and benchmarks
set(parts mkernel_objects)
if(MKERNEL_HAS_CUDA)
  list(APPEND parts mkernel_kernels mkernel_layer_kernels)
endif()
set(objects "")
foreach(part IN LISTS parts)
  set_target_properties(${part} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  list(APPEND objects $<TARGET_OBJECTS:${part}>)
endforeach()

# Libraries without a CMake package of their own: mkernel-config.cmake looks for them as mkernel::<name>.
set(mkernel_found_libraries "")
set(mkernel_needs fmt::fmt OpenSSL::Crypto Threads::Threads)
foreach(library HWLOC:hwloc VERBS:ibverbs EFA:efa)
  string(REGEX MATCH "(.+):(.+)" pair ${library})
  if(MKERNEL_HAS_${CMAKE_MATCH_1})
    list(APPEND mkernel_found_libraries ${CMAKE_MATCH_2})
    list(APPEND mkernel_needs
      $<BUILD_INTERFACE:${MKERNEL_${CMAKE_MATCH_1}_LIBRARY}>$<INSTALL_INTERFACE:mkernel::${CMAKE_MATCH_2}>)
  endif()
endforeach()
if(MKERNEL_HAS_CUDA)
  list(APPEND mkernel_needs CUDA::cudart_static)
endif()

set(mkernel_libraries mkernel_static)
if(NOT MKERNEL_SOFT_GPU AND NOT MKERNEL_SANITIZE)
  list(APPEND mkernel_libraries mkernel_shared)
  add_library(mkernel_shared SHARED ${objects})
  set_target_properties(mkernel_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
  target_link_options(mkernel_shared PRIVATE
    LINKER:--no-undefined LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
endif()
add_library(mkernel_static STATIC ${objects})
foreach(library IN LISTS mkernel_libraries)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME mkernel LINKER_LANGUAGE CXX)
  target_compile_features(${library} INTERFACE cxx_std_20)
  target_link_libraries(${library} PRIVATE ${mkernel_needs})
endforeach()

add_library(mkernel_core INTERFACE)
target_include_directories(mkernel_core INTERFACE include src)
target_link_libraries(mkernel_core INTERFACE mkernel_static fmt::fmt Threads::Threads)
if(MKERNEL_HAS_CUDA)
  target_link_libraries(mkernel_core INTERFACE CUDA::cudart_static)
endif()
if(MKERNEL_HAS_VERBS)
  target_include_directories(mkernel_core SYSTEM INTERFACE ${MKERNEL_VERBS_INCLUDE})
endif()
