#include "net/memcached/parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/memcached/admin.h"
#include "net/memcached/limits.h"
#include "net/memcached_shared.h"

namespace isotherm::net {
namespace {

using enum MemcachedVerb;

constexpr size_t line_bytes_max = 2048;
constexpr size_t leading_spaces_max = 100;
constexpr char binary_magic = '\x80';

bool touches(MemcachedVerb verb) { return verb == gat || verb == gats; }
bool shows_values(MemcachedVerb verb) { return verb >= get && verb <= meta_get; }

// memcached reads on without a line end only where a get may be long.
bool may_be_long(std::string_view line) {
  const size_t start = line.find_first_not_of(' ');
  if (start == std::string_view::npos || start > leading_spaces_max) return false;
  line.remove_prefix(start);
  return line.starts_with("get ") || line.starts_with("gets ");
}

// True for the commands that memcached recognises by their first letter: a word it does not know
// among those is an error at once, others are looked at for HTTP first.
bool has_known_initial(std::string_view name) {
  return std::string_view("gsacidt").find(name[0]) != std::string_view::npos ||
         (name[0] == 'm' && name.size() == 2);
}

bool has_long_word(std::string_view text) {
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    if (word.size() > memcached_key_bytes_max) return true;
  }
  return false;
}

}  // namespace

struct MemcachedParser::Item {
  std::string_view key;
  uint32_t flags = 0;
  int64_t expiry = no_expiry;
  uint64_t bytes = 0;
  uint64_t version = 0;
  bool silent = false;
};

