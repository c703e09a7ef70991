# SPDX-License-Identifier: MIT
# Makes build_info.h: version and commit.  The commit is looked up at every build, the file rewritten only if it changed.
add_custom_target(mkernel_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${CMAKE_BINARY_DIR}/generated/build_info.h
          -DVERSION=${PROJECT_VERSION} -P ${CMAKE_SOURCE_DIR}/cmake/write_build_info.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/build_info.h
  VERBATIM)
