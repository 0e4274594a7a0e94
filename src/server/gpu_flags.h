// The server's options about GPUs: what lies there, and when requests go there.
//
// Threads. One. Errors. CLI::ValidationError, when the words are read.
#pragma once

#include <CLI/CLI.hpp>

#include "isotherm/options.h"

namespace isotherm {

void add_gpu_options(CLI::App& app, Options& store);

}  // namespace isotherm
