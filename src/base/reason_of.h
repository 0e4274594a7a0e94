// reason_of: what an exception or an errno tells whoever runs a program, in the same words whoever
// met it.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

namespace isotherm {

// The standard library names its own function where a file is the reason, and the file behind that.
inline std::string reason_of(const std::exception& error) {
  const auto* const its = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  return its == nullptr ? error.what() : its->path1().string() + ": " + its->code().message();
}

// `error`: as in errno.
inline std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace isotherm
