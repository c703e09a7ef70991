# SPDX-License-Identifier: MIT
# mk_compile_together(<target>): compiles the target's sources in groups, each group as if it were one source.  A
# template that many sources use, most often of the standard library, is then compiled once a group.  Only for trees
# with sanitizers: a plain build shows that each source compiles alone.
#
# Two sources that define the same name are never in one group, because their unnamed namespaces would be one.  A name
# that `mk_names_defined` overlooks is a compiler error, "redefinition of".
set(MKERNEL_GROUP_SIZE 8)

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

function(mk_compile_together target)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "[$]<|_absent.cc$")  # a plain build with CUDA does not compile the absent ones
  set(last 0)
  foreach(source IN LISTS sources)
    mk_names_defined(${folder}/${source} names)
    foreach(candidate RANGE ${last})  # the first that is not full and defines none of the names
      set(group ${candidate})
      set(others ${names_of_${group}})
      list(REMOVE_ITEM others "" ${names})
      list(LENGTH sources_of_${group} size)
      if(size LESS MKERNEL_GROUP_SIZE AND "${others}" STREQUAL "${names_of_${group}}")
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
