// MemcachedCodec: memcached's text protocol seen from the client.
//
// A get answers its hits only, in the order of the keys asked for, so misses are what is left over.
// There is no scan.
//
// Threads. As Codec.
#pragma once

#include "isotherm_bench/codec.h"

namespace isotherm::bench {

class MemcachedCodec final : public Codec {
 public:
  using Codec::Codec;

  void get(std::span<const uint64_t> keys, std::string& out) override;
  void set(uint64_t key, uint64_t value_size, std::string& out) override;
  void erase(uint64_t key, std::string& out) override;
  void scan(uint64_t cursor, uint32_t count, std::string& out) override;
  ParsedReply parse(std::string_view input, const Expected& expected) override;

 private:
  ParsedReply parse_values(std::string_view input, std::span<const uint64_t> keys);
  // Drops keys up to and including the one named `name`; false where none is.
  bool find_key(std::string_view name, std::span<const uint64_t>& keys);

  std::string key_;  // scratch
};

}  // namespace isotherm::bench
