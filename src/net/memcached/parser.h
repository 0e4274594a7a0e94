// MemcachedParser: turns the bytes of one connection into requests of a batch and pending answers.
//
// A state machine over borrowed input:
//
//   line ──"set …" with its block──▶ line      a block is parsed once it is there as a whole
//     │
//     ├──item too large──▶ swallow ──▶ line    the block is dropped as it arrives, never buffered
//     ├──get of very many keys──▶ keys ──▶ line    the rest of the keys waits for the next turn
//     └──quit, HTTP, binary protocol, an endless line──▶ closing    (the third is told why)
//
// Nothing is scanned twice while a request arrives in pieces: `scanned_` says how much of the front
// is known to hold no line end, `wanted_` how many bytes the block at the front needs.
//
// A block whose end is not "\r\n" is an error, and the next line begins right behind the bytes that
// the length announced: memcached does not look for the end of the block, so neither does this.
//
// A turn takes no more rows than the caller allows, few that show values before a command that must
// be answered (protocol.h), and few appends to long values (copy_ration.h): what is left waits
// until the socket has taken the answers. Only the keys of a get are divided; the answer of each
// part but the last is `unfinished`.
//
// Threads. Belongs to its connection's loop. Allocates only to grow `answers`.
// Limits. Keys of 250 bytes; an item (key, value and memcached's own overhead) of 1 MiB, unless the
// turn says another limit, as memcached's -I; a line without end of 2,048 bytes, or of
// `long_line_bytes` when it begins with get or gets. Lengths are compared in 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isotherm/batch.h"
#include "net/copy_ration.h"
#include "net/memcached/answer.h"
#include "net/memcached/limits.h"
#include "net/memcached/line.h"
#include "net/memcached/meta.h"
#include "net/memcached_prefixes.h"
#include "net/protocol.h"

namespace isotherm::net {

class MemcachedParser {
 public:
  static constexpr size_t long_line_bytes = 1 << 20;

  // What a turn gives the parser: the time, how many rows it may add, and where to put them.
  struct Turn {
    int64_t now_ms;
    Batch::Row rows_left;
    Batch& batch;
    std::vector<MemcachedAnswer>& answers;
    // How many of them may show values before a command that is no get; behind requests that wait,
    // how many in all.
    Batch::Row reads_left = std::numeric_limits<Batch::Row>::max();
    CopyRation* copies = nullptr;          // what append and prepend take from; null: no ration
    bool pausing = false;                  // set when that is used up
    const WaitingKeys* waiting = nullptr;  // which what is parsed may not pass; null: none
    uint64_t item_bytes_max = memcached_item_bytes_max;
    bool flushes = true;                    // flush_all is allowed
    bool dumps = true;                      // stats cachedump is
    bool tracks_sizes = false;              // stats sizes shows them
    MemcachedPrefixes* prefixes = nullptr;  // which sets and deletes are told to; null: none
    bool flush_ends_it = false;             // nothing behind a flush is parsed in it

    bool fits(uint64_t key_bytes, uint64_t value_bytes, uint32_t flags) const {
      return memcached_item_bytes(key_bytes, value_bytes, flags) <= item_bytes_max;
    }
    // Answers with a text that stays where it is.
    void say(std::string_view text, bool silent = false) const {
      if (!silent) answers.push_back({.text = text});
    }
  };

  // Appends the complete commands at the front of `input` to the turn's batch and answers and
  // returns the bytes consumed; stops behind a command that runs alone and when no rows are left.
  size_t parse(std::string_view input, Turn turn);

  // The meta commands of this turn, to which their rows refer.
  MetaCommands& meta_commands() { return meta_commands_; }

  // How many answers of the last parse must be given: commands that did something, and those
  // before.
  size_t fixed_answers() const { return fixed_answers_; }
  // Parses on with the key at `key` of a get, which it has parsed; the input then begins there.
  void take_back(const MemcachedAnswer& answer, const char* key);

