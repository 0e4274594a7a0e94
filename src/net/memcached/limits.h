// Limits of memcached's requests, and its answers to requests that are wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace isotherm::net {

inline constexpr size_t memcached_key_bytes_max = 250;
// 32 bits are memcached's: a longer length is no number to it, and two more bytes must fit.
inline constexpr int64_t longest_block = std::numeric_limits<int32_t>::max() - 2;

inline constexpr std::string_view bad_format_answer = "CLIENT_ERROR bad command line format\r\n";
inline constexpr std::string_view bad_expiry_answer = "CLIENT_ERROR invalid exptime argument\r\n";
inline constexpr std::string_view error_answer = "ERROR\r\n";
inline constexpr std::string_view bad_chunk_answer = "CLIENT_ERROR bad data chunk\r\n";
inline constexpr std::string_view no_flush_answer = "CLIENT_ERROR flush_all not allowed\r\n";
inline constexpr std::string_view too_large_answer = "SERVER_ERROR object too large for cache\r\n";

// What memcached's item takes besides key and value: header, cas, a NUL behind the key, and the
// line end of the value.
inline constexpr uint64_t memcached_item_overhead = 48 + 8 + 1 + 2;
constexpr uint64_t memcached_item_bytes(uint64_t key_bytes, uint64_t value_bytes, uint32_t flags) {
  return memcached_item_overhead + key_bytes + value_bytes + (flags != 0 ? sizeof flags : 0);
}
// The limit on the item that it would make, unless it is told another.
inline constexpr uint64_t memcached_item_bytes_max = 1 << 20;

}  // namespace isotherm::net
