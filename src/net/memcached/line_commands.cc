// MemcachedParser's commands of a single line that are no gets.
#include <cstdint>
#include <string_view>

#include "net/memcached/admin.h"
#include "net/memcached/limits.h"
#include "net/memcached/line.h"
#include "net/memcached/parser.h"
#include "net/memcached_shared.h"

namespace isotherm::net {
namespace {

using enum MemcachedVerb;

constexpr std::string_view bad_delta = "CLIENT_ERROR invalid numeric delta argument\r\n";
constexpr std::string_view bad_delete =
    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";

}  // namespace

void MemcachedParser::run_arithmetic(MemcachedVerb verb, const Words& words, Turn& turn) {
  const bool silent = words.end_in_noreply();
  if (words[1].size() > memcached_key_bytes_max) return turn.say(bad_format_answer, silent);
  uint64_t delta = 0;
  if (!parse_unsigned(words[2], delta)) return turn.say(bad_delta, silent);
  const auto options = static_cast<uint16_t>(option::if_present | option::saturating |
                                             (verb == decr ? option::decrement : 0));
  const Batch::Row row = turn.batch.add(words[1], static_cast<int64_t>(delta), options);
  turn.answers.push_back({.verb = verb, .silent = silent, .row = row, .count = 1});
}

// An old form gave a time behind the key, of which only 0 is left.
void MemcachedParser::run_delete(const Words& words, Turn& turn) {
  const bool silent = words.count > 2 && words.end_in_noreply();
  if (words.count > 2) {
    const bool zero = words[2] == "0";
    const bool valid = words.count == 3 ? zero || silent : zero && silent;
    if (!valid) return turn.say(bad_delete, silent);
  }
  if (words[1].size() > memcached_key_bytes_max) return turn.say(bad_format_answer, silent);
  if (turn.prefixes != nullptr) [[unlikely]]
    turn.prefixes->note_delete(words[1]);
  const Batch::Row row = turn.batch.erase(words[1]);
  turn.answers.push_back({.verb = erase, .silent = silent, .row = row, .count = 1});
}

void MemcachedParser::run_touch(const Words& words, Turn& turn) {
  const bool silent = words.end_in_noreply();
  if (words[1].size() > memcached_key_bytes_max) return turn.say(bad_format_answer, silent);
  int64_t expiry = no_expiry;
  if (!parse_expiry(words[2], turn.now_ms, expiry)) {
    return turn.say(bad_expiry_answer, silent);
  }
  const Batch::Row row = turn.batch.expire(words[1], expiry, option::any_type | option::no_value);
  turn.answers.push_back({.verb = touch, .silent = silent, .row = row, .count = 1});
}

void MemcachedParser::run_flush(const Words& words, Turn& turn) {
  const bool silent = words.end_in_noreply();
  if (!turn.flushes) return turn.say(no_flush_answer, silent);
  MemcachedAnswer answer{.verb = flush_all, .silent = silent, .time_ms = FlushTime::at_once};
  if (words.count > (silent ? 2 : 1)) {
    int64_t time_ms = 0;
    if (!parse_expiry(words[1], turn.now_ms, time_ms)) {
      return turn.say(bad_expiry_answer, silent);
    }
    int64_t delay = 0;
    parse_signed(words[1], delay);
    if (delay > 0) answer.time_ms = time_ms > turn.now_ms ? time_ms : FlushTime::never;
  }
  if (!answer.runs_alone()) {
    answer.row = turn.batch.flush(memcached_database, memcached_database + 1);
    answer.count = 1;
    turn.pausing |= turn.flush_ends_it;
  }
  turn.answers.push_back(answer);
}

void MemcachedParser::run_stats(const Words& words, Turn& turn) {
  const std::string_view what = words.count > 1 ? words[1] : std::string_view();
  const bool walks = (what == "cachedump" && turn.dumps) || (what == "sizes" && turn.tracks_sizes);
  turn.answers.push_back({.verb = stats, .walks = walks, .text = words.from(1)});
}

void MemcachedParser::run_other(MemcachedVerb verb, const Words& words, Turn& turn) {
  switch (verb) {
    case incr:
    case decr:
      return run_arithmetic(verb, words, turn);
    case erase:
      return run_delete(words, turn);
    case touch:
      return run_touch(words, turn);
    case flush_all:
      return run_flush(words, turn);
    case stats:
      return run_stats(words, turn);
    case slabs:
      return turn.say(slabs_answer(words), words[1] == "automove" && words.end_in_noreply());
    case memory_limit:
    case verbosity:
      turn.answers.push_back({.verb = verb, .silent = words.end_in_noreply(), .text = words[1]});
      return;
    case version:
      return turn.say("VERSION 1.6.18\r\n");
    case shutdown:
      return turn.say("ERROR: shutdown not enabled\r\n");
    case meta_nothing:
      return turn.say("MN\r\n");
    case quit:
      closing_ = true;
      return;
    default:
      return turn.say(error_answer);
  }
}

}  // namespace isotherm::net
