// DeviceError: the device failed; what lay in its memory is lost.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

namespace isotherm {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// For calls that only a failing device refuses.
inline void require_device(bool done, const char* what) {
  if (!done) throw DeviceError(std::string("the device failed: ") + what);
}

}  // namespace isotherm
