// The module isotherm._core. Python's part of the package, isotherm/*.py, documents it.
#define ISOTHERM_IMPORTS_NUMPY
#include "module.h"

#include <exception>

#include "arrays.h"
#include "one_process.h"

namespace {

bool import_numpy() {
  import_array1(false);
  return true;
}

// A thread that Python ends while it waits for the GIL, in what was called from here, is unwound
// without an exception, which nothing can translate.
void stop_ended_threads(const std::exception_ptr& thrown, void* /*payload*/) {
  if (thrown == nullptr) isotherm::python::wait_for_the_end();
  std::rethrow_exception(thrown);
}

}  // namespace

NB_MODULE(_core, module) {
  if (!import_numpy()) throw nanobind::python_error();
  // What threads and frames still have when the process ends is no leak.
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator(stop_ended_threads);
  isotherm::python::count_forks();
  isotherm::python::add_table(module);
  isotherm::python::add_arrow(module);
  isotherm::python::add_store(module);
  isotherm::python::add_feature_columns(module);
  isotherm::python::add_gpu(module);
  isotherm::python::add_gpu_items(module);
  isotherm::python::add_gpu_strings(module);
}
