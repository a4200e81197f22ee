# find_package(eagle CONFIG) gives the target eagle::eagle: the headers, which need C++20 and threads.
#
# SPDX-License-Identifier: Apache-2.0
include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET eagle::eagle)
  get_filename_component(eagle_include_dir "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  add_library(eagle::eagle INTERFACE IMPORTED)
  set_target_properties(eagle::eagle PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${eagle_include_dir}"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
  unset(eagle_include_dir)
endif()
