# Flags that every target is compiled with, and the options that presets turn.

set(ISOTHERM_SANITIZE "" CACHE STRING "Value of -fsanitize= for all code, e.g. address,undefined")
# A trap in the place of a call that says what was undefined saves a fifth of the time to compile; the
# address sanitizer prints the stack that leads there (ASAN_OPTIONS=handle_sigill=1).
option(ISOTHERM_SANITIZE_TRAP "Undefined behaviour ends a program by a trap (clang only)" ON)
option(ISOTHERM_FUZZ "Instrument for libFuzzer and build the fuzzers (clang only)" OFF)
option(ISOTHERM_BENCH "Build the benchmarks" ON)
option(ISOTHERM_JEMALLOC "Link jemalloc into the programs" OFF)
option(ISOTHERM_UNITY "Compile the sources of a folder as one" ON)
option(ISOTHERM_STATIC "Link the programs fully statically" OFF)
option(ISOTHERM_BROKEN_BUILDS "Build the deliberately broken servers that tests must catch" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Without tables of lines, which take a tenth of the time to compile: -DCMAKE_CXX_FLAGS=-g1 adds them.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Sanitizer builds optimise the library and its unit tests (ISOTHERM_DEBUG_OPTIMIZE), of which the
# kernels on the fake device are a part: unoptimised they take longer to run than to compile.
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -fno-omit-frame-pointer")
set(ISOTHERM_DEBUG_OPTIMIZE $<$<CONFIG:Debug>:-O1>)
# Tests, and builds that are broken on purpose, take longer to compile than to run. Those that only call
# what the library has compiled take a third less unoptimised, and under a sanitizer two thirds.
set(ISOTHERM_TEST_OPTIMIZE -O1)
set(ISOTHERM_CALLER_OPTIMIZE -O0)
# Sanitizers name the functions of such tests; their lines take an eighth of the time to compile.
set(ISOTHERM_TEST_DEBUG -g0 CACHE STRING "What debuggers know of tests that only call the library; -g1: lines")

find_program(ISOTHERM_CCACHE ccache)
mark_as_advanced(ISOTHERM_CCACHE)
if(ISOTHERM_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ISOTHERM_CCACHE}")
endif()

# 16-byte compare-and-swap is in every x86-64 processor but the first few; wider registers are
# chosen at run time, so no flag here may ask for more.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-mcx16;-Wall;-Wextra;-Wpedantic;-Wshadow>")
if(PROJECT_IS_TOP_LEVEL)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports overlapping copies inside std::string's own operator+ (GCC bug 105651).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  # Below so many KiB it does not look for memory that it could use again, which takes a sixteenth of its time.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>")
endif()

if(ISOTHERM_SANITIZE)
  add_compile_options(-fsanitize=${ISOTHERM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ISOTHERM_SANITIZE})
  if(ISOTHERM_SANITIZE_TRAP AND ISOTHERM_SANITIZE MATCHES "undefined")
    add_compile_options(-fsanitize-trap=undefined -fno-sanitize-trap=vptr)
  endif()
  # GNU's linker takes four times as long for programs of this size.
  find_program(ISOTHERM_LLD ld.lld-14)
  mark_as_advanced(ISOTHERM_LLD)
  if(ISOTHERM_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_link_options("-fuse-ld=lld-14")
  endif()
  # Freed items are overwritten, so that a stale read shows; the other is explained in src/base/macros.h.
  add_compile_definitions(ISOTHERM_POISON ISOTHERM_SANITIZED_BUILD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The checks inserted by a sanitizer hide from g++ that a variable is always set.
    add_compile_options(-Wno-maybe-uninitialized)
    if(ISOTHERM_SANITIZE MATCHES "thread")
      # g++ warns that the thread sanitizer does not model fences; where one orders plain
      # accesses the sanitizer would report a race, never hide one.
      add_compile_options(-Wno-tsan)
    endif()
  endif()
endif()
if(ISOTHERM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ISOTHERM_FUZZ needs clang")
  endif()
  # Coverage guides the fuzzers through the parsers; nothing else needs it.
  set(ISOTHERM_COVERAGE -fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(ISOTHERM_STATIC)
  add_link_options(-static)
endif()

# Code for one instruction set lives in files of its own, reached only after a check at run time.
function(isotherm_set_isa_flags)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS "-mavx2;-mbmi;-mbmi2")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
        "-mavx512f;-mavx512vl;-mavx512dq;-mavx512bw;-mbmi;-mbmi2")
    endif()
  endforeach()
endfunction()

# Of a list of sources the copies of builds that have the plain one alone (src/base/instruction_set.h).
macro(isotherm_leave_plain sources)
  list(FILTER ${sources} EXCLUDE REGEX "_avx(2|512)\\.cc$")
endmacro()

# 16-byte atomics may become calls into libatomic; link it only where something calls it.
set(ISOTHERM_LIBATOMIC "-Wl,--push-state,--as-needed" "-latomic" "-Wl,--pop-state")
