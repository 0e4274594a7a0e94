// item_hash: the hash of a byte-string key on the GPU; 64 bits, seeded.
//
// The host's XXH3 cannot be compiled for the GPU as it is (its functions are the host's alone, and
// its secret lies in host memory), and hashes of device items never leave the device, so this is a
// hash of its own. Each unit of 16 bytes is folded into the state by one 64 × 64 → 128 bit
// multiplication of its halves, each under a secret that comes from the seed. Both halves of the
// product are xored onto the factors, so a factor that happens to be 0 loses nothing of the other.
// The length is part of the start, so the zeros behind the last byte tell no lies, and the end goes
// through the bijection of integer keys (base/hash.h), which mixes all bits.
//
// It is no cryptographic hash. Keys that collide cost time, never a wrong answer
// (gpu/items/item_exact_kernels.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "gpu/items/byte_units.h"

namespace isotherm {

// `mask`: the bits of the hash that count; tests make keys collide with few of them.
struct ItemHash {
  uint64_t seed = 0;
  uint64_t mask = ~uint64_t{0};

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t operator()(const char* key, uint64_t bytes,
                                                           ByteRange readable) const {
    return of_units(
        bytes, [&](uint64_t at, uint32_t some) { return load_unit(key + at, some, readable); });
  }
  // The same of a key that the host has.
  uint64_t of_host(std::string_view key) const {
    return of_units(key.size(), HostUnits{key.data()});
  }
  // The same of a key wherever it lies: load(at, some) gives its bytes from `at` on, 1 to 16 of
  // them, and zeros behind them.
  template <class Load>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t of_units(uint64_t bytes, Load&& load) const {
    const uint64_t secret = mix(0x2545f4914f6cdd1dULL, seed);
    uint64_t state = mix(bytes, seed);
    for (uint64_t at = 0; at < bytes; at += unit_bytes) {
      const uint64_t left = bytes - at;
      const auto some = static_cast<uint32_t>(left < unit_bytes ? left : unit_bytes);
      state = fold(load(at, some), state, secret);
    }
    return mix(state, ~seed) & mask;
  }

 private:
  // With zeros behind the end. The hash is compiled for devices, too.
  struct HostUnits {
    const char* key;
    ISOTHERM_HOST_DEVICE Pair operator()(uint64_t at, uint32_t some) const {
      uint64_t halves[2] = {};
      std::memcpy(halves, key + at, some);
      return {halves[0], halves[1]};
    }
  };

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t fold(Pair unit, uint64_t state,
                                                            uint64_t secret) {
    const uint64_t a = unit.first ^ state;
    const uint64_t b = unit.second ^ secret;
#if defined(__CUDA_ARCH__)
    const uint64_t low = a * b;
    const uint64_t high = __umul64hi(a, b);
#else
    const pair_internal::Unit product = static_cast<pair_internal::Unit>(a) * b;
    const auto low = static_cast<uint64_t>(product);
    const auto high = static_cast<uint64_t>(product >> 64);
#endif
    const uint64_t x = a ^ low;
    const uint64_t y = b ^ high;
    return x ^ (y << 29 | y >> 35);
  }
};

}  // namespace isotherm
