# SPDX-License-Identifier: MIT
# Writes the ctest tests of a GoogleTest binary, several cases in each: under sanitizers most cases take less time than
# the start of a process.
#
#   cmake -D NAME=<name> -D BINARY=<path> -D FILTER=<of GoogleTest> -D SIZE=<cases> -D OUT=<file> -P test_groups.cmake
#
# A group has at most SIZE cases, all of one suite.  Its name is <name>:<suite>.<first>-<last>, e.g.
# core_test:Ring.1-12, or <name>:<suite>.<case> if it has only one.  OUT adds the tests, and lists them in `groups`.
execute_process(COMMAND ${BINARY} --gtest_list_tests --gtest_filter=${FILTER} TIMEOUT 300
  OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")  # values of parameters
string(REGEX MATCHALL "[^\n]+" lines "${listed}")
list(FILTER lines EXCLUDE REGEX "^Running main")

set(script "")
set(groups "")
set(cases "")
macro(end_group)
  list(LENGTH cases count)
  if(count)
    math(EXPR first "${last} - ${count} + 1")
    set(group ${NAME}:${suite}.${first}-${last})
    if(count EQUAL 1)
      set(group ${NAME}:${cases})
    endif()
    list(JOIN cases ":" filter)
    string(APPEND script "add_test(\"${group}\" \"${BINARY}\" \"--gtest_filter=${filter}\")\n")
    list(APPEND groups ${group})
    set(cases "")
  endif()
endmacro()

foreach(line IN LISTS lines)
  if(line MATCHES "^  (.+)$")
    math(EXPR last "${last} + 1")
    list(APPEND cases ${suite}.${CMAKE_MATCH_1})
    list(LENGTH cases count)
    if(count EQUAL SIZE)
      end_group()
    endif()
  else()
    end_group()
    string(REGEX REPLACE "[.]$" "" suite "${line}")
    set(last 0)
  endif()
endforeach()
end_group()
if(NOT groups)
  message(FATAL_ERROR "${BINARY} has no cases")
endif()

# A group is skipped if none of its cases ran: its output then ends with the list of those that were skipped.
set(skipped [["\\[  PASSED  \\] 0 tests[.]\n(\\[  SKIPPED \\] [^\n]*\n)+$"]])
file(WRITE ${OUT} "${script}set(groups \"${groups}\")\n"
  "set_tests_properties(\${groups} PROPERTIES SKIP_REGULAR_EXPRESSION ${skipped})\n")
