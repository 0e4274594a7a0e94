// RespCodec: Redis's protocol (RESP2) seen from the client.
//
// Reads of one key are GET, of several MGET; SET, DEL and SCAN do the rest. Lengths in replies are
// read as 64-bit numbers and bounded before they are used.
//
// Threads. As Codec.
#pragma once

#include "isotherm_bench/codec.h"

namespace isotherm::bench {

class RespCodec final : public Codec {
 public:
  RespCodec(const Workload& workload, bool verify);

  void get(std::span<const uint64_t> keys, std::string& out) override;
  void set(uint64_t key, uint64_t value_size, std::string& out) override;
  void erase(uint64_t key, std::string& out) override;
  void scan(uint64_t cursor, uint32_t count, std::string& out) override;
  ParsedReply parse(std::string_view input, const Expected& expected) override;

 private:
  void append_key_argument(uint64_t key, std::string& out) const;
  static void append_number_argument(uint64_t number, std::string& out);

  std::string key_header_;  // "$16\r\n" for keys of 16 bytes
};

}  // namespace isotherm::bench
