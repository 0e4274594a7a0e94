// How a Db says what became of a call: from the reply of a row, and from what was thrown.
//
// Threads. Any.
#pragma once

#include "isotherm/db_status.h"
#include "isotherm/status.h"

namespace isotherm {

// What became of a row.
DbStatus status_of(Status status);

// Of the exception that is handled.
DbStatus status_of_exception();

// Of what `work` returns, or throws.
template <class Work>
DbStatus guarded(Work&& work) {
  try {
    return work();
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace isotherm
