# Headers of the standard library, and of GoogleTest, that clang reads once for all targets of the same flags:
# each unit takes more than a second for them.
#
# Only where nothing keeps what was compiled: what clang makes of headers has paths in it, so a compiler cache
# would not find again in one folder what was compiled in another. Not by g++, which takes as long to write what
# it has read as five units save, and then warns of code of the standard library. Which targets share headers is
# found by their flags, behind all else that says how they are compiled. A file still includes what it uses:
# tools/check_includes.py looks at that.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR DEFINED ENV{CCACHE_DISABLE}))
  set(isotherm_precompile ON)
else()
  set(isotherm_precompile OFF)
endif()
option(ISOTHERM_PRECOMPILE "Read headers of the standard library once for all targets of the same flags (clang only)"
  ${isotherm_precompile})

set(ISOTHERM_PRECOMPILED <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <cstring> <deque>
  <filesystem> <functional> <future> <map> <memory> <mutex> <optional> <random> <set> <span> <stdexcept> <string>
  <string_view> <thread> <unordered_map> <utility> <vector>)

# How many files a target compiles.
function(isotherm_count_units result target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  set(units)
  foreach(source IN LISTS sources)
    get_source_file_property(group "${source}" TARGET_DIRECTORY ${target} UNITY_GROUP)
    if(group)
      list(APPEND units ${group})
    else()
      list(APPEND units "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES units)
  list(LENGTH units count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

# The flags of a target, but those for debuggers, and at the end how much is optimised.
function(isotherm_flags_of result target)
  get_target_property(flags ${target} COMPILE_OPTIONS)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(level -O0)
    list(TRANSFORM flags REPLACE "^\\$<\\$<CONFIG:Debug>:(.*)>$" "\\1")
  else()
    set(level -O2)
    list(REMOVE_ITEM flags "${ISOTHERM_DEBUG_OPTIMIZE}")
  endif()
  foreach(flag IN LISTS flags)
    if(flag MATCHES "^-O")
      set(level ${flag})
    endif()
  endforeach()
  list(FILTER flags EXCLUDE REGEX "^-[gO]")
  set(${result} "${flags};${level}" PARENT_SCOPE)
endfunction()

# What else has to be the same: properties, as set_target_properties takes them.
function(isotherm_shared_properties result target)
  set(properties)
  foreach(property POSITION_INDEPENDENT_CODE CXX_VISIBILITY_PRESET VISIBILITY_INLINES_HIDDEN)
    get_target_property(value ${target} ${property})
    if(value)
      list(APPEND properties ${property} ${value})
    endif()
  endforeach()
  set(${result} "${properties}" PARENT_SCOPE)
endfunction()

# The targets of a folder and of those below it.
function(isotherm_list_targets result folder)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(inner IN LISTS folders)
    isotherm_list_targets(more "${inner}")
    list(APPEND targets ${more})
  endforeach()
  set(${result} "${targets}" PARENT_SCOPE)
endfunction()

# A target of nothing but the headers, whose flags are those of the given targets, which share them.
function(isotherm_share_headers flags properties tests)
  list(GET ARGN 0 first)
  set(owner ${first}_headers)
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/precompiled.cc")
  set_target_properties(${owner} PROPERTIES COMPILE_OPTIONS "${flags}"
    PRECOMPILE_HEADERS "${ISOTHERM_PRECOMPILED}" ${properties})
  if(tests)
    target_precompile_headers(${owner} PRIVATE <gtest/gtest.h>)
    target_link_libraries(${owner} PRIVATE GTest::gtest)
  endif()
  set_target_properties(${ARGN} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${owner})
endfunction()

# Shares them where so many files are compiled with the same flags that it pays.
function(isotherm_precompile_headers)
  if(NOT ISOTHERM_PRECOMPILE)
    return()
  endif()
  set(least_units 4)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cc" CONTENT "" @ONLY)
  isotherm_list_targets(targets "${PROJECT_SOURCE_DIR}")
  set(kinds)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(STATIC_LIBRARY|OBJECT_LIBRARY|EXECUTABLE)$")
      isotherm_count_units(units ${target})
      isotherm_flags_of(flags ${target})
      isotherm_shared_properties(properties ${target})
      get_target_property(libraries ${target} LINK_LIBRARIES)
      string(REGEX MATCH "GTest::" tests "${libraries}")
      string(MD5 kind "${flags} ${properties} ${tests}")
      list(APPEND kinds ${kind})
      list(APPEND targets_${kind} ${target})
      math(EXPR units_${kind} "0${units_${kind}} + ${units}")
      foreach(what flags properties tests)
        set(${what}_${kind} "${${what}}")
      endforeach()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES kinds)
  foreach(kind IN LISTS kinds)
    if(units_${kind} GREATER_EQUAL least_units)
      isotherm_share_headers("${flags_${kind}}" "${properties_${kind}}" "${tests_${kind}}" ${targets_${kind}})
    endif()
  endforeach()
endfunction()