const MemcachedParser::Command* MemcachedParser::find_command(std::string_view name) {
  constexpr size_t any = Words::capacity;
  static constexpr Command commands[] = {
      {"get", get, 2, any},
      {"set", set, 5, 6},
      {"gets", gets, 2, any},
      {"delete", erase, 2, 4},
      {"incr", incr, 3, 4},
      {"add", add, 5, 6},
      {"cas", cas, 6, 7},
      {"gat", gat, 2, any},
      {"gats", gats, 2, any},
      {"touch", touch, 3, 4},
      {"decr", decr, 3, 4},
      {"replace", replace, 5, 6},
      {"append", append, 5, 6},
      {"prepend", prepend, 5, 6},
      {"version", version, 1, any},
      {"flush_all", flush_all, 1, 3},
      {"stats", stats, 1, any},
      {"verbosity", verbosity, 2, 3},
      {"slabs", slabs, 2, any},
      {"cache_memlimit", memory_limit, 2, 3},
      {"quit", quit, 1, any},
      {"bget", get, 2, any},
      {"shutdown", shutdown, 1, any},
  };
  if (name.size() == 2) return find_meta_command(name);
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

size_t MemcachedParser::parse(std::string_view input, Turn turn) {
  stopped_early_ = false;
  fixed_answers_ = 0;
  if (closing_ || input.empty()) return 0;
  if (fresh_ && input[0] == binary_magic) return refuse_binary(input, turn);
  fresh_ = false;
  const Batch::Row rows_end = turn.batch.size() + turn.rows_left;
  size_t consumed = 0;
  while (!closing_ && consumed < input.size()) {
    turn.rows_left = rows_end - turn.batch.size();
    const bool alone = !turn.answers.empty() && turn.answers.back().runs_alone();
    const bool may_touch = !keys_.has_value() || !touches(keys_->verb) || turn.reads_left != 0;
    if (alone || turn.rows_left == 0 || !may_touch || turn.pausing) {
      stopped_early_ = true;
      break;
    }
    const size_t taken = parse_front(input.substr(consumed), turn);
    if (taken == 0) break;
    consumed += taken;
  }
  return consumed;
}

// Its clients know which request an answer is for, and some wait for ever where there is none.
size_t MemcachedParser::refuse_binary(std::string_view input, const Turn& turn) {
  constexpr size_t head_bytes = 24;
  constexpr size_t opcode_at = 1;
  constexpr size_t opaque_at = 12;
  constexpr size_t opaque_bytes = 4;
  constexpr std::string_view refusal(
      "\x81\0\0\0\0\0\0\x81\0\0\0\x0f\0\0\0\0\0\0\0\0\0\0\0\0Unknown command", head_bytes + 15);
  if (input.size() < head_bytes) return 0;
  binary_refusal_ = refusal;
  binary_refusal_[opcode_at] = input[opcode_at];
  input.copy(binary_refusal_.data() + opaque_at, opaque_bytes, opaque_at);
  turn.say(binary_refusal_);
  closing_ = true;
  return input.size();
}

// One command, or a piece of keys or of a block that is swallowed; 0: incomplete.
size_t MemcachedParser::parse_front(std::string_view input, Turn& turn) {
  if (swallow_ != 0) return swallow(input.size());
  if (keys_.has_value()) return turn.waiting != nullptr ? stop_early() : run_more_keys(input, turn);
  if (input.size() < wanted_) return 0;
  Line line;
  if (!find_line(input, line)) return 0;
  if (turn.waiting != nullptr && stays_behind(line.text, *turn.waiting)) return stop_early();
  const size_t taken = run_line(line, turn);
  if (taken != 0) scanned_ = wanted_ = 0;
  return taken;
}

size_t MemcachedParser::run_more_keys(std::string_view input, Turn& turn) {
  const Keys keys = *keys_;
  const size_t taken = run_keys(keys, input, turn);
  if (touches(keys.verb)) fixed_answers_ = turn.answers.size();
  return taken;
}

size_t MemcachedParser::swallow(size_t available) {
  const auto taken = static_cast<size_t>(std::min<uint64_t>(available, swallow_));
  swallow_ -= taken;
  return taken;
}

bool MemcachedParser::find_line(std::string_view input, Line& line) {
  const void* found = std::memchr(input.data() + scanned_, '\n', input.size() - scanned_);
  if (found == nullptr) {
    scanned_ = input.size();
    closing_ =
        input.size() > long_line_bytes || (input.size() > line_bytes_max && !may_be_long(input));
    return false;
  }
  auto length = static_cast<size_t>(static_cast<const char*>(found) - input.data());
  scanned_ = length;
  line.input = input;
  line.bytes = length + 1;
  if (length > 1 && input[length - 1] == '\r') --length;
  const void* nul = length != 0 ? std::memchr(input.data(), '\0', length) : nullptr;
  if (nul != nullptr) length = static_cast<size_t>(static_cast<const char*>(nul) - input.data());
  line.text = input.substr(0, length);
  return true;
}

// Runs the command of a line; 0: its block is incomplete, or it has to wait for the next turn.
size_t MemcachedParser::run_line(const Line& line, Turn& turn) {
  std::string_view rest = line.text;
  constexpr std::string_view plain_get = "mg ";
  if (rest.starts_with(plain_get) && turn.reads_left != 0 &&
      run_plain_get(rest.substr(plain_get.size()), turn)) {
    fixed_answers_ = turn.answers.size();
    return line.bytes;
  }
  const std::string_view name = take_word(rest);
  const Command* command = find_command(name);
  const bool only_reads = command != nullptr && (command->verb == get || command->verb == gets);
  const bool shows = command != nullptr && shows_values(command->verb);
  if (turn.reads_left == 0 && (turn.waiting != nullptr ? shows : !only_reads)) return stop_early();
  const size_t taken = only_reads ? run_get(*command, rest, line, turn)
                                  : run_change(command, name, rest, line, turn);
  if (!only_reads && taken != 0) fixed_answers_ = turn.answers.size();
  return taken;
}

// Whatever is no get; 0: its block is incomplete.
size_t MemcachedParser::run_change(const Command* command, std::string_view name,
                                   std::string_view rest, const Line& line, Turn& turn) {
  if (command == nullptr) {
    unknown(name, line, turn);
    return line.bytes;
  }
  if (is_meta(command->verb)) return run_meta(command->verb, rest, line, turn);
  const Words words = split_words(line.text);
  if (words.count < command->min_words || words.count > command->max_words) {
    turn.say(error_answer);
    return line.bytes;
  }
  switch (command->verb) {
    case gat:
    case gats:
      return run_get_and_touch(command->verb, rest, line, turn);
    case set:
    case add:
    case replace:
    case append:
    case prepend:
    case cas:
      return run_store(command->verb, words, line, turn);
    default:
      run_other(command->verb, words, turn);
  }
  return line.bytes;
}

// Whether it may touch one of these keys, which is a word of it then, or looks at all.
bool MemcachedParser::stays_behind(std::string_view line, const WaitingKeys& waiting) {
  const Command* const command = find_command(take_word(line));
  if (command == nullptr) return false;
  const MemcachedVerb verb = command->verb;
  if (verb == flush_all || verb == stats || verb == memory_limit || verb == verbosity) return true;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    if (waiting.contains(word)) return true;
    // Its key is none of these words.
    if (is_meta(verb) && word[0] == 'b') return true;
  }
  return false;
}

