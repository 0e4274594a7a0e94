# The GPU's part: the libraries isotherm_gpu_store (what a store with its index on a GPU links) and
# isotherm_gpu (the tables of include/isotherm/gpu/), and the programs of tests/cuda and bench/cuda
# (target isotherm-gpu-programs).
#
# It is built where a CUDA compiler of release 13 is found: CMAKE_CUDA_COMPILER, or what
# tools/setup_cuda.sh names. Files that share headers and kernels are compiled as one, which takes a
# fifth of the time; their programs are then one file under several names, which looks at the name
# that it was called by. Programs need no CUDA library.
set(ISOTHERM_CUDA AUTO CACHE STRING "Build the GPU's part: ON, OFF, or AUTO (where nvcc is found)")
set(ISOTHERM_CUDA_ARCHITECTURES "90;100-real;120-real" CACHE STRING
  "What GPUs code is made for, as CMAKE_CUDA_ARCHITECTURES; 90 is both code for sm_90 and PTX")
set(ISOTHERM_CUDA_PROGRAMS "${PROJECT_BINARY_DIR}/cuda" CACHE PATH
  "Where the programs of tests/cuda and bench/cuda go")
option(ISOTHERM_CUDA_TO_PTX
  "Of these programs make only the PTX of their kernels, which shows that the compiler takes them" OFF)
option(ISOTHERM_CUDA_QUICK
  "Compile the libraries unoptimised, and their kernels to PTX alone, in half of the time: for tests without a GPU" OFF)
set(ISOTHERM_CUCO_INCLUDE "" CACHE STRING
  "Header folders of cuCollections and its CCCL, for peer_table_bench (tools/compile_peers.sh)")
set(ISOTHERM_HKV_INCLUDE "" CACHE PATH
  "The folder include/ of a checkout of HierarchicalKV, for peer_rows_bench")

set(isotherm_root "${CMAKE_CURRENT_LIST_DIR}/..")

# Enables CUDA where it is wanted and found; ISOTHERM_HAS_CUDA says whether it is.
macro(isotherm_find_cuda)
  set(ISOTHERM_HAS_CUDA OFF)
  if(ISOTHERM_CUDA AND NOT ISOTHERM_SANITIZE AND NOT ISOTHERM_STATIC)
    if(NOT CMAKE_CUDA_COMPILER)
      execute_process(COMMAND "${isotherm_root}/tools/setup_cuda.sh" --present
        OUTPUT_VARIABLE isotherm_nvcc OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(isotherm_nvcc)
        set(CMAKE_CUDA_COMPILER "${isotherm_nvcc}")
      endif()
    endif()
    if(CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_ARCHITECTURES ${ISOTHERM_CUDA_ARCHITECTURES})
      set(CMAKE_CUDA_RUNTIME_LIBRARY None)
      set(CMAKE_CUDA_FLAGS_RELEASE "")  # isotherm_set_up_cuda: nvcc takes one -O, for the host's code
      enable_language(CUDA)
      set(CMAKE_CUDA_STANDARD 20)
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know of it
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      endif()
      find_library(ISOTHERM_CUDART NAMES libcudart_static.a
        HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
      mark_as_advanced(ISOTHERM_CUDART)
      set(ISOTHERM_HAS_CUDA ON)
    elseif(NOT ISOTHERM_CUDA STREQUAL "AUTO")
      message(FATAL_ERROR "ISOTHERM_CUDA=${ISOTHERM_CUDA}, but there is no nvcc: "
        "run tools/setup_cuda.sh, or set CMAKE_CUDA_COMPILER")
    endif()
  endif()
endmacro()

# What all CUDA code is compiled with; `quickly`: what nobody runs.
function(isotherm_set_up_cuda target quickly)
  set(optimize -O2)
  if(quickly)
    set(optimize -O0 --Ofast-compile=max "SHELL:-Xcompiler --param=ggc-min-heapsize=1048576")
  endif()
  target_compile_options(${target} PRIVATE ${optimize} "SHELL:-Werror all-warnings"
    "SHELL:-Xcompiler -mcx16,-Wall,-Wextra,-Werror")
endfunction()

# A file that includes the given ones, in `result`. Each of them that has a `main` becomes a program of
# its name, listed in `names`.
function(isotherm_unite_cuda result names name)
  set(text)
  set(programs)
  set(calls)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM program)
    file(STRINGS "${source}" mains REGEX "^int main\\(")
    if(mains)
      list(APPEND programs ${program})
      string(APPEND text
        "#define main ${program}_main\n#include \"${source}\"\n#undef main\n")
      string(APPEND calls
        "  if (std::strcmp(name, \"${program}\") == 0) return ${program}_main(argc, argv);\n")
    else()
      string(APPEND text "#include \"${source}\"\n")
    endif()
  endforeach()
  if(programs)
    string(APPEND text "#include <cstring>\nint main(int argc, char** argv) {\n"
      "  const char* slash = std::strrchr(argv[0], '/');\n"
      "  const char* name = slash == nullptr ? argv[0] : slash + 1;\n${calls}  return 64;\n}\n")
  endif()
  set(file "${PROJECT_BINARY_DIR}/united/${name}.cu")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
  set(${result} "${file}" PARENT_SCOPE)
  set(${names} ${programs} PARENT_SCOPE)
endfunction()

# A library of CUDA sources, which programs in C++ may link.
function(isotherm_add_gpu_library target name)
  add_library(${target} STATIC ${ARGN})
  isotherm_set_up_cuda(${target} ${ISOTHERM_CUDA_QUICK})
  if(ISOTHERM_CUDA_QUICK)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES 90-virtual)
  endif()
  # Shared libraries may take it in, as that of the Python package's GPU part does.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  add_library(isotherm::${name} ALIAS ${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC isotherm)
