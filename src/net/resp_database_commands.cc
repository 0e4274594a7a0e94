// Commands over a whole database: those that flush are rows, the others run alone.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "net/glob.h"
#include "net/resp_handlers.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

struct ScanOptions {
  uint64_t cursor = 0;
  int64_t count = 10;
  std::optional<std::string_view> match;
  std::optional<std::string_view> type;
};

// As strtoul reads it, which is what Redis does: signs and an empty word are taken.
bool parse_cursor(std::string_view word, uint64_t* cursor) {
  const std::string text(word);
  const char first = text.c_str()[0];
  if (first == ' ' || (first >= '\t' && first <= '\r')) return false;
  char* end = nullptr;
  errno = 0;
  *cursor = std::strtoull(text.c_str(), &end, 10);
  return *end == '\0' && errno != ERANGE;
}

// The error, or null.
const char* parse_scan(Arguments words, ScanOptions* options) {
  if (!parse_cursor(words[1], &options->cursor)) return "ERR invalid cursor";
  for (size_t i = 2; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return "ERR syntax error";
    const std::string_view value = words[i + 1];
    if (equals_ignoring_case(words[i], "count")) {
      const auto count = parse_integer(value);
      if (!count) return "ERR value is not an integer or out of range";
      if (*count < 1) return "ERR syntax error";
      options->count = *count;
    } else if (equals_ignoring_case(words[i], "match")) {
      options->match = value;
    } else if (equals_ignoring_case(words[i], "type")) {
      options->type = value;
    } else {
      return "ERR syntax error";
    }
  }
  return nullptr;
}

void write_keys(const std::vector<std::string>& keys, RespWriter& writer) {
  writer.array(keys.size());
  for (const std::string& key : keys) writer.bulk(key);
}

void run_scan(Alone& alone) {
  ScanOptions options;
  parse_scan(alone.arguments, &options);
  std::vector<std::string> keys;
  // The store ends a step early where its index is sparse; an almost empty database should still be
  // walked in one call.
  constexpr int most_steps = 64;
  uint64_t cursor = options.cursor;
  uint64_t wanted = static_cast<uint64_t>(options.count);
  int steps = 0;
  do {
    uint64_t visited = 0;
    cursor =
        alone.turn.worker.scan(alone.session.database, cursor, wanted, [&](const ScanItem& item) {
          ++visited;
          if (options.match && !glob_matches(*options.match, item.key)) return;
          if (options.type && !equals_ignoring_case(*options.type, type_name(item.type))) return;
          keys.emplace_back(item.key);
        });
    wanted -= std::min(wanted, visited);
  } while (cursor != 0 && wanted != 0 && ++steps < most_steps);
  alone.writer.array(2);
  alone.writer.bulk(std::to_string(cursor));
  write_keys(keys, alone.writer);
}

void run_keys(Alone& alone) {
  constexpr uint64_t items_per_step = 1024;
  const std::string_view pattern = alone.arguments[1];
  std::vector<std::string> keys;
  uint64_t cursor = 0;
  do {
    cursor = alone.turn.worker.scan(alone.session.database, cursor, items_per_step,
                                    [&](const ScanItem& item) {
                                      if (glob_matches(pattern, item.key)) {
                                        keys.emplace_back(item.key);
                                      }
                                    });
  } while (cursor != 0);
  write_keys(keys, alone.writer);
}

// The cursor is a bound on the hash, so a random one leads to a random key.
void run_randomkey(Alone& alone) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  for (uint64_t cursor : {random(), uint64_t{0}}) {
    do {
      std::vector<std::string> keys;
      cursor = alone.turn.worker.scan(alone.session.database, cursor, 1,
                                      [&](const ScanItem& item) { keys.emplace_back(item.key); });
      if (!keys.empty()) return alone.writer.bulk(keys[random() % keys.size()]);
    } while (cursor != 0);
  }
  alone.writer.null();
}

void run_dbsize(Alone& alone) {
  const uint64_t keys = alone.turn.worker.count(alone.session.database);
  alone.writer.integer(static_cast<int64_t>(keys));
}

// ASYNC and SYNC both empty the database at once and free its items later.
void flush(Call& call, uint32_t first, uint32_t end) {
  const bool plain = call.size() == 1;
  if (!plain && (call.size() > 2 || !(equals_ignoring_case(call[1], "async") ||
                                      equals_ignoring_case(call[1], "sync")))) {
    return call.syntax_error();
  }
  call.answer(encode_ok, call.batch().flush(first, end));
}

}  // namespace

namespace handlers {

void scan(Call& call) {
  ScanOptions options;
  if (const char* error = parse_scan(call.arguments, &options)) return call.error(error);
  call.run_alone(run_scan);
}

void keys(Call& call) { call.run_alone(run_keys); }
void randomkey(Call& call) { call.run_alone(run_randomkey); }
void dbsize(Call& call) { call.run_alone(run_dbsize); }
void flushall(Call& call) { flush(call, 0, call.turn.server.options.store.databases); }
void flushdb(Call& call) { flush(call, call.session.database, call.session.database + 1); }

}  // namespace handlers
}  // namespace isotherm::net