// As if the line were not there yet.
size_t MemcachedParser::stop_early() {
  stopped_early_ = true;
  return 0;
}

void MemcachedParser::take_back(const MemcachedAnswer& answer, const char* key) {
  const char* const keys_end = answer.text.data() + answer.text.size();
  keys_ = Keys{answer.verb, no_expiry, static_cast<size_t>(keys_end - key),
               static_cast<size_t>(answer.line_end - key)};
  scanned_ = wanted_ = 0;
  closing_ = false;
  stopped_early_ = true;
}

void MemcachedParser::unknown(std::string_view name, const Line& line, Turn& turn) {
  if (name.size() >= 2 && !has_known_initial(name)) {
    std::string_view rest = line.text;
    std::string_view last;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      last = word;
    }
    if (last.starts_with("HTTP/")) {
      closing_ = true;
      return;
    }
  }
  turn.say(error_answer);
}

size_t MemcachedParser::run_get(const Command& command, std::string_view keys, const Line& line,
                                Turn& turn) {
  if (keys.find_first_not_of(' ') == std::string_view::npos) {
    turn.say(error_answer);
    return line.bytes;
  }
  const auto skipped = static_cast<size_t>(keys.data() - line.input.data());
  const Keys found{command.verb, no_expiry, keys.size(), line.bytes - skipped};
  return skipped + run_keys(found, line.input.substr(skipped), turn);
}

size_t MemcachedParser::run_get_and_touch(MemcachedVerb verb, std::string_view rest,
                                          const Line& line, Turn& turn) {
  int64_t expiry = no_expiry;
  if (!parse_expiry(take_word(rest), turn.now_ms, expiry)) {
    turn.say(bad_expiry_answer);
    return line.bytes;
  }
  const auto skipped = static_cast<size_t>(rest.data() - line.input.data());
  const Keys found{verb, expiry, rest.size(), line.bytes - skipped};
  return skipped + run_keys(found, line.input.substr(skipped), turn);
}

// The keys at the front of `input`, as far as rows are left. A key that is too long fails the whole
// command, wherever it stands, though keys before it are touched all the same.
size_t MemcachedParser::run_keys(const Keys& keys, std::string_view input, Turn& turn) {
  keys_.reset();
  const bool changes = touches(keys.verb);
  const bool bounded = changes || turn.waiting != nullptr;
  const Batch::Row most = bounded ? std::min(turn.rows_left, turn.reads_left) : turn.rows_left;
  MemcachedAnswer answer{.verb = keys.verb, .row = turn.batch.size()};
  answer.line_end = input.data() + keys.line_bytes;
  std::string_view rest = input.substr(0, keys.key_bytes);
  std::string_view key = take_word(rest);
  answer.text = {key.data(), static_cast<size_t>(rest.data() + rest.size() - key.data())};
  for (; !key.empty() && answer.count < most; key = take_word(rest), ++answer.count) {
    if (key.size() > memcached_key_bytes_max) {
      turn.say(bad_format_answer);
      return keys.line_bytes;
    }
    changes ? turn.batch.expire(key, keys.expiry) : turn.batch.get(key);
  }
  turn.reads_left -= std::min(turn.reads_left, answer.count);
  if (key.empty()) {
    turn.answers.push_back(answer);
    return keys.line_bytes;
  }
  const auto taken = static_cast<size_t>(key.data() - input.data());
  if (has_long_word(input.substr(taken, keys.key_bytes - taken))) {
    turn.say(bad_format_answer);
    return keys.line_bytes;
  }
  answer.unfinished = true;
  turn.answers.push_back(answer);
  keys_ = Keys{keys.verb, keys.expiry, keys.key_bytes - taken, keys.line_bytes - taken};
  return taken;
}

