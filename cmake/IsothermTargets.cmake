# The library, the server and the benchmarks.

set(ISOTHERM_LIBRARY_FOLDERS
  base command items index hot router gpu executor batch durability tree engine)
set(ISOTHERM_SERVER_FOLDERS net server)

# All sources of the given folders of src/, unit tests left out.
function(isotherm_glob_sources result)
  set(patterns)
  foreach(folder IN LISTS ARGN)
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/src/${folder}/*.cc")
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|/rocksdb_files\\.cc$")
  isotherm_set_isa_flags(${sources})
  set(${result} "${sources}" PARENT_SCOPE)
endfunction()

# Compiles the sources of each folder as one, what is nested in it included: the headers and templates
# that they share are read and made once. Tests are units of their own, those of small folders together
# and those that share templates; and so is each source with flags of its own (CMake leaves those out).
function(isotherm_unite target)
  if(NOT ISOTHERM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(REGEX MATCH "^[^/]*/[^/]*" folder "${folder}")
    if(source MATCHES "_test\\.cc$")
      string(REGEX REPLACE "^src/(base|command)$" "src/index" folder "${folder}")
      string(REGEX REPLACE "^src/batch$" "src/gpu" folder "${folder}")
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP ${group})
  endforeach()
  # A stand-in for an optional part has an object of its own, which a program that has the part leaves.
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/gpu/store/no_cuda.cc"
    "${PROJECT_SOURCE_DIR}/src/tree/no_rocksdb.cc" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# A library of the sources; without any it is an interface, so that an empty folder still builds.
macro(isotherm_library_target target visibility)
  if("${ARGN}" STREQUAL "")
    add_library(${target} INTERFACE)
    set(${visibility} INTERFACE)
  else()
    add_library(${target} STATIC ${ARGN})
    isotherm_unite(${target})
    set(${visibility} PUBLIC)
  endif()
endmacro()

# What every library made of sources of src/ has in common.
function(isotherm_set_up_library target visibility)
  target_compile_features(${target} ${visibility} cxx_std_20)
  target_include_directories(${target} ${visibility}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} ${visibility} Threads::Threads ${ISOTHERM_LIBATOMIC})
  if(visibility STREQUAL "PUBLIC")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${target} PRIVATE ISOTHERM_VERSION="${PROJECT_VERSION}")
    target_compile_options(${target} PRIVATE ${ISOTHERM_DEBUG_OPTIMIZE})
    # Shared libraries may take it in, as Python's extension does. What is hidden is called as directly
    # as without.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()

