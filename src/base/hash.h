// Hashes: 64-bit, seeded.
//
// Byte strings are hashed with XXH3 (64 bits, seeded); the result 0 is replaced by 1, since hash 0
// marks an empty slot. Integers go through a seeded bijection (xor, then two rounds of multiply and
// shift), so equal hashes mean equal keys; `unmix` inverts it, which tests use to find the key of a
// given hash.
//
// An index never sees keys, only hashes; code that looks up byte strings compares the keys itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/macros.h"

namespace isotherm {

// The hash of a byte string; never 0.
uint64_t hash_bytes(std::string_view key, uint64_t seed);

// The hashes of `count` byte strings.
void hash_bytes(const std::string_view* keys, size_t count, uint64_t seed, uint64_t* hashes);

// The hash of a key of a database beside those of others, of its hash.
constexpr uint64_t hash_in(uint32_t database, uint64_t hash) {
  return hash + database * 0x9E37'79B9'7F4A'7C15;
}

// The bijection of integer keys.
ISOTHERM_HOST_DEVICE constexpr uint64_t mix(uint64_t key, uint64_t seed) {
  uint64_t x = key ^ seed;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ULL;
  x ^= x >> 32;
  return x;
}

// The key whose mix is `hash`.
ISOTHERM_HOST_DEVICE constexpr uint64_t unmix(uint64_t hash, uint64_t seed) {
  constexpr uint64_t inverse = 0xcfee444d8b59a89bULL;  // of the multiplier, modulo 2^64
  uint64_t x = hash;
  x ^= x >> 32;
  x *= inverse;
  x ^= x >> 32;
  x *= inverse;
  x ^= x >> 32;
  return x ^ seed;
}

}  // namespace isotherm
