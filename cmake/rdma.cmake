# SPDX-License-Identifier: MIT
# Looks for libibverbs and, for EFA, libefa.  Sets MKERNEL_HAS_VERBS, MKERNEL_HAS_EFA and, if libefa's header names the
# capability to write, MKERNEL_EFA_NAMES_WRITE.
find_path(MKERNEL_VERBS_INCLUDE infiniband/verbs.h)
find_library(MKERNEL_VERBS_LIBRARY ibverbs)
find_path(MKERNEL_EFA_INCLUDE infiniband/efadv.h)
find_library(MKERNEL_EFA_LIBRARY efa)
mark_as_advanced(MKERNEL_VERBS_INCLUDE MKERNEL_VERBS_LIBRARY MKERNEL_EFA_INCLUDE MKERNEL_EFA_LIBRARY)
set(MKERNEL_HAS_VERBS OFF)
set(MKERNEL_HAS_EFA OFF)
if(MKERNEL_VERBS_INCLUDE AND MKERNEL_VERBS_LIBRARY)
  set(MKERNEL_HAS_VERBS ON)
  if(MKERNEL_EFA_INCLUDE AND MKERNEL_EFA_LIBRARY)
    set(MKERNEL_HAS_EFA ON)
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_INCLUDES ${MKERNEL_EFA_INCLUDE})
    check_cxx_source_compiles("#include <infiniband/efadv.h>
      int main() { return EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE; }" MKERNEL_EFA_NAMES_WRITE)
    unset(CMAKE_REQUIRED_INCLUDES)
  endif()
else()
  message(STATUS "mKernel: the fabrics verbs and efa left out: no libibverbs (Debian: libibverbs-dev)")
endif()
