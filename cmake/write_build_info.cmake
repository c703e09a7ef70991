# SPDX-License-Identifier: MIT
# Script of the target mkernel_build_info; see version.cmake.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)  # no repository here: whoever packed the sources may say what they are
  set(commit "$ENV{MKERNEL_COMMIT}")
endif()
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT
"// Made by cmake/write_build_info.cmake.
#pragma once
#define MKERNEL_VERSION \"@VERSION@\"
#define MKERNEL_COMMIT \"@commit@\"
")
