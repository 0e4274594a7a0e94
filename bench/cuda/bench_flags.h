// Flags of the programs that measure a GPU: each has a name and takes one value.
//
// Wrong flags end the program with 64 and say how it is called.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace isotherm::bench {

struct Flag {
  const char* name;
  std::function<bool(const char* text)> take;  // false where it cannot be what is meant
};

// A number above 0, or a text, which goes to `to`.
template <class T>
Flag flag(const char* name, T& to) {
  return {name, [&to](const char* text) {
            char* end = nullptr;
            if constexpr (std::is_same_v<T, std::string>) {
              to = text;
              return true;
            } else if constexpr (std::is_floating_point_v<T>) {
              to = std::strtod(text, &end);
            } else {
              to = static_cast<T>(std::strtoull(text, &end, 10));
            }
            if constexpr (!std::is_same_v<T, std::string>) return *end == '\0' && to > 0;
          }};
}

// Takes the flags; false, said on standard output, where there is no GPU to measure.
inline bool begin_bench(const char* program, int argc, char** argv,
                        const std::vector<Flag>& flags) {
  const auto take = [&](const char* name, const char* text) {
    for (const Flag& one : flags) {
      if (one.name == std::string(name)) return text != nullptr && one.take(text);
    }
    return false;
  };
  for (int i = 1; i < argc; i += 2) {
    if (take(argv[i], i + 1 < argc ? argv[i + 1] : nullptr)) continue;
    std::fprintf(stderr, "%s", program);
    for (const Flag& one : flags) std::fprintf(stderr, " [%s VALUE]", one.name);
    std::fprintf(stderr, "\n");
    std::exit(64);
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices != 0) return true;
  std::printf("skipped: no GPU\n");
  return false;
}

}  // namespace isotherm::bench
