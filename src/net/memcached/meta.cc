#include "net/memcached/meta.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "net/memcached/line.h"

namespace isotherm::net {
namespace {

constexpr std::string_view bad_token = "CLIENT_ERROR bad token in command line format\r\n";
constexpr std::string_view base64_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Which flag stands behind which, where both change the expiry.
struct FlagOrder {
  size_t expiry = 0, vivify = 0, recache = 0;
};

// One flag; false if there is none of this letter. `problem` stays what it was if it is right.
bool parse_meta_flag(std::string_view word, size_t at, int64_t now_ms, MetaCommand& command,
                     FlagOrder& order, std::string_view& problem) {
  const std::string_view token = word.substr(1);
  const auto number = [&](uint64_t& field, std::string_view wrong) {
    if (!parse_unsigned(token, field)) problem = wrong;
  };
  const auto time = [&](int64_t& field, bool& has, size_t& place) {
    has = true;
    place = at;
    if (!parse_expiry(token, now_ms, field)) problem = bad_token;
  };
  switch (word[0]) {
    case 'b': {
      const size_t bytes = decode_base64(command.key, command.decoded.data());
      command.key = {command.decoded.data(), bytes};
      command.in_base64 = command.binary_key = true;
      if (bytes == 0) problem = "CLIENT_ERROR error decoding key\r\n";
      return true;
    }
    case 'N':
      time(command.first_expiry, command.vivifies, order.vivify);
      return true;
    case 'T':
      time(command.expiry, command.sets_expiry, order.expiry);
      return true;
    case 'R':
      time(command.recache_before, command.recaches, order.recache);
      return true;
    case 'F':
      if (!parse_flags(token, command.client_flags) && problem.empty()) {
        problem = "CLIENT_ERROR bad command line format\r\n";
      }
      return true;
    case 'C':
      command.checks_version = true;
      number(command.version, bad_token);
      return true;
    case 'J':
      number(command.initial, "CLIENT_ERROR invalid numeric initial value\r\n");
      return true;
    case 'D':
      number(command.delta, "CLIENT_ERROR invalid numeric delta value\r\n");
      return true;
    case 'M':
      if (token.size() != 1) problem = "CLIENT_ERROR incorrect length for M token\r\n";
      if (!token.empty()) command.mode_letter = token[0];
      return true;
    case 'I':
      command.may_store_stale = true;
      return true;
    case 'O':
      command.opaque_too_long = word.size() > MetaCommand::opaque_bytes_max;
      return true;
    case 'q':
      command.quiet = true;
      return true;
    case 'u':
      command.counts_use = false;
      return true;
    case 'v':
      command.wants_value = true;
      return true;
    default:
      return std::string_view("PLkstcflh").find(word[0]) != std::string_view::npos;
  }
}

}  // namespace

std::string_view parse_meta_flags(std::string_view flags, int64_t now_ms, MetaCommand& command) {
  constexpr unsigned char letters_end = 127;
  std::bitset<letters_end> seen;
  std::string_view problem;
  FlagOrder order;
  command.now_ms = now_ms;
  size_t at = 0;
  for (std::string_view word = take_word(flags); !word.empty(); word = take_word(flags)) {
    const auto letter = static_cast<unsigned char>(word[0]);
    if (letter >= letters_end || seen[letter]) return "CLIENT_ERROR duplicate flag\r\n";
    seen.set(letter);
    if (!parse_meta_flag(word, ++at, now_ms, command, order, problem)) {
      return "CLIENT_ERROR invalid flag\r\n";
    }
  }
  command.expiry_first = order.expiry < order.recache && command.sets_expiry;
  // memcached applies both to an item that it made, one after the other.
  const bool keeps_first = order.vivify > order.expiry;
  command.vivify_expiry = keeps_first ? command.first_expiry : command.expiry;
  return problem;
}

size_t decode_base64(std::string_view text, char* bytes) {
  size_t count = 0;
  for (const char c : text) count += c == '=' || base64_letters.find(c) != std::string_view::npos;
  if (count == 0 || count % 4 != 0) return 0;
  char* to = bytes;
  uint32_t group = 0;
  size_t in_group = 0, padding = 0;
  for (const char c : text) {
    const size_t digit = base64_letters.find(c);
    if (digit == std::string_view::npos && c != '=') continue;
    padding += c == '=';
    group = group << 6 | static_cast<uint32_t>(c == '=' ? 0 : digit);
    if (++in_group < 4) continue;
    for (const int shift : {16, 8, 0}) *to++ = static_cast<char>(group >> shift);
    if (padding > 2) return 0;
    if (padding != 0) return static_cast<size_t>(to - bytes) - padding;
    group = 0;
    in_group = 0;
  }
  return static_cast<size_t>(to - bytes);
}

void encode_base64(std::string_view bytes, std::string& text) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(3, bytes.size()))) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= bytes.size() ? base64_letters[group >> (18 - 6 * i) & 63] : '=';
    }
  }
}

MetaCommands::List& MetaCommands::spares() {
  thread_local List list;
  return list;
}

MetaCommand& MetaCommands::keep(const MetaCommand& command) {
  List& spare = spares();
  if (spare.empty()) {
    list_.push_back(std::make_unique<MetaCommand>());
  } else {
    list_.push_back(std::move(spare.back()));
    spare.pop_back();
  }
  MetaCommand& kept = *list_.back();
  kept = command;
  if (kept.in_base64) kept.key = {kept.decoded.data(), command.key.size()};
  return kept;
}

void MetaCommands::give_back() {
  List& spare = spares();
  for (auto& command : list_) {
    if (spare.size() == most_spares) break;
    spare.push_back(std::move(command));
  }
  list_.clear();
}

}  // namespace isotherm::net
