# `cmake --install`: programs, library, public headers and the package for find_package(isotherm).
include(CMakePackageConfigHelpers)

add_custom_target(isotherm-libraries DEPENDS isotherm)
install(TARGETS isotherm EXPORT isotherm-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/isotherm"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
foreach(program isotherm-server isotherm-check isotherm-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

set(isotherm_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/isotherm")
install(EXPORT isotherm-targets NAMESPACE isotherm:: DESTINATION ${isotherm_package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/isotherm-config.cmake.in"
  "${PROJECT_BINARY_DIR}/isotherm-config.cmake" INSTALL_DESTINATION ${isotherm_package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/isotherm-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
if(TARGET isotherm_tree)
  add_dependencies(isotherm-libraries isotherm_rocksdb)
  install(TARGETS isotherm_tree isotherm_rocksdb EXPORT isotherm-tree-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT isotherm-tree-targets NAMESPACE isotherm:: DESTINATION ${isotherm_package_dir})
endif()
if(ISOTHERM_HAS_CUDA)
  add_dependencies(isotherm-libraries isotherm_gpu)
  install(TARGETS isotherm_gpu isotherm_gpu_store EXPORT isotherm-gpu-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # With the runtime that they were compiled for, so that their users need no CUDA compiler.
  install(FILES "${ISOTHERM_CUDART}" DESTINATION ${CMAKE_INSTALL_LIBDIR}/isotherm)
  install(EXPORT isotherm-gpu-targets NAMESPACE isotherm:: DESTINATION ${isotherm_package_dir})
endif()
install(FILES "${PROJECT_BINARY_DIR}/isotherm-config.cmake"
  "${PROJECT_BINARY_DIR}/isotherm-config-version.cmake" DESTINATION ${isotherm_package_dir})
