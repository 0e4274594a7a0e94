// The module isotherm._core. Python's part of the package, isotherm/*.py, documents it.
#define ISOTHERM_IMPORTS_NUMPY
#include "module.h"

#include "arrays.h"
#include "one_process.h"

namespace {

bool import_numpy() {
  import_array1(false);
  return true;
}

}  // namespace

NB_MODULE(_core, module) {
  if (!import_numpy()) throw nanobind::python_error();
  // What threads and frames still have when the process ends is no leak.
  nanobind::set_leak_warnings(false);
  isotherm::python::count_forks();
  isotherm::python::add_table(module);
  isotherm::python::add_arrow(module);
  isotherm::python::add_store(module);
  isotherm::python::add_feature_columns(module);
  isotherm::python::add_gpu(module);
  isotherm::python::add_gpu_items(module);
  isotherm::python::add_gpu_strings(module);
}
