# SPDX-License-Identifier: MIT
# Looks for Boost.Context, which the simulator's fibres need.  Sets MKERNEL_HAS_SIM.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)
endif()
find_package(Boost QUIET COMPONENTS context)
if(Boost_FOUND AND TARGET Boost::context)
  set(MKERNEL_HAS_SIM ON)
else()
  set(MKERNEL_HAS_SIM OFF)
  message(STATUS "mKernel: simulator left out: no Boost.Context (Debian: libboost-context-dev)")
endif()
