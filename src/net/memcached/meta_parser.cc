// MemcachedParser's meta commands.
#include <algorithm>
#include <string_view>

#include "net/memcached/limits.h"
#include "net/memcached/parser.h"

namespace isotherm::net {
namespace {

using enum MemcachedVerb;

constexpr std::string_view opaque_too_long = "CLIENT_ERROR opaque token too long\r\n";

size_t count_words(std::string_view text) {
  size_t count = 0;
  while (!take_word(text).empty()) ++count;
  return count;
}

bool take_store_mode(MetaCommand& command) {
  using Mode = MetaRequest::Mode;
  switch (command.mode_letter) {
    case 0:
    case 'S':
      return true;
    case 'E':
      command.mode = Mode::add;
      return true;
    case 'A':
      command.mode = Mode::append;
      return true;
    case 'P':
      command.mode = Mode::prepend;
      return true;
    case 'R':
      command.mode = Mode::replace;
      return true;
    default:
      return false;
  }
}

bool take_arithmetic_mode(MetaCommand& command) {
  command.decrements = command.mode_letter == 'D' || command.mode_letter == '-';
  return command.decrements || command.mode_letter == 0 || command.mode_letter == 'I' ||
         command.mode_letter == '+';
}

// The flags of a command without a block; what is wrong with them, or nothing.
std::string_view read_flags(MemcachedVerb verb, std::string_view flags, size_t words,
                            int64_t now_ms, MetaCommand& command) {
  if (words > MetaCommand::words_max) {
    return verb == meta_get ? "CLIENT_ERROR options flags are too long\r\n"
                            : "CLIENT_ERROR options flags too long\r\n";
  }
  const std::string_view problem = parse_meta_flags(flags, now_ms, command);
  if (!problem.empty()) {
    return verb == meta_get ? problem : "CLIENT_ERROR invalid or duplicate flag\r\n";
  }
  if (verb == meta_arithmetic && !take_arithmetic_mode(command)) {
    return "CLIENT_ERROR invalid mode for ma M token\r\n";
  }
  return command.opaque_too_long ? opaque_too_long : std::string_view();
}

// Of flags only an exact "b" behind the key counts.
std::string_view read_debug_key(std::string_view flags, int64_t now_ms, MetaCommand& command) {
  const bool in_base64 = take_word(flags) == "b";
  const std::string_view problem = parse_meta_flags(in_base64 ? "b" : "", now_ms, command);
  command.kind = MetaRequest::Kind::look;
  return problem.empty() ? problem : bad_format_answer;
}

// Reads the flags of a get that changes nothing and whose key is as it stands; false: it is
// another, or wrong.
bool take_plain_flags(std::string_view flags, MemcachedAnswer& answer, uint16_t& options) {
  constexpr unsigned char first_letter = 64;
  constexpr auto bit = [](char letter) { return uint64_t{1} << (letter - first_letter); };
  constexpr uint64_t plain = bit('k') | bit('s') | bit('t') | bit('c') | bit('f') | bit('l') |
                             bit('h') | bit('v') | bit('q') | bit('O') | bit('u') | bit('P') |
                             bit('L');
  uint64_t seen = 0;
  size_t words = 2;
  const char* at = flags.data();
  const char* const end = at + flags.size();
  for (;; ++words) {
    while (at != end && *at == ' ') ++at;
    if (at == end) break;
    const char* const word = at;
    const auto letter = static_cast<unsigned char>(*word - first_letter);
    while (at != end && *at != ' ') ++at;
    if (letter >= 64 || ((plain & ~seen) >> letter & 1) == 0) return false;
    seen |= uint64_t{1} << letter;
    if (*word == 'O' && static_cast<size_t>(at - word) > MetaCommand::opaque_bytes_max)
      return false;
  }
  answer.shows_value = (seen & bit('v')) != 0;
  answer.silent = (seen & bit('q')) != 0;
  options = static_cast<uint16_t>((answer.shows_value ? 0 : option::no_value) |
                                  ((seen & bit('u')) != 0 ? option::no_touch : 0));
  return words <= MetaCommand::words_max;
}

// What of the flags a command ignores.
void settle_kind(MemcachedVerb verb, MetaCommand& command) {
  using Kind = MetaRequest::Kind;
  if (verb == meta_get) command.checks_version = false;
  if (verb == meta_arithmetic) command.kind = Kind::arithmetic;
  if (verb != meta_delete) return;
  command.kind = command.may_store_stale ? Kind::mark_stale : Kind::erase;
}

}  // namespace

const MemcachedParser::Command* MemcachedParser::find_meta_command(std::string_view name) {
  constexpr size_t any = Words::capacity;
  static constexpr Command commands[] = {
      {"mg", meta_get, 2, any},        {"ms", meta_set, 2, any},   {"md", meta_delete, 2, any},
      {"ma", meta_arithmetic, 2, any}, {"me", meta_debug, 1, any}, {"mn", meta_nothing, 1, any},
  };
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

size_t MemcachedParser::run_meta(MemcachedVerb verb, std::string_view rest, const Line& line,
                                 Turn& turn) {
  std::string_view flags = rest;
  const std::string_view key = take_word(flags);
  if (verb != meta_debug && key.empty()) {
    turn.answers.push_back({.text = "ERROR\r\n"});
    return line.bytes;
  }
  MetaCommand command;
  command.key = key;
  std::string_view problem;
  if (command.key.empty() || command.key.size() > memcached_key_bytes_max) {
    problem = bad_format_answer;
  } else if (verb == meta_set) {
    return run_meta_set(command, flags, line, turn);
  } else if (verb == meta_debug) {
    problem = read_debug_key(flags, turn.now_ms, command);
  } else {
    problem = read_flags(verb, flags, 2 + count_words(flags), turn.now_ms, command);
  }
  settle_kind(verb, command);
  if (problem.empty()) {
    put_meta(verb, command, {}, flags, turn);
  } else {
    turn.answers.push_back({.text = problem});
  }
  return line.bytes;
}

// A get that takes no MetaCommand; `rest` is its line behind the name. False: it is another, or
// wrong.
bool MemcachedParser::run_plain_get(std::string_view rest, Turn& turn) {
  const size_t key_bytes = std::min(rest.find(' '), rest.size());
  if (key_bytes == 0 || key_bytes > memcached_key_bytes_max) return false;
  const std::string_view key = rest.substr(0, key_bytes);
  const std::string_view flags = rest.substr(key_bytes);
  MemcachedAnswer answer{.verb = meta_get, .count = 1, .text = flags, .time_ms = turn.now_ms};
  uint16_t options = 0;
  if (!take_plain_flags(flags, answer, options)) return false;
  answer.row = turn.batch.get_with_state(key, options);
  turn.answers.push_back(answer);
  turn.reads_left -= turn.reads_left != 0 ? 1 : 0;
  return true;
}

// As run_store; 0: the block is incomplete. A refused block is swallowed if its length is known.
size_t MemcachedParser::run_meta_set(MetaCommand& command, std::string_view rest, const Line& line,
                                     Turn& turn) {
  const auto refuse = [&](std::string_view problem) {
    turn.answers.push_back({.text = problem});
    return line.bytes;
  };
  std::string_view flags = rest;
  const size_t words = 2 + count_words(rest);
  const std::string_view length_word = take_word(flags);
  if (length_word.empty()) return refuse(bad_format_answer);
  if (words > MetaCommand::words_max) return refuse("CLIENT_ERROR options flags too long\r\n");
  int64_t length = 0;
  if (!parse_signed(length_word, length) || length < 0 || length > longest_block) {
    return refuse(bad_format_answer);
  }
  std::string_view problem = parse_meta_flags(flags, turn.now_ms, command);
  if (problem.empty() && !take_store_mode(command)) {
    problem = "CLIENT_ERROR invalid mode for ms M token\r\n";
  }
  if (problem.empty() && command.opaque_too_long) problem = opaque_too_long;
  const auto bytes = static_cast<uint64_t>(length);
  if (problem.empty() && !turn.fits(command.key.size(), bytes, command.client_flags)) {
    MetaCommand erase = command;
    erase.kind = MetaRequest::Kind::erase;
    erase.checks_version = false;
    MetaCommand& kept = meta_commands_.keep(erase);
    turn.batch.meta(kept.key, {}, kept);
    problem = too_large_answer;
  }
  if (!problem.empty()) {
    swallow_ = bytes + 2;
    return refuse(problem);
  }
  const size_t needed = line.bytes + bytes + 2;
  if (line.input.size() < needed) {
    wanted_ = needed;
    return 0;
  }
  const std::string_view block = line.input.substr(line.bytes, bytes + 2);
  if (!block.ends_with("\r\n")) {
    refuse(bad_chunk_answer);
    return needed;
  }
  command.kind = MetaRequest::Kind::store;
  put_meta(meta_set, command, block.substr(0, bytes), flags, turn);
  return needed;
}

void MemcachedParser::put_meta(MemcachedVerb verb, const MetaCommand& command,
                               std::string_view value, std::string_view flags, Turn& turn) {
  const bool joins =
      command.mode == MetaRequest::Mode::append || command.mode == MetaRequest::Mode::prepend;
  if (joins && turn.copies != nullptr) turn.pausing = !turn.copies->take();
  MetaCommand& kept = meta_commands_.keep(command);
  const Batch::Row row = turn.batch.meta(kept.key, value, kept, kept.expiry, kept.client_flags);
  turn.answers.push_back({.verb = verb, .row = row, .count = 1, .text = flags});
  if (verb == meta_get) turn.reads_left -= turn.reads_left != 0 ? 1 : 0;
}

}  // namespace isotherm::net
