// Poison: makes reads of freed items show.
//
// With ISOTHERM_POISON a freed item is filled with 0xDD; under the address sanitizer any access to
// it fails until it is handed out again. Without ISOTHERM_POISON nothing happens.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define ISOTHERM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ISOTHERM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ISOTHERM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ISOTHERM_SANITIZED 1
#endif
#endif

#if defined(ISOTHERM_ASAN)
#define ISOTHERM_SANITIZED 1
#include <sanitizer/asan_interface.h>
#endif

namespace isotherm::poison {

#if defined(ISOTHERM_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

#if defined(ISOTHERM_POISON)
inline constexpr bool enabled = true;
#else
inline constexpr bool enabled = false;
#endif

inline constexpr int pattern = 0xDD;

// The item at `memory` was freed.
inline void freed([[maybe_unused]] char* memory, [[maybe_unused]] uint64_t bytes) {
  if constexpr (enabled) {
    std::memset(memory, pattern, bytes);
#if defined(ISOTHERM_ASAN)
    __asan_poison_memory_region(memory, bytes);
#endif
  }
}

// The memory may be used again, for an item or for anything.
inline void usable([[maybe_unused]] char* memory, [[maybe_unused]] uint64_t bytes) {
#if defined(ISOTHERM_ASAN)
  if constexpr (enabled) __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace isotherm::poison
