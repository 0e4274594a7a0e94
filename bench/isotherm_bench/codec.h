// Codec: a protocol seen from the client: writes commands, checks replies.
//
// `parse` looks at the front of what was received and either takes exactly one whole reply or
// nothing; it keeps no state, so a reply that arrives in pieces is looked at again from its start.
// Every byte is checked against what the command may answer: anything else, an error reply above
// all, fails the run with the words received.
//
// Threads. Codecs keep no state between calls but a scratch buffer; one for each client thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "isotherm_bench/workload.h"

namespace isotherm::bench {

enum class WireProtocol : uint8_t { redis, memcached };
std::string_view to_string(WireProtocol protocol);

// What an answer is expected to: the command sent.
enum class Command : uint8_t { get, set, erase, scan };

struct Expected {
  Command command = Command::get;
  std::span<const uint64_t> keys;  // of a get, in order
};

struct ParsedReply {
  enum class State : uint8_t { incomplete, complete, failed };
  State state = State::incomplete;
  size_t bytes = 0;  // of a complete reply
  uint32_t hits = 0;
  uint32_t misses = 0;
  uint32_t scanned = 0;
  std::string error;  // of a failed one
};

class Codec {
 public:
  // `verify`: values must be those of their keys.
  Codec(const Workload& workload, bool verify) : workload_(workload), verify_(verify) {}
  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  // Each appends one command to `out`.
  virtual void get(std::span<const uint64_t> keys, std::string& out) = 0;
  virtual void set(uint64_t key, uint64_t value_size, std::string& out) = 0;
  virtual void erase(uint64_t key, std::string& out) = 0;
  virtual void scan(uint64_t cursor, uint32_t count, std::string& out) = 0;

  virtual ParsedReply parse(std::string_view input, const Expected& expected) = 0;

 protected:
  void append_key(uint64_t key, std::string& out) const;
  void append_value(uint64_t key, uint64_t size, std::string& out) const;
  // The value of `key` has an allowed size and, where asked for, the right bytes.
  bool value_fits(uint64_t key, std::string_view value) const;
  static ParsedReply failed(std::string_view what, std::string_view received);

  const Workload& workload_;
  const bool verify_;
};

std::unique_ptr<Codec> make_codec(WireProtocol protocol, const Workload& workload, bool verify);

}  // namespace isotherm::bench
