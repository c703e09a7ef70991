# SPDX-License-Identifier: MIT
# Compiles sources in groups, each group as if it were one source.  A template that many sources use, most often of the
# standard library, is then compiled once a group.  Tests take half the time so.  The library is compiled so only in
# trees with sanitizers: a plain build shows that each of its sources compiles alone.
#
# Two sources that define the same name are never in one group, because their unnamed namespaces would be one.  A name
# that `mk_names_defined` overlooks is a compiler error, "redefinition of".

# Names of types, constants and functions whose definition begins at the beginning of a line.
function(mk_names_defined source result)
  set(name "([A-Za-z_][A-Za-z_0-9]*)")
  set(names "")
  file(STRINGS ${source} lines REGEX "^[a-z_A-Z].*[{;(,]")
  foreach(line IN LISTS lines)
    if(line MATCHES "^(namespace|using std::)")  # may be repeated
      continue()
    elseif(line MATCHES "^(struct|class|enum class|enum) ${name}" OR
           line MATCHES "^using ([A-Za-z_0-9]+::)*${name}[;= ]")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(line MATCHES "^[^({=]*[ *&]${name} *[({=[]")  # a constant or a function
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# mk_compile_together(<target> [<sources>]): compiles the target's C++ in groups of at most so many sources.
function(mk_compile_together target)
  set(most 8)
  if(ARGN)
    set(most ${ARGN})
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "[$]<|_absent.cc$|[.]cu$")  # a plain build may have others in place of absent ones
  set(last 0)
  foreach(source IN LISTS sources)
    mk_names_defined(${folder}/${source} names)
    foreach(candidate RANGE ${last})  # the first that is not full and defines none of the names
      set(group ${candidate})
      set(others ${names_of_${group}})
      list(REMOVE_ITEM others "" ${names})
      list(LENGTH sources_of_${group} size)
      if(size LESS most AND "${others}" STREQUAL "${names_of_${group}}")
        break()
      endif()
    endforeach()
    list(APPEND names_of_${group} ${names})
    list(APPEND sources_of_${group} ${source})
    if(group EQUAL last)
      math(EXPR last "${last} + 1")  # there is always an empty one
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# mk_one_source(<name> <sources>): writes a source of that name that includes the others, and puts its path into `name`.
# nvcc reads headers for longer than it compiles a short source.
function(mk_one_source name)
  list(TRANSFORM ARGN REPLACE "(.+)" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/\\1\"\n" OUTPUT_VARIABLE includes)
  list(JOIN includes "" includes)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name} CONTENT "${includes}" @ONLY)
  set(${name} ${CMAKE_CURRENT_BINARY_DIR}/${name} PARENT_SCOPE)
endfunction()
