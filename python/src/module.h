// The parts of the module isotherm._core, each of which adds its classes.
#pragma once

#include <nanobind/nanobind.h>

namespace isotherm::python {

void add_table(nanobind::module_& module);
void add_arrow(nanobind::module_& module);
void add_store(nanobind::module_& module);
void add_feature_columns(nanobind::module_& module);
void add_gpu(nanobind::module_& module);
void add_gpu_items(nanobind::module_& module);
void add_gpu_strings(nanobind::module_& module);

}  // namespace isotherm::python