  // The block that is only partly there, where it may come by another way; without bytes where that
  // is none. `begin` is where it begins in the input.
  struct Partial {
    size_t begin = 0;
    size_t key_bytes = 0;
    uint64_t bytes = 0;
  };
  Partial partial() const { return partial_; }
  // Its bytes come by another way, and will be `block`; the input goes on behind them.
  void divert(std::string_view block) {
    diverted_ = block;
    wanted_ = partial_.begin + 2;
    partial_ = {};
  }
  bool diverts() const { return diverted_.data() != nullptr; }

  // True when the last parse stopped though more could be parsed.
  bool stopped_early() const { return stopped_early_; }
  bool closing() const { return closing_; }
  size_t wanted() const { return wanted_; }

 private:
  // A line of the front: its text, and the input from its first byte on.
  struct Line {
    std::string_view text;
    std::string_view input;
    size_t bytes;  // of input, line end included
  };
  struct Command {
    std::string_view name;
    MemcachedVerb verb;
    size_t min_words;
    size_t max_words;
  };
  struct Item;
  // A get whose keys wait for the next turn.
  struct Keys {
    MemcachedVerb verb;
    int64_t expiry;
    size_t key_bytes;   // of input, up to the end of the last key
    size_t line_bytes;  // of input, line end included
  };

  static const Command* find_command(std::string_view name);

  size_t refuse_binary(std::string_view input, const Turn& turn);
  size_t parse_front(std::string_view input, Turn& turn);
  size_t run_more_keys(std::string_view input, Turn& turn);
  size_t swallow(size_t available);
  bool find_line(std::string_view input, Line& line);
  size_t run_line(const Line& line, Turn& turn);
  size_t stop_early();
  static bool stays_behind(std::string_view line, const WaitingKeys& waiting);
  void unknown(std::string_view name, const Line& line, Turn& turn);

  size_t run_change(const Command* command, std::string_view name, std::string_view rest,
                    const Line& line, Turn& turn);
  size_t run_get(const Command& command, std::string_view keys, const Line& line, Turn& turn);
  size_t run_get_and_touch(MemcachedVerb verb, std::string_view rest, const Line& line, Turn& turn);
  size_t run_keys(const Keys& keys, std::string_view input, Turn& turn);
  size_t run_store(MemcachedVerb verb, const Words& words, const Line& line, Turn& turn);
  static const Command* find_meta_command(std::string_view name);
  size_t run_meta(MemcachedVerb verb, std::string_view rest, const Line& line, Turn& turn);
  bool run_plain_get(std::string_view rest, Turn& turn);
  size_t run_meta_set(MetaCommand& command, std::string_view rest, const Line& line, Turn& turn);
  void put_meta(MemcachedVerb verb, const MetaCommand& command, std::string_view value,
                std::string_view flags, Turn& turn);
  static void note_set(const Item& item, Turn& turn);
  size_t refuse_item(MemcachedVerb verb, const Item& item, const Line& line, Turn& turn);
  void put_item(MemcachedVerb verb, const Item& item, std::string_view value, Turn& turn);
  void run_arithmetic(MemcachedVerb verb, const Words& words, Turn& turn);
  void run_delete(const Words& words, Turn& turn);
  void run_touch(const Words& words, Turn& turn);
  void run_flush(const Words& words, Turn& turn);
  void run_stats(const Words& words, Turn& turn);
  void run_other(MemcachedVerb verb, const Words& words, Turn& turn);

  bool fresh_ = true;           // nothing of the connection has been seen
  std::string binary_refusal_;  // what its answer refers to
  bool closing_ = false;
  size_t scanned_ = 0;  // bytes at the front without a line end
  size_t wanted_ = 0;   // bytes that the command at the front needs; 0: unknown
  Partial partial_;
  std::string_view diverted_;
  uint64_t swallow_ = 0;  // bytes of a refused block still to come
  bool stopped_early_ = false;
  size_t fixed_answers_ = 0;
  std::optional<Keys> keys_;  // at the front
  MetaCommands meta_commands_;
};

}  // namespace isotherm::net
