# SPDX-License-Identifier: MIT
# Writes build_info.h: version and commit.  Every build looks up the commit; the file is rewritten only if it changed.
add_custom_target(mkernel_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${CMAKE_BINARY_DIR}/generated/build_info.h
          -DVERSION=${PROJECT_VERSION} -P ${CMAKE_SOURCE_DIR}/cmake/write_build_info.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/build_info.h
  VERBATIM)
