#include "net/memcached/meta_writer.h"

#include <algorithm>
#include <string>

#include "items/item_store.h"
#include "items/meta_state.h"
#include "net/memcached/limits.h"
#include "net/memcached/line.h"
#include "net/memcached/meta.h"
#include "net/memcached/put.h"

namespace isotherm::net {
namespace {

using enum MemcachedVerb;

// A command that has run.
struct MetaResult {
  const MetaCommand& command;
  const Reply& reply;
  std::string_view flags;
  Status status;
  std::string_view not_saved;

  bool ok() const { return status == Status::ok; }
  bool found_binary() const { return (command.state & MetaState::binary_key) != 0; }
};

void append_number(std::string& line, char letter, uint64_t number) {
  line.append({' ', letter}).append(std::to_string(number));
}

void append_key(std::string& line, std::string_view key, bool binary) {
  if (!binary) {
    line.append(key);
  } else {
    encode_base64(key, line);
    line.append(" b");
  }
}

uint64_t seconds_left(int64_t expiry, int64_t now_ms) {
  return static_cast<uint64_t>((std::max(expiry, now_ms) - now_ms + 999) / 1000);
}

void append_seconds_left(std::string& line, int64_t expiry, int64_t now_ms) {
  if (expiry == no_expiry) {
    line.append(" t-1");
  } else {
    append_number(line, 't', seconds_left(expiry, now_ms));
  }
}

uint64_t seconds_since_use(uint64_t state, int64_t now_ms) {
  if (state == 0) return 0;
  const auto now = static_cast<uint64_t>(now_ms / 1000);
  return now - std::min(now, MetaState::seconds(state));
}

// What a flag shows of an item that a get or an arithmetic command found or made; `expiry` is the
// item's as of this flag.
void append_flag(const MetaResult& result, std::string_view flag, int64_t expiry, bool reads,
                 std::string& line) {
  const bool found = result.ok() && !result.command.created;
  switch (flag[0]) {
    case 'O':
      line.append(" ").append(flag);
      return;
    case 'k':
      line.append(" k");
      return append_key(line, result.command.key,
                        reads && result.ok() ? result.found_binary() : result.command.in_base64);
    case 't':
      if (result.ok()) append_seconds_left(line, expiry, result.command.now_ms);
      return;
    case 'c':
      if (result.ok()) append_number(line, 'c', result.reply.version);
      return;
    default:
      break;
  }
  if (!reads || !result.ok()) return;
  switch (flag[0]) {
    case 's':
      return append_number(line, 's', found ? result.reply.size : 0);
    case 'f':
      return append_number(line, 'f', found ? result.reply.flags : 0);
    case 'l':
      return append_number(line, 'l',
                           seconds_since_use(result.command.state, result.command.now_ms));
    case 'h':
      line.append((result.command.state & MetaState::fetched) != 0 ? " h1" : " h0");
      return;
    default:
      return;
  }
}

void append_flags(const MetaResult& result, bool reads, std::string& line) {
  const MetaCommand& command = result.command;
  int64_t expiry = command.old_expiry;
  std::string_view flags = result.flags;
  for (std::string_view flag = take_word(flags); !flag.empty(); flag = take_word(flags)) {
    if (flag[0] == 'T') expiry = command.expiry;
    if (flag[0] == 'N' && command.created) expiry = command.first_expiry;
    append_flag(result, flag, expiry, reads, line);
  }
}

void append_states(const MetaCommand& command, std::string& line) {
  if ((command.state & MetaState::token_sent) != 0) line.append(" Z");
  if ((command.state & MetaState::stale) != 0) line.append(" X");
  if (command.won) line.append(" W");
}

void write_get(const MetaResult& result, MemcachedCounters& counters, Output& output) {
  const MetaCommand& command = result.command;
  const bool touches = command.sets_expiry && result.ok();
  (touches ? counters.cmd_touch : counters.cmd_get).add();
  if (result.ok()) {
    SlabCounters& slab = counters.slab_of(result.reply.location);
    (touches ? slab.touch_hits : slab.get_hits).add();
    counters.total_items.add(command.created);
  } else {
    const bool missed = result.status == Status::not_found || result.status == Status::wrong_type;
    counters.get_misses.add(missed);
    if (!missed) {
      return output.append(result.status == Status::not_saved
                               ? result.not_saved
                               : "SERVER_ERROR out of memory writing get response\r\n");
    }
    if (command.quiet) return;
  }
  const uint64_t bytes = command.created ? 0 : result.reply.size;
  std::string line = !result.ok()          ? "EN"
                     : command.wants_value ? "VA " + std::to_string(bytes)
                                           : "HD";
  append_flags(result, true, line);
  if (result.ok()) append_states(command, line);
  output.append(line.append("\r\n"));
  if (!result.ok() || !command.wants_value) return;
  if (bytes != 0) output.append_value(result.reply);
  output.append("\r\n");
}

// A plain get as a command, for answers that are rare.
void write_unusual_get(const MemcachedAnswer& answer, const Batch& batch,
                       MemcachedCounters& counters, Output& output, std::string_view not_saved) {
  const Reply& reply = batch.reply(answer.row);
  MetaCommand command;
  command.key = batch.columns().key[answer.row];
  command.quiet = answer.silent;
  command.wants_value = answer.shows_value;
  command.now_ms = answer.time_ms;
  command.state = static_cast<uint64_t>(reply.number);
  command.won = (command.state & MetaState::won) != 0;
  command.old_expiry = reply.expiry;
  const Status status = reply.status.load(std::memory_order_acquire);
  write_get({command, reply, answer.text, status, not_saved}, counters, output);
}

char* put_letter(char* to, char letter) {
  *to++ = ' ';
  *to++ = letter;
  return to;
}

char* put_flag_number(char* to, char letter, uint64_t number) {
  to = put_letter(to, letter);
  return std::to_chars(to, to + 20, number).ptr;
}

// What a flag shows of an item that a plain get found.
char* put_flag(char* to, char letter, const Reply& reply, int64_t now_ms) {
  const auto state = static_cast<uint64_t>(reply.number);
  switch (letter) {
    case 's':
      return put_flag_number(to, letter, reply.size);
    case 'f':
      return put_flag_number(to, letter, reply.flags);
    case 'c':
      return put_flag_number(to, letter, reply.version);
    case 't':
      if (reply.expiry == no_expiry) return put_text(to, " t-1");
      return put_flag_number(to, letter, seconds_left(reply.expiry, now_ms));
    case 'l':
      return put_flag_number(to, letter, seconds_since_use(state, now_ms));
    case 'h':
      return put_text(to, (state & MetaState::fetched) != 0 ? " h1" : " h0");
    default:
      return to;
  }
}

char* put_flags(char* to, const MemcachedAnswer& answer, std::string_view key, const Reply& reply,
                bool found) {
  const char* at = answer.text.data();
  const char* const end = at + answer.text.size();
  for (;;) {
    while (at != end && *at == ' ') ++at;
    if (at == end) return to;
    const char* const word = at;
    while (at != end && *at != ' ') ++at;
    if (*word == 'k') {
      to = put_text(put_letter(to, 'k'), key);
    } else if (*word == 'O') {
      *to++ = ' ';
      to = put_text(to, {word, static_cast<size_t>(at - word)});
    } else if (found) {
      to = put_flag(to, *word, reply, answer.time_ms);
    }
  }
}

// Mostly no item is stale, and no key came in base64.
void write_plain_get(const MemcachedAnswer& answer, const Batch& batch, MemcachedCounters& counters,
                     Output& output, std::string_view not_saved) {
  const Reply& reply = batch.reply(answer.row);
  const Status status = reply.status.load(std::memory_order_acquire);
  const bool found = status == Status::ok;
  constexpr uint64_t unusual =
      MetaState::stale | MetaState::token_sent | MetaState::binary_key | MetaState::won;
  if ((static_cast<uint64_t>(reply.number) & unusual) != 0 ||
      (!found && status != Status::not_found)) {
    return write_unusual_get(answer, batch, counters, output, not_saved);
  }
  counters.cmd_get.add();
  (found ? counters.slab_of(reply.location).get_hits : counters.get_misses).add();
  if (!found && answer.silent) return;
  const std::string_view key = batch.columns().key[answer.row];
  // The code, each flag with a number, the opaque token and the line ends.
  constexpr size_t longest_line = 24 + MetaCommand::words_max * 22 + 34 + 4;
  const bool shows_value = found && answer.shows_value;
  const bool small = shows_value && reply.size < Output::chunk_bytes / 2;
  char* const start = output.reserve(longest_line + key.size() + (small ? reply.size : 0));
  char* to = start;
  to = shows_value ? put_number(put_text(to, "VA"), reply.size) : put_text(to, found ? "HD" : "EN");
  to = put_text(put_flags(to, answer, key, reply, found), "\r\n");
  if (small) to = put_text(put_text(to, reply.value()), "\r\n");
  output.commit(static_cast<size_t>(to - start));
  if (!shows_value || small) return;
  output.append_value(reply);
  output.append("\r\n");
}

std::string_view store_code(const MetaResult& result) {
  using Mode = MetaRequest::Mode;
  const MetaCommand& command = result.command;
  const bool compares =
      command.checks_version && (command.mode == Mode::set || command.mode == Mode::replace);
  switch (result.status) {
    case Status::ok:
      return "HD";
    case Status::condition_failed:
      return command.mode == Mode::add ? "NS" : "EX";
    case Status::not_found:
      return compares ? "NF" : "NS";
    case Status::too_large:
    case Status::wrong_type:
      return "NS";
    default:
      return {};
  }
}

void write_store(const MetaResult& result, MemcachedCounters& counters, Output& output) {
  const MetaCommand& command = result.command;
  const std::string_view code = store_code(result);
  SlabCounters& slab = counters.slab_of(result.reply.location);
  slab.cmd_set.add();
  counters.total_items.add(result.ok());
  counters.store_too_large.add(result.status == Status::too_large);
  counters.store_no_memory.add(code.empty() && result.status != Status::not_saved);
  slab.cas_hits.add(command.checks_version && result.ok());
  counters.cas_misses.add(code == "NF");
  slab.cas_badval.add(code == "EX");
  if (result.status == Status::not_saved) return output.append(result.not_saved);
  if (code.empty()) return output.append("SERVER_ERROR out of memory storing object\r\n");
  if (result.ok() && command.quiet) return;
  std::string line(code);
  std::string_view flags = result.flags;
  for (std::string_view flag = take_word(flags); !flag.empty(); flag = take_word(flags)) {
    if (flag[0] == 'O') line.append(" ").append(flag);
    if (flag[0] == 'c') append_number(line, 'c', result.ok() ? result.reply.version : 0);
    if (flag[0] != 'k') continue;
    line.append(" k");
    append_key(line, command.key, command.in_base64);
  }
  output.append(line.append("\r\n"));
}

void write_erase(const MetaResult& result, MemcachedCounters& counters, Output& output) {
  const bool erases = result.command.kind == MetaRequest::Kind::erase;
  counters.slab_of(result.reply.location).delete_hits.add(erases && result.ok());
  counters.delete_misses.add(!result.ok());
  if (result.ok() && result.command.quiet) return;
  if (result.status == Status::not_saved) return output.append(result.not_saved);
  std::string line = result.ok()                                 ? "HD"
                     : result.status == Status::condition_failed ? "EX"
                     : result.status == Status::not_found        ? "NF"
                                                                 : "SERVER_ERROR out of memory";
  std::string_view flags = result.flags;
  for (std::string_view flag = take_word(flags); !flag.empty(); flag = take_word(flags)) {
    if (flag[0] == 'O') line.append(" ").append(flag);
    if (flag[0] != 'k') continue;
    line.append(" k");
    append_key(line, result.command.key, result.command.in_base64);
  }
  output.append(line.append("\r\n"));
}

void write_arithmetic_meta(const MetaResult& result, MemcachedCounters& counters, Output& output) {
  const MetaCommand& command = result.command;
  const bool up = !command.decrements;
  const bool missed = result.status == Status::not_found;
  SlabCounters& slab = counters.slab_of(result.reply.location);
  (up ? slab.incr_hits : slab.decr_hits).add(result.ok() && !command.created);
  counters.total_items.add(result.ok() && command.created);
  (up ? counters.incr_misses : counters.decr_misses).add(missed);
  if (result.ok() && command.quiet && !command.created) return;
  const std::string digits = std::to_string(static_cast<uint64_t>(result.reply.number));
  std::string line;
  if (result.ok()) {
    line = command.wants_value ? "VA " + std::to_string(digits.size()) : "HD";
  } else if (missed) {
    line = "NF";
  } else if (result.status == Status::condition_failed) {
    line = "EX";
  } else if (result.status == Status::not_saved) {
    return output.append(result.not_saved);
  } else if (result.status == Status::out_of_memory || result.status == Status::retry) {
    return output.append("SERVER_ERROR out of memory\r\n");
  } else {
    return output.append("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  }
  append_flags(result, false, line);
  if (result.ok() && command.wants_value) line.append("\r\n").append(digits);
  output.append(line.append("\r\n"));
}

void write_debug(const MetaResult& result, MemcachedCounters& counters, Output& output) {
  counters.cmd_meta.add();
  if (result.status == Status::not_saved) return output.append(result.not_saved);
  if (!result.ok()) return output.append("EN\r\n");
  const MetaCommand& command = result.command;
  const uint64_t size =
      memcached_item_bytes(command.key.size(), result.reply.size, result.reply.flags);
  const int64_t expiry = command.old_expiry;
  std::string line = "ME ";
  if (result.found_binary()) {
    encode_base64(command.key, line);
  } else {
    line.append(command.key);
  }
  const int64_t left = (expiry - command.now_ms + 999) / 1000;
  line.append(" exp=").append(expiry == no_expiry ? "-1" : std::to_string(-left));
  line.append(" la=").append(std::to_string(seconds_since_use(command.state, command.now_ms)));
  line.append(" cas=").append(std::to_string(result.reply.version));
  line.append(" fetch=").append((command.state & MetaState::fetched) != 0 ? "yes" : "no");
  line.append(" cls=");
  line.append(std::to_string(ItemStore::class_number(result.reply.location) + 1));
  output.append(line.append(" size=").append(std::to_string(size)).append("\r\n"));
}

}  // namespace

// Not inlined: the other answers need less.
[[gnu::noinline]] void write_meta(const MemcachedAnswer& answer, const Batch& batch,
                                  MemcachedCounters& counters, Output& output,
                                  std::string_view not_saved) {
  if (batch.columns().op[answer.row] == Op::get) {
    return write_plain_get(answer, batch, counters, output, not_saved);
  }
  const auto number = static_cast<uintptr_t>(batch.columns().number[answer.row]);
  const auto* request = reinterpret_cast<const MetaRequest*>(number);
  const Reply& reply = batch.reply(answer.row);
  const MetaResult result{static_cast<const MetaCommand&>(*request), reply, answer.text,
                          reply.status.load(std::memory_order_acquire), not_saved};
  switch (answer.verb) {
    case meta_get:
      return write_get(result, counters, output);
    case meta_set:
      return write_store(result, counters, output);
    case meta_delete:
      return write_erase(result, counters, output);
    case meta_arithmetic:
      return write_arithmetic_meta(result, counters, output);
    default:
      return write_debug(result, counters, output);
  }
}

}  // namespace isotherm::net