function(isotherm_add_library)
  # What code inside the repository needs on top of the public headers.
  add_library(isotherm_internal INTERFACE)
  target_include_directories(isotherm_internal INTERFACE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(isotherm_internal INTERFACE ISOTHERM_VERSION="${PROJECT_VERSION}")
  isotherm_glob_sources(sources ${ISOTHERM_LIBRARY_FOLDERS})
  isotherm_library_target(isotherm visibility ${sources})
  isotherm_set_up_library(isotherm ${visibility})
  add_library(isotherm::isotherm ALIAS isotherm)
endfunction()

# The allocator of the programs, never of the library: a library must not choose it.
function(isotherm_link_allocator target)
  if(NOT ISOTHERM_JEMALLOC)
    return()
  endif()
  find_library(ISOTHERM_JEMALLOC_LIBRARY NAMES libjemalloc_pic.a libjemalloc.a jemalloc REQUIRED)
  mark_as_advanced(ISOTHERM_JEMALLOC_LIBRARY)
  target_link_libraries(${target} PRIVATE "${ISOTHERM_JEMALLOC_LIBRARY}" ${CMAKE_DL_LIBS} m)
endfunction()

# Debian has spdlog and fmt as shared libraries only, which programs that are installed do without:
# both also work from their headers. The address sanitizer takes five times as long to compile those.
function(isotherm_set_up_log)
  set(definitions SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
  if(ISOTHERM_SANITIZE MATCHES "address")
    set(definitions SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB SPDLOG_SHARED_LIB)
    target_link_libraries(isotherm_server PRIVATE $<LINK_ONLY:spdlog::spdlog>)
  endif()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/net/log.cc" PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON COMPILE_DEFINITIONS "${definitions}")
endfunction()

function(isotherm_add_server)
  find_package(spdlog REQUIRED)
  isotherm_glob_sources(sources ${ISOTHERM_SERVER_FOLDERS})
  list(FILTER sources EXCLUDE REGEX "/src/server/(check_)?main\\.cc$")
  isotherm_library_target(isotherm_server visibility ${sources})
  target_link_libraries(isotherm_server ${visibility} isotherm_internal)
  if(visibility STREQUAL "PUBLIC")
    isotherm_set_up_log()
    target_compile_options(isotherm_server PRIVATE ${ISOTHERM_COVERAGE})
  endif()
  target_link_libraries(isotherm_server ${visibility} isotherm)
  if(EXISTS "${PROJECT_SOURCE_DIR}/src/server/main.cc")
    add_library(isotherm_server_main OBJECT "${PROJECT_SOURCE_DIR}/src/server/main.cc")
    target_link_libraries(isotherm_server_main PUBLIC isotherm_server)
    isotherm_define_server(isotherm-server)
    isotherm_link_gpu(isotherm-server)
    add_executable(isotherm-check "${PROJECT_SOURCE_DIR}/src/server/check_main.cc")
    target_link_libraries(isotherm-check PRIVATE isotherm_internal isotherm)
  endif()
endfunction()

# A server program; more arguments: what takes the place of parts of the library.
function(isotherm_define_server target)
  add_executable(${target})
  target_link_libraries(${target} PRIVATE isotherm_server_main ${ARGN} isotherm_server)
  isotherm_link_tree(${target})
  isotherm_link_allocator(${target})
endfunction()

function(isotherm_add_bench)
  if(NOT ISOTHERM_BENCH)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/isotherm_bench/*.cc")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  isotherm_library_target(isotherm_bench visibility ${sources})
  target_include_directories(isotherm_bench ${visibility} "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(isotherm_bench ${visibility} isotherm_internal isotherm)
  if(EXISTS "${PROJECT_SOURCE_DIR}/bench/isotherm_bench/main.cc")
    add_executable(isotherm-bench "${PROJECT_SOURCE_DIR}/bench/isotherm_bench/main.cc")
    target_link_libraries(isotherm-bench PRIVATE isotherm_bench)
    isotherm_link_gpu(isotherm-bench)
    isotherm_link_allocator(isotherm-bench)
  endif()

  # The small programs use libraries that Debian has as shared ones only.
  if(ISOTHERM_STATIC)
    return()
  endif()
  find_package(benchmark QUIET)
  find_package(absl QUIET)
  file(GLOB programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*_bench.cc")
  add_custom_target(isotherm-bench-programs)
  foreach(source IN LISTS programs)
    cmake_path(GET source STEM name)
    # Loops for one instruction set lie in files of their own: x_bench_avx2.cc.
    file(GLOB loops CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/${name}_*.cc")
    isotherm_set_isa_flags(${loops})
    add_executable(${name} "${source}" ${loops})
    add_dependencies(isotherm-bench-programs ${name})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
    target_link_options(${name} PRIVATE -Wl,--as-needed)
    # Nobody runs them under a sanitizer, whose build shows that clang compiles them.
    if(ISOTHERM_SANITIZE)
      target_compile_options(${name} PRIVATE -fno-sanitize=all)
    endif()
    target_link_libraries(${name} PRIVATE isotherm_bench isotherm_internal isotherm)
    if(benchmark_FOUND)
      target_link_libraries(${name} PRIVATE benchmark::benchmark)
    endif()
    if(absl_FOUND)
      target_link_libraries(${name} PRIVATE absl::flat_hash_map absl::hash)
    endif()
    isotherm_link_allocator(${name})
  endforeach()
endfunction()
