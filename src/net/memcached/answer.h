// MemcachedAnswer: what one parsed command will answer once its requests have run.
//
// The parser appends an answer per command, in order, and the requests it stands for are the rows
// [row, row + count) of the turn's batch. `silent` (noreply) keeps the answer for the counters
// only. Of a get that need not be answered in this turn, the rest is parsed again from one of its
// keys on.
//
// Bytes. `text` is either a constant or borrowed from the input of the turn.
#pragma once

#include <cstdint>
#include <string_view>

#include "isotherm/batch.h"
#include "net/memcached_flush.h"

namespace isotherm::net {

enum class MemcachedVerb : uint8_t {
  text,  // no request: answers `text`
  get,
  gets,
  gat,
  gats,
  meta_get,  // all meta commands that have a row stand together
  meta_set,
  meta_delete,
  meta_arithmetic,
  meta_debug,
  set,
  add,
  replace,
  append,
  prepend,
  cas,
  incr,
  decr,
  erase,
  touch,
  flush_all,
  stats,
  slabs,
  memory_limit,
  verbosity,
  version,
  shutdown,
  quit,
  meta_nothing,
};

constexpr bool concatenates(MemcachedVerb verb) {
  return verb == MemcachedVerb::append || verb == MemcachedVerb::prepend;
}

constexpr bool is_meta(MemcachedVerb verb) {
  return verb >= MemcachedVerb::meta_get && verb <= MemcachedVerb::meta_debug;
}

struct MemcachedAnswer {
  MemcachedVerb verb = MemcachedVerb::text;
  bool silent = false;
  bool unfinished = false;   // get: the rest of the keys follows in another answer
  bool shows_value = false;  // meta_get with a plain row
  bool walks = false;        // stats that go over all items
  Batch::Row row = 0;
  Batch::Row count = 0;
  // text: the answer; stats, memory_limit, verbosity: the arguments; get, gets: the keys from the
  // first of these rows on; meta commands: their flags.
  std::string_view text = {};
  const char* line_end = nullptr;  // get, gets: behind the line
  int64_t time_ms = 0;             // flush_all: when, see FlushTime; meta_get: now

  // Commands without a row run alone, when all before them has been answered.
  bool runs_alone() const {
    return (verb == MemcachedVerb::flush_all && time_ms != FlushTime::at_once) ||
           verb == MemcachedVerb::stats || verb == MemcachedVerb::memory_limit ||
           verb == MemcachedVerb::verbosity;
  }
};

}  // namespace isotherm::net