endfunction()

function(isotherm_add_gpu)
  file(GLOB store_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/gpu/store/*.cu")
  isotherm_unite_cuda(united programs gpu_store ${store_sources})
  isotherm_add_gpu_library(isotherm_gpu_store gpu_store "${united}")
  # The linker takes this part, which takes the place of src/gpu/store/no_cuda.cc, wherever it finds it.
  target_link_options(isotherm_gpu_store INTERFACE "LINKER:-u,isotherm_gpu_part")
  target_link_libraries(isotherm_gpu_store INTERFACE
    "$<BUILD_INTERFACE:${ISOTHERM_CUDART}>"
    "$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/isotherm/libcudart_static.a>"
    Threads::Threads ${CMAKE_DL_LIBS} rt)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cu")
  list(REMOVE_ITEM sources ${store_sources})
  isotherm_unite_cuda(united programs gpu_tables ${sources})
  isotherm_add_gpu_library(isotherm_gpu gpu "${united}")
  target_link_libraries(isotherm_gpu PUBLIC isotherm_gpu_store)
endfunction()

# A file with the programs of the given sources, under the name of each.
function(isotherm_add_gpu_programs target)
  isotherm_unite_cuda(united programs ${target} ${ARGN})
  if(ISOTHERM_CUDA_TO_PTX)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL "${united}")
    set_target_properties(${target} PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90-virtual)
  else()
    add_executable(${target} EXCLUDE_FROM_ALL "${united}")
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${ISOTHERM_CUDA_PROGRAMS}" LINKER_LANGUAGE CXX)
    foreach(program IN LISTS programs)
      add_custom_command(TARGET ${target} POST_BUILD COMMAND ln -f "$<TARGET_FILE:${target}>"
        "${ISOTHERM_CUDA_PROGRAMS}/${program}" VERBATIM)
    endforeach()
  endif()
  isotherm_set_up_cuda(${target} ${ISOTHERM_CUDA_TO_PTX})
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(${target} PRIVATE isotherm_gpu isotherm_internal)
endfunction()

function(isotherm_add_all_gpu_programs)
  set(tests "${PROJECT_SOURCE_DIR}/tests/cuda")
  file(GLOB index_tests CONFIGURE_DEPENDS "${tests}/index_kernels*.cu")
  file(GLOB other_tests CONFIGURE_DEPENDS "${tests}/*.cu")
  list(REMOVE_ITEM other_tests ${index_tests})
  file(GLOB benches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/cuda/*.cu")
  isotherm_add_gpu_programs(isotherm-gpu-index-tests ${index_tests})
  isotherm_add_gpu_programs(isotherm-gpu-tests ${other_tests})
  isotherm_add_gpu_programs(isotherm-gpu-benches ${benches})
  isotherm_add_peer(peer_table_bench "${ISOTHERM_CUCO_INCLUDE}")
  isotherm_add_peer(peer_rows_bench "${ISOTHERM_HKV_INCLUDE}")
  add_custom_target(isotherm-gpu-programs
    DEPENDS isotherm-gpu-index-tests isotherm-gpu-tests isotherm-gpu-benches)
endfunction()

# A program of bench/cuda/peers, which includes a peer's headers; none where they are not named.
function(isotherm_add_peer target includes)
  if(NOT includes)
    return()
  endif()
  add_executable(${target} EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/bench/cuda/peers/${target}.cu")
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${ISOTHERM_CUDA_PROGRAMS}" LINKER_LANGUAGE CXX)
  target_include_directories(${target} PRIVATE ${includes} "${PROJECT_SOURCE_DIR}/bench")
  target_compile_options(${target} PRIVATE -O2 --expt-relaxed-constexpr --extended-lambda
    "SHELL:-Xcompiler -mcx16")
  target_link_libraries(${target} PRIVATE isotherm_gpu isotherm_internal)
endfunction()

# The GPU's part of a program, where it is built.
function(isotherm_link_gpu target)
  if(ISOTHERM_HAS_CUDA)
    target_link_libraries(${target} PRIVATE isotherm_gpu_store)
  endif()
endfunction()
