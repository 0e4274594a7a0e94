// Workload: what the load consists of: mix, keys, values.
//
// A `Workload` is a description, the same for every system under test and every round. A `KeySpace`
// counts the keys one system holds (inserts make it grow). A `Requester` is one thread's stream of
// operations: the same seed and stream give the same operations, so peers get the same load.
//
// Keys. Key number n is written in base 64 (digits, letters, '-', '_') as the last up to 11
// characters of a key of fixed length, with 'k' in front: printable, so both protocols can carry
// it. Values. Every 8 bytes of key n's value are the same word, made from n: a reply can be checked
// without keeping what was written.
//
// Threads. Workload is immutable while a load runs, KeySpace is shared, a Requester has one owner.
// Limits. Keys of 1 to 65,535 bytes; as many records as 64^min(key size, 10).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "isotherm_bench/distribution.h"
#include "isotherm_bench/random.h"

namespace isotherm::bench {

enum class Operation : uint8_t {
  read,               // of keys_per_read keys at once
  update,             // stores a new value for a present key
  insert,             // stores a key that is not there yet
  scan,               // up to scan_length items
  read_modify_write,  // a read, and when it is answered an update of the same key
  erase,
};
inline constexpr size_t operation_count = 6;
std::string_view to_string(Operation operation);

// Shares in percent, by Operation.
using Mix = std::array<double, operation_count>;
// "read=95,update=5"; the error is for the user.
std::optional<Mix> parse_mix(std::string_view text, std::string* error);
std::string to_string(const Mix& mix);

struct Workload {
  std::string name = "custom";
  Mix mix = {95, 5, 0, 0, 0, 0};
  Distribution distribution = Distribution::zipf;
  double theta = 0.99;
  uint64_t records = 1'000'000;
  uint32_t key_size = 16;
  uint64_t value_size_min = 32;
  uint64_t value_size_max = 32;
  uint32_t keys_per_read = 1;
  uint32_t scan_length = 100;
  bool hot_updates = true;  // false: updates choose their key uniformly (H-Rocks, section 7.4)
  uint64_t seed = 1;

  double share(Operation operation) const { return mix[static_cast<size_t>(operation)]; }
};

// How many keys the given key size can tell apart.
uint64_t key_capacity(uint32_t key_size);
// Writes key `number` to `out`, which has room for key_size bytes.
void write_key(uint64_t number, uint32_t key_size, char* out);
// Writes a value of key `number`: a word of 8 bytes again and again.
inline uint64_t value_word(uint64_t number) { return mix(number, 0x5ca1ab1e); }
void write_value(uint64_t number, uint64_t size, char* out);
// Most values that are checked one behind the other have 8 bytes.
inline bool value_belongs(uint64_t number, std::string_view value) {
  const uint64_t word = value_word(number);
  uint64_t head = 0;
  if (value.size() < sizeof word) {
    return value.empty() || std::memcmp(value.data(), &word, value.size()) == 0;
  }
  std::memcpy(&head, value.data(), sizeof head);
  const size_t rest = value.size() - sizeof word;
  // All further bytes repeat those eight places before them.
  return head == word &&
         (rest == 0 || std::memcmp(value.data(), value.data() + sizeof word, rest) == 0);
}

// The keys that one system under test holds: numbers [0, present).
struct KeySpace {
  std::atomic<uint64_t> next{0};     // the number the next insert takes
  std::atomic<uint64_t> present{0};  // inserts answered; reads stay below
  uint64_t limit = ~uint64_t{0};     // inserts stop here
};

struct Request {
  Operation operation = Operation::read;
  uint64_t key = 0;         // number; of a scan: the cursor
  uint64_t value_size = 0;  // of what is stored
  uint32_t count = 1;       // keys of a read, items of a scan
};

class Requester {
 public:
  Requester(const Workload& workload, KeySpace& keys, uint64_t stream);

  // The next operation; none when the key space's limit is reached.
  std::optional<Request> next();
  // A further key for a read of several.
  uint64_t draw_key();
  uint64_t draw_value_size();

  Random& random() { return random_; }

 private:
  Operation draw_operation();

  const Workload& workload_;
  KeySpace& keys_;
  Random random_;
  Zipf zipf_;
  Scramble scramble_;
  std::array<double, operation_count> limits_;  // cumulated chances
};

}  // namespace isotherm::bench
