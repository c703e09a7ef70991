# SPDX-License-Identifier: MIT
# What `cmake --install` and `cpack` take: both libraries, the headers of include/, and what tells CMake and pkg-config
# about them.  docs/install.md is for those who use it.
#
# Nothing of it holds the prefix, so an installed tree may be moved.
if(NOT TARGET mkernel_shared)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(mkernel_shared PROPERTIES EXPORT_NAME mkernel)
set_target_properties(mkernel_static PROPERTIES EXPORT_NAME static)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/mkernel)
foreach(kind shared static)
  install(TARGETS mkernel_${kind} EXPORT mkernel_${kind}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT mkernel_${kind} NAMESPACE mkernel:: DESTINATION ${package} FILE mkernel-${kind}.cmake)
endforeach()
install(DIRECTORY include/mkernel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mkernel RENAME copyright)

# find_package: a static library needs others to be linked with it, a shared one none.
set(generated ${CMAKE_BINARY_DIR}/generated/package)
configure_package_config_file(cmake/mkernel-config.cmake.in ${generated}/mkernel-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${generated}/mkernel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/mkernel-config.cmake ${generated}/mkernel-config-version.cmake DESTINATION ${package})

# pkg-config: its files name their prefix by the way from themselves.
set(with_static -lfmt -lcrypto)
list(TRANSFORM mkernel_found_libraries PREPEND -l OUTPUT_VARIABLE found)
list(APPEND with_static ${found})
if(MKERNEL_HAS_CUDA)
  list(APPEND with_static -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt)
endif()
list(JOIN with_static " " with_static)
string(APPEND with_static " -pthread")
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up ${up})
foreach(name mkernel mkernel-static)
  configure_file(cmake/${name}.pc.in ${generated}/${name}.pc @ONLY)
  install(FILES ${generated}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# cpack: a .tar.gz, and a .deb where there is dpkg.
set(CPACK_GENERATOR TGZ)
find_program(MKERNEL_DPKG dpkg)
find_program(MKERNEL_DPKG_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(MKERNEL_DPKG MKERNEL_DPKG_SHLIBDEPS)
if(MKERNEL_DPKG)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME mkernel)
set(CPACK_PACKAGE_CONTACT "the mKernel authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Persistent kernels that compute and communicate, in one launch")
set(CPACK_PACKAGE_FILE_NAME mkernel-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
if(MKERNEL_DPKG_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(suggested libfmt-dev libssl-dev)  # for those who link the static library
if(MKERNEL_HAS_HWLOC)
  list(APPEND suggested libhwloc-dev)
endif()
if(MKERNEL_HAS_VERBS)
  list(APPEND suggested libibverbs-dev)
endif()
list(JOIN suggested ", " CPACK_DEBIAN_PACKAGE_SUGGESTS)
include(CPack)
