#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace isotherm {
namespace {

inline uint64_t hash_one(std::string_view key, uint64_t seed) {
  const uint64_t hash = XXH3_64bits_withSeed(key.data(), key.size(), seed);
  return hash != 0 ? hash : 1;
}

}  // namespace

uint64_t hash_bytes(std::string_view key, uint64_t seed) { return hash_one(key, seed); }

// Without a call for each key.
[[gnu::flatten]] void hash_bytes(const std::string_view* keys, size_t count, uint64_t seed,
                                 uint64_t* hashes) {
  for (size_t i = 0; i < count; ++i) hashes[i] = hash_one(keys[i], seed);
}

}  // namespace isotherm
