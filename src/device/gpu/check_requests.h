// Whether a call's columns can be what its caller means; std::invalid_argument says what is
// missing.
#pragma once

#include <stdexcept>

#include "device/gpu/request_op.h"

namespace isotherm {

inline void check_requests(const DeviceRequests& requests) {
  if (requests.keys == nullptr) throw std::invalid_argument("requests without keys");
  if ((requests.values_out == nullptr) != (requests.found == nullptr)) {
    throw std::invalid_argument("values_out and found must both be given, or neither");
  }
  if (is_gets(requests) && requests.found == nullptr) {
    throw std::invalid_argument("gets without replies");
  }
}

}  // namespace isotherm
