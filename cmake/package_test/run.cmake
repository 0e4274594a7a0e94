# Installs BUILD into a temporary prefix and builds and runs the examples against it.
# CUDA_INCLUDE: the CUDA compiler's header folder, where the GPU's part was built.
set(work "${BUILD}/package-test")
file(REMOVE_RECURSE "${work}")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${work}/prefix")
run(${CMAKE_COMMAND} -S "${SOURCE}/cmake/package_test" -B "${work}/build" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${work}/prefix"
  "-DEXAMPLES=${SOURCE}/examples" "-DCUDA_INCLUDE=${CUDA_INCLUDE}")
run(${CMAKE_COMMAND} --build "${work}/build")
run(${CMAKE_CTEST_COMMAND} --test-dir "${work}/build" --output-on-failure)
file(REMOVE_RECURSE "${work}")