size_t MemcachedParser::run_store(MemcachedVerb verb, const Words& words, const Line& line,
                                  Turn& turn) {
  Item item{.key = words[1], .silent = words.end_in_noreply()};
  int64_t length = 0;
  if (item.key.size() > memcached_key_bytes_max || !parse_flags(words[2], item.flags) ||
      !parse_expiry(words[3], turn.now_ms, item.expiry) || !parse_signed(words[4], length) ||
      (verb == cas && !parse_unsigned(words[5], item.version)) || length < 0 ||
      length > longest_block) {
    turn.say(bad_format_answer, item.silent);
    return line.bytes;
  }
  item.bytes = static_cast<uint64_t>(length);
  if (!turn.fits(item.key.size(), item.bytes, item.flags)) {
    note_set(item, turn);
    return refuse_item(verb, item, line, turn);
  }
  const size_t inside = diverts() ? 0 : item.bytes;  // of the input
  const size_t needed = line.bytes + inside + 2;
  if (line.input.size() < needed) {
    wanted_ = needed;
    if (!concatenates(verb) && !diverts()) partial_ = {line.bytes, item.key.size(), item.bytes};
    return 0;
  }
  note_set(item, turn);
  partial_ = {};
  const std::string_view diverted = std::exchange(diverted_, {});
  const std::string_view block = line.input.substr(line.bytes, inside + 2);
  if (block.ends_with("\r\n")) {
    put_item(verb, item, inside != 0 ? block.substr(0, inside) : diverted, turn);
  } else {
    turn.say(bad_chunk_answer, item.silent);
  }
  return needed;
}

void MemcachedParser::note_set(const Item& item, Turn& turn) {
  if (turn.prefixes != nullptr) [[unlikely]]
    turn.prefixes->note_set(item.key);
}

// memcached drops what a set cannot replace, lest it be read for new.
size_t MemcachedParser::refuse_item(MemcachedVerb verb, const Item& item, const Line& line,
                                    Turn& turn) {
  if (verb == set) turn.batch.erase(item.key);
  turn.say(too_large_answer, item.silent);
  swallow_ = item.bytes + 2;
  return line.bytes;
}

void MemcachedParser::put_item(MemcachedVerb verb, const Item& item, std::string_view value,
                               Turn& turn) {
  Batch& batch = turn.batch;
  const auto put = [&](uint16_t options) {
    return batch.put(item.key, value, options, item.expiry, item.flags, item.version);
  };
  if (concatenates(verb) && turn.copies != nullptr) turn.pausing = !turn.copies->take();
  MemcachedAnswer answer{.verb = verb, .silent = item.silent, .count = 1};
  switch (verb) {
    case add:
      answer.row = put(option::if_absent);
      break;
    case replace:
      answer.row = put(option::if_present);
      break;
    case cas:
      answer.row = put(option::if_version);
      break;
    case append:
      answer.row = batch.append(item.key, value, option::if_present);
      break;
    case prepend:
      answer.row = batch.prepend(item.key, value, option::if_present);
      break;
    default:
      answer.row = put(0);
  }
  turn.answers.push_back(answer);
}

}  // namespace isotherm::net
