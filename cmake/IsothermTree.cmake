# The library isotherm_tree: the files of a tree (--tree), by RocksDB. A program that links it has them;
# in all others `open_tree_files` says that there is none (src/tree/no_rocksdb.cc). And isotherm_rocksdb: a
# Db as a rocksdb::DB.
set(ISOTHERM_ROCKSDB AUTO CACHE STRING "Build with RocksDB: ON, OFF, or AUTO (where it is found)")

function(isotherm_add_tree)
  # RocksDB's own library is not instrumented: the thread sanitizer would report races that are none.
  if(NOT ISOTHERM_ROCKSDB OR ISOTHERM_STATIC OR ISOTHERM_SANITIZE MATCHES "thread")
    return()
  endif()
  find_library(ISOTHERM_ROCKSDB_LIBRARY NAMES rocksdb)
  find_path(ISOTHERM_ROCKSDB_INCLUDE rocksdb/sst_file_writer.h)
  mark_as_advanced(ISOTHERM_ROCKSDB_LIBRARY ISOTHERM_ROCKSDB_INCLUDE)
  if(NOT ISOTHERM_ROCKSDB_LIBRARY OR NOT ISOTHERM_ROCKSDB_INCLUDE)
    if(NOT ISOTHERM_ROCKSDB STREQUAL "AUTO")
      message(FATAL_ERROR "ISOTHERM_ROCKSDB=${ISOTHERM_ROCKSDB}, but there is no RocksDB: "
        "install librocksdb-dev")
    endif()
    return()
  endif()
  add_library(isotherm_tree STATIC "${PROJECT_SOURCE_DIR}/src/tree/rocksdb_files.cc")
  target_include_directories(isotherm_tree SYSTEM PRIVATE "${ISOTHERM_ROCKSDB_INCLUDE}")
  target_link_libraries(isotherm_tree PUBLIC $<BUILD_INTERFACE:isotherm_internal> isotherm
    "${ISOTHERM_ROCKSDB_LIBRARY}")
  set_target_properties(isotherm_tree PROPERTIES EXPORT_NAME tree POSITION_INDEPENDENT_CODE ON)
  add_library(isotherm::tree ALIAS isotherm_tree)
  # The linker takes this part, wherever it finds it.
  target_link_options(isotherm_tree INTERFACE "LINKER:-u,isotherm_tree_part")

  isotherm_glob_sources(sources stackable)
  add_library(isotherm_rocksdb STATIC ${sources})
  isotherm_unite(isotherm_rocksdb)
  target_include_directories(isotherm_rocksdb SYSTEM PUBLIC "${ISOTHERM_ROCKSDB_INCLUDE}")
  target_link_libraries(isotherm_rocksdb PUBLIC $<BUILD_INTERFACE:isotherm_internal> isotherm_tree)
  set_target_properties(isotherm_rocksdb PROPERTIES EXPORT_NAME rocksdb
    POSITION_INDEPENDENT_CODE ON)
  add_library(isotherm::rocksdb ALIAS isotherm_rocksdb)
endfunction()

# The tree's files in a program, where they are built.
function(isotherm_link_tree target)
  if(TARGET isotherm_tree)
    target_link_libraries(${target} PRIVATE isotherm_tree)
  endif()
endfunction()
