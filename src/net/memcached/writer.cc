#include "net/memcached/writer.h"

#include "net/memcached/limits.h"
#include "net/memcached/meta_writer.h"
#include "net/memcached/put.h"

namespace isotherm::net {
namespace {

using enum MemcachedVerb;

constexpr std::string_view no_memory = "SERVER_ERROR out of memory storing object\r\n";
constexpr std::string_view no_memory_for_get =
    "SERVER_ERROR out of memory writing get response\r\n";
constexpr std::string_view internal_error = "SERVER_ERROR internal error\r\n";

// "VALUE ", a key, flags, length and cas with spaces between them, and the line end.
constexpr size_t header_bytes_max(size_t key_bytes) { return key_bytes + 6 + 11 + 21 + 21 + 2; }

void write_value(std::string_view key, const Reply& reply, bool with_version, Output& output) {
  const std::string_view value = reply.value();
  const bool small = value.size() < Output::chunk_bytes / 2;
  const size_t header_bytes = header_bytes_max(key.size());
  char* const start = output.reserve(header_bytes + (small ? value.size() + 2 : 0));
  char* to = put_text(put_text(start, "VALUE "), key);
  to = put_number(put_number(to, reply.flags), value.size());
  if (with_version) to = put_number(to, reply.version);
  to = put_text(to, "\r\n");
  if (small) {
    to = put_text(put_text(to, value), "\r\n");
    return output.commit(static_cast<size_t>(to - start));
  }
  output.commit(static_cast<size_t>(to - start));
  output.append_value(reply);
  output.append("\r\n");
}

void count_misses(bool touches, uint64_t rows, uint64_t hits, MemcachedCounters& counters) {
  (touches ? counters.cmd_touch : counters.cmd_get).add(rows);
  (touches ? counters.touch_misses : counters.get_misses).add(rows - hits);
}

// Not inlined: the other answers are short.
[[gnu::noinline]] Batch::Row write_values(const MemcachedAnswer& answer, const Batch& batch,
                                          MemcachedCounters& counters, Output& output,
                                          size_t full_output, std::string_view not_saved) {
  const bool with_version = answer.verb == gets || answer.verb == gats;
  const bool touches = answer.verb == gat || answer.verb == gats;
  const auto counted = touches ? &SlabCounters::touch_hits : &SlabCounters::get_hits;
  const std::string_view* keys = batch.columns().key;
  uint64_t hits = 0;
  std::string_view end_line = "END\r\n";
  Batch::Row row = answer.row;
  const Batch::Row end = answer.row + answer.count;
  for (; row < end && output.size() < full_output; ++row) {
    const Reply& reply = batch.reply(row);
    const Status status = reply.status.load(std::memory_order_acquire);
    if (status == Status::ok) {
      write_value(keys[row], reply, with_version, output);
      (counters.slab_of(reply.location).*counted).add();
      ++hits;
    }
    if (status == Status::out_of_memory || status == Status::retry) end_line = no_memory_for_get;
    if (status == Status::not_saved) end_line = not_saved;
  }
  if (row == end && !answer.unfinished) output.append(end_line);
  count_misses(touches, row - answer.row, hits, counters);
  return row - answer.row;
}

// Of what is no fault of the request.
std::string_view failure(Status status, std::string_view lacks_memory, std::string_view not_saved) {
  switch (status) {
    case Status::out_of_memory:
    case Status::retry:
      return lacks_memory;
    case Status::not_saved:
      return not_saved;
    default:
      return internal_error;
  }
}

std::string_view store_answer(MemcachedVerb verb, Status status, std::string_view not_saved) {
  switch (status) {
    case Status::ok:
      return "STORED\r\n";
    case Status::condition_failed:
      return verb == cas ? "EXISTS\r\n" : "NOT_STORED\r\n";
    case Status::not_found:
      return verb == cas ? "NOT_FOUND\r\n" : "NOT_STORED\r\n";
    case Status::too_large:
      return concatenates(verb) ? "NOT_STORED\r\n" : too_large_answer;
    case Status::wrong_type:
      return "NOT_STORED\r\n";
    default:
      return failure(status, no_memory, not_saved);
  }
}

void count_store(MemcachedVerb verb, Status status, SlabCounters& slab,
                 MemcachedCounters& counters) {
  slab.cmd_set.add();
  counters.total_items.add(status == Status::ok);
  counters.store_too_large.add(status == Status::too_large);
  counters.store_no_memory.add(status == Status::out_of_memory || status == Status::retry);
  if (verb != cas) return;
  slab.cas_hits.add(status == Status::ok);
  counters.cas_misses.add(status == Status::not_found);
  slab.cas_badval.add(status == Status::condition_failed);
}

std::string_view arithmetic_error(Status status, std::string_view not_saved) {
  switch (status) {
    case Status::not_found:
    case Status::condition_failed:
      return "NOT_FOUND\r\n";
    case Status::not_an_integer:
    case Status::overflow:
    case Status::wrong_type:
      return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    default:
      return failure(status, "SERVER_ERROR out of memory\r\n", not_saved);
  }
}

void write_arithmetic(const MemcachedAnswer& answer, const Reply& reply, Status status,
                      MemcachedCounters& counters, Output& output, std::string_view not_saved) {
  const bool up = answer.verb == incr;
  SlabCounters& slab = counters.slab_of(reply.location);
  (up ? slab.incr_hits : slab.decr_hits).add(status == Status::ok);
  (up ? counters.incr_misses : counters.decr_misses).add(status == Status::not_found);
  if (answer.silent) return;
  if (status != Status::ok) return output.append(arithmetic_error(status, not_saved));
  output.append_unsigned(static_cast<uint64_t>(reply.number));
  output.append("\r\n");
}

std::string_view found_answer(std::string_view found, Status status, std::string_view not_saved) {
  switch (status) {
    case Status::ok:
      return found;
    case Status::not_found:
      return "NOT_FOUND\r\n";
    default:
      return failure(status, "SERVER_ERROR out of memory\r\n", not_saved);
  }
}

void count_found(MemcachedVerb verb, Status status, SlabCounters& slab,
                 MemcachedCounters& counters) {
  const bool touches = verb == touch;
  counters.cmd_touch.add(touches);
  (touches ? slab.touch_hits : slab.delete_hits).add(status == Status::ok);
  (touches ? counters.touch_misses : counters.delete_misses).add(status == Status::not_found);
}

}  // namespace

Batch::Row write_answer(const MemcachedAnswer& answer, const Batch& batch,
                        MemcachedCounters& counters, Output& output, size_t full_output,
                        std::string_view not_saved) {
  if (answer.verb == text) {
    // The one text that is counted.
    counters.store_too_large.add(answer.text.data() == too_large_answer.data());
    output.append(answer.text);
    return answer.count;
  }
  if (answer.verb <= gats) {
    return write_values(answer, batch, counters, output, full_output, not_saved);
  }
  if (is_meta(answer.verb)) {
    write_meta(answer, batch, counters, output, not_saved);
    return answer.count;
  }
  const Reply& reply = batch.reply(answer.row);
  const Status status = reply.status.load(std::memory_order_acquire);
  if (answer.verb == incr || answer.verb == decr) {
    write_arithmetic(answer, reply, status, counters, output, not_saved);
    return answer.count;
  }
  std::string_view words;
  if (answer.verb == flush_all) {
    counters.cmd_flush.add();
    words = status == Status::not_saved ? not_saved : "OK\r\n";
  } else if (answer.verb == erase || answer.verb == touch) {
    count_found(answer.verb, status, counters.slab_of(reply.location), counters);
    words = found_answer(answer.verb == erase ? "DELETED\r\n" : "TOUCHED\r\n", status, not_saved);
  } else {
    count_store(answer.verb, status, counters.slab_of(reply.location), counters);
    words = store_answer(answer.verb, status, not_saved);
  }
  if (!answer.silent) output.append(words);
  return answer.count;
}

}  // namespace isotherm::net
