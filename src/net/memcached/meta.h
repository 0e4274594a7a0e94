// Meta commands of memcached (mg, ms, md, ma, me): their flags, and what they ask of the store.
//
// A flag is a word: a letter, with a token behind it for some. `parse_meta_flags` reads those that
// change what is done; those that say what is shown are read again when the answer is written
// (meta_writer.h). Which flags there are, and what is said to a wrong one, is memcached
// 1.6.18's.
//
// A key in base64 is decoded into the command, so commands stay where they are until their answer
// is written: `MetaCommands` holds those of a turn, and a thread keeps some for the next.
//
// Threads. Those of a connection belong to its loop.
// Limits. 18 words behind the key; opaque tokens of 31 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "items/meta_request.h"
#include "net/memcached/limits.h"

namespace isotherm::net {

struct MetaCommand : MetaRequest {
  static constexpr size_t words_max = 19;         // the name and the key included
  static constexpr size_t opaque_bytes_max = 32;  // its letter included
  std::string_view key;                           // as stored
  bool in_base64 = false;
  bool quiet = false;
  bool wants_value = false;
  char mode_letter = 0;
  bool opaque_too_long = false;
  uint32_t client_flags = 0;
  int64_t expiry = no_expiry;        // of T
  int64_t first_expiry = no_expiry;  // of N
  int64_t now_ms = 0;
  std::array<char, 3 * (memcached_key_bytes_max + 3) / 4> decoded;
};

// Reads the flags for the key in `command`; what is wrong with them, or nothing.
std::string_view parse_meta_flags(std::string_view flags, int64_t now_ms, MetaCommand& command);

// As memcached decodes: what is no letter of base64 is skipped, and what follows a padded group
// ignored. 0: nothing, or wrongly padded.
size_t decode_base64(std::string_view text, char* bytes);
void encode_base64(std::string_view bytes, std::string& text);

class MetaCommands {
 public:
  // Keeps a copy of the command, which stays where it is.
  MetaCommand& keep(const MetaCommand& command);
  // Forgets the commands of the turn, whose answers are written.
  void clear() {
    if (!list_.empty()) give_back();
  }

 private:
  static constexpr size_t most_spares = 256;
  using List = std::vector<std::unique_ptr<MetaCommand>>;
  static List& spares();
  void give_back();
  List list_;
};

}  // namespace isotherm::net
