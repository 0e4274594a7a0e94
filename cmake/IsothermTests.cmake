# Programs of tests. tools/run_gtests.sh runs the unit tests and scripts, in every build; ctest runs
# what else there is, by labels: stress, broken, peers, package, tools. The sanitizer builds
# run `stress`.
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET)
set(ISOTHERM_UNIT_TEST_LIBRARIES isotherm_server isotherm_fake_root_table GTest::gtest_main)
if(rapidcheck_FOUND)
  list(APPEND ISOTHERM_UNIT_TEST_LIBRARIES rapidcheck)
endif()

# The release build's unit tests are made for who asks for a program of them: they are a third of what
# there is to compile, and the address sanitizer's build runs all of them in each `make test`.
macro(isotherm_make_when_asked_for target)
  if(NOT ISOTHERM_SANITIZE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endmacro()

function(isotherm_add_unit_test_objects target optimize)
  add_library(${target} OBJECT ${ARGN})
  isotherm_unite(${target})
  target_compile_options(${target} PRIVATE ${optimize})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(${target} PRIVATE ${ISOTHERM_UNIT_TEST_LIBRARIES})
  isotherm_make_when_asked_for(${target})
endfunction()

# What a program of some of these objects links, behind what else it has.
function(isotherm_join_unit_tests name)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(${name} INTERFACE)
  target_sources(${name} INTERFACE $<TARGET_OBJECTS:isotherm_fake_root_table> ${objects})
  target_link_libraries(${name} INTERFACE ${ISOTHERM_UNIT_TEST_LIBRARIES})
endfunction()

function(isotherm_add_unit_test_program name)
  isotherm_join_unit_tests(${name}_objects ${ARGN})
  add_executable(${name} "$<FILTER:$<TARGET_OBJECTS:isotherm>,EXCLUDE,/no_(cuda|rocksdb)\\.cc>")
  isotherm_make_when_asked_for(${name})
  target_link_libraries(${name} PRIVATE ${name}_objects)
  isotherm_link_gpu(${name})
  isotherm_link_tree(${name})
endfunction()

function(isotherm_add_unit_tests)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*_test.cc"
    "${PROJECT_SOURCE_DIR}/tests/fake_device/*_test.cc")
  if(ISOTHERM_SANITIZE MATCHES "thread")
    file(STRINGS "${PROJECT_SOURCE_DIR}/tests/one_thread.txt" one_thread REGEX "_test\\.cc$")
    list(TRANSFORM one_thread PREPEND "${PROJECT_SOURCE_DIR}/src/")
    foreach(source IN LISTS one_thread)
      file(STRINGS "${source}" threads REGEX "std::(j?thread|async)")
      if(threads)
        message(FATAL_ERROR "${source} starts threads, so it may not be in tests/one_thread.txt")
      endif()
    endforeach()
    list(REMOVE_ITEM sources ${one_thread})
  endif()
  isotherm_set_isa_flags(${sources})
  if(sources AND NOT ISOTHERM_SANITIZE)
    # Tests of kernels on the fake device take a third of what all tests take to compile and to run: a
    # program for who changes src/gpu.
    set(kernel_sources ${sources})
    list(FILTER kernel_sources INCLUDE REGEX "/src/gpu/")
    list(FILTER kernel_sources EXCLUDE REGEX "/(udp/.*|fixed_loops)_test\\.cc$")
    list(REMOVE_ITEM sources ${kernel_sources})
    isotherm_add_unit_test_objects(isotherm_kernel_tests ${ISOTHERM_TEST_OPTIMIZE} ${kernel_sources})
    isotherm_add_unit_test_program(isotherm-kernel-tests isotherm_kernel_tests)
  endif()
  if(sources)
    # Tests that only call compiled code take longer to compile than to run. Those of the index have
    # templates of their own, and those with kernels take as long either way; under a sanitizer optimising
    # these takes longest of all. Of a function in a header, which several objects have, the linker takes
    # the first: what the library and the fake device have optimised is linked before the tests.
    if(NOT ISOTHERM_SANITIZE)
      set(optimized_sources ${sources})
      list(FILTER optimized_sources INCLUDE REGEX "/src/(base|command|index|gpu|batch)/")
      list(REMOVE_ITEM sources ${optimized_sources})
      isotherm_add_unit_test_objects(isotherm_optimized_tests ${ISOTHERM_TEST_OPTIMIZE} ${optimized_sources})
      set(optimized_tests isotherm_optimized_tests)
    endif()
    isotherm_add_unit_test_objects(isotherm_other_tests "${ISOTHERM_CALLER_OPTIMIZE};${ISOTHERM_TEST_DEBUG}" ${sources})
    isotherm_add_unit_test_program(isotherm-unit-tests ${optimized_tests} isotherm_other_tests)
  endif()

  file(GLOB_RECURSE bench_tests CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/bench/isotherm_bench/*_test.cc")
  if(bench_tests AND ISOTHERM_BENCH)
    add_executable(isotherm-bench-tests ${bench_tests})
    isotherm_unite(isotherm-bench-tests)
    target_compile_options(isotherm-bench-tests PRIVATE ${ISOTHERM_CALLER_OPTIMIZE} ${ISOTHERM_TEST_DEBUG})
    target_link_libraries(isotherm-bench-tests PRIVATE isotherm_bench GTest::gtest_main)
  endif()
endfunction()

# Examples are a user's programs: package.find_package builds and runs them with what was installed. Under a
# sanitizer nobody runs them.
function(isotherm_add_sanitized_examples)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cc")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    add_library(example-${name} OBJECT EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(example-${name} PRIVATE isotherm::isotherm)
    add_dependencies(isotherm-only-compiled example-${name})
  endforeach()
endfunction()

function(isotherm_add_test_folders)
  file(GLOB folders CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*/CMakeLists.txt")
  foreach(folder IN LISTS folders)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    add_subdirectory("${folder}" "${PROJECT_BINARY_DIR}/tests/${name}")
  endforeach()
endfunction()

function(isotherm_add_fuzzers)
  if(NOT ISOTHERM_FUZZ)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cc")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    add_executable(${name} "${source}")
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE isotherm_server)
  endforeach()
endfunction()

function(isotherm_add_tool_tests)
  add_test(NAME tools.check_layers_test
    COMMAND python3 "${PROJECT_SOURCE_DIR}/tools/check_layers_test.py")
  add_test(NAME tools.check_includes_test
    COMMAND python3 "${PROJECT_SOURCE_DIR}/tools/check_includes_test.py")
  add_test(NAME tools.check_isa_symbols_test
    COMMAND "${PROJECT_SOURCE_DIR}/tools/check_isa_symbols_test.sh" "${CMAKE_CXX_COMPILER}"
      "${PROJECT_BINARY_DIR}/isa-symbols-test")
  add_test(NAME tools.check_isa_symbols
    COMMAND "${PROJECT_SOURCE_DIR}/tools/check_isa_symbols.sh" "${PROJECT_BINARY_DIR}")
  set_tests_properties(tools.check_layers_test tools.check_includes_test
    tools.check_isa_symbols_test tools.check_isa_symbols PROPERTIES LABELS tools TIMEOUT 300)
  if(NOT ISOTHERM_SANITIZE)
    add_test(NAME package.find_package
      COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}
        -DCXX=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR}
        -DCUDA_INCLUDE=${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
        -P "${PROJECT_SOURCE_DIR}/cmake/package_test/run.cmake")
    set_tests_properties(package.find_package PROPERTIES LABELS package TIMEOUT 1200)
  endif()
endfunction()
