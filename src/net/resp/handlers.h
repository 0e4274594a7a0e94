// The handlers of the commands, one source file per family (*_commands.cc), and the encoders
// that they share.
//
// A handler reads its arguments and appends rows and an answer to its call; an encoder writes an
// answer once the rows have run (command.h).
//
// Threads. They keep no state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/resp/command.h"

namespace isotherm::net::handlers {

// connection
void ping(Call& call);
void echo(Call& call);
void hello(Call& call);
void auth(Call& call);
void select(Call& call);
void quit(Call& call);
void reset(Call& call);
void close_at_once(Call& call);
void client_caching(Call& call);
void client_getname(Call& call);
void client_getredir(Call& call);
void client_id(Call& call);
void client_info(Call& call);
void client_kill(Call& call);
void client_list(Call& call);
void client_no_evict(Call& call);
void client_no_touch(Call& call);
void client_pause(Call& call);
void client_reply(Call& call);
void client_setinfo(Call& call);
void client_setname(Call& call);
void client_tracking(Call& call);
void client_trackinginfo(Call& call);
void client_unblock(Call& call);
void client_unpause(Call& call);

// server
void info(Call& call);
void config_get(Call& call);
void config_set(Call& call);
void config_resetstat(Call& call);
void config_rewrite(Call& call);
void role(Call& call);
void wait(Call& call);
void lastsave(Call& call);
void save(Call& call);
void bgsave(Call& call);
void shutdown(Call& call);
// Whether what a command waits for is not over yet; the first call asks for it.
bool is_awaited(Arguments words, ServerState& server, Session& session);
void bgrewriteaof(Call& call);
void memory_purge(Call& call);
void memory_usage(Call& call);
void module_list(Call& call);
void lolwut(Call& call);
void latency_doctor(Call& call);
void latency_graph(Call& call);
void latency_history(Call& call);
void latency_latest(Call& call);
void latency_reset(Call& call);
void refuse_cluster(Call& call);
void dbsize(Call& call);
void flushall(Call& call);
void flushdb(Call& call);
void slowlog_get(Call& call);
void slowlog_len(Call& call);
void slowlog_reset(Call& call);
void time(Call& call);
void command(Call& call);
void command_count(Call& call);
void command_docs(Call& call);
void command_info(Call& call);
void command_list(Call& call);
void command_getkeys(Call& call);
void command_getkeysandflags(Call& call);
void help(Call& call);  // of any command with subcommands

// strings
void get(Call& call);
void set(Call& call);
void setnx(Call& call);
void setex(Call& call);
void psetex(Call& call);
void getset(Call& call);
void getdel(Call& call);
void getex(Call& call);
void mget(Call& call);
void mset(Call& call);
void incr(Call& call);
void decr(Call& call);
void incrby(Call& call);
void decrby(Call& call);
void append(Call& call);
void strlen(Call& call);
void incrbyfloat(Call& call);
void setrange(Call& call);
void getrange(Call& call);
void lcs(Call& call);

// bits
void setbit(Call& call);
void getbit(Call& call);
void bitcount(Call& call);
void bitpos(Call& call);
void bitfield(Call& call);
void bitfield_ro(Call& call);

// several keys at once, in groups
void msetnx(Call& call);
void rename(Call& call);
void renamenx(Call& call);
void copy(Call& call);
void move(Call& call);
void bitop(Call& call);

// transactions
void multi(Call& call);
void exec(Call& call);
void discard(Call& call);
void watch(Call& call);
void unwatch(Call& call);

// how values are kept
void object_encoding(Call& call);
void object_freq(Call& call);
void object_idletime(Call& call);
void object_refcount(Call& call);
void dump(Call& call);
void restore(Call& call);

// keys
void del(Call& call);
void exists(Call& call);
void touch(Call& call);
void expire(Call& call);
void pexpire(Call& call);
void expireat(Call& call);
void pexpireat(Call& call);
void ttl(Call& call);
void pttl(Call& call);
void expiretime(Call& call);
void pexpiretime(Call& call);
void persist(Call& call);
void type(Call& call);
void scan(Call& call);
void keys(Call& call);
void randomkey(Call& call);

}  // namespace isotherm::net::handlers

namespace isotherm::net {

// Writes the error that `status` stands for, if it is one that no command gives a meaning of its
// own.
bool write_error_of(Status status, RespWriter& writer);
inline bool write_failure(Status status, RespWriter& writer) {
  const bool usual = status >= Status::ok && status <= Status::condition_failed;
  return !usual && write_error_of(status, writer);
}

// DBSIZE in a transaction: of the moment when the rows before it have run.
void count_between_rows(Call& call);
// Empty: the files of the tree cannot be read.
void write_key_count(const std::optional<uint64_t>& keys, RespWriter& writer);

// The type as TYPE names it.
std::string_view type_name(ValueType type);

// Options of a get that asks about the key, whatever its type, and does not count as a use of it.
inline constexpr uint16_t looks_on = option::any_type | option::no_touch | option::no_value;

// Encoders.
void encode_raw(const Answer& answer, const AnswerSource& source, RespWriter& writer);
void encode_bulk_text(const Answer& answer, const AnswerSource& source, RespWriter& writer);
void encode_verbatim(const Answer& answer, const AnswerSource& source, RespWriter& writer);
void encode_integer(const Answer& answer, const AnswerSource& source, RespWriter& writer);
// The value found by the answer's row, or null.
void encode_value(const Answer& answer, const AnswerSource& source, RespWriter& writer);
// 1 where the row succeeded, else 0.
void encode_success(const Answer& answer, const AnswerSource& source, RespWriter& writer);
// How many of the rows succeeded.
void encode_count(const Answer& answer, const AnswerSource& source, RespWriter& writer);
// "OK" unless a row failed.
void encode_ok(const Answer& answer, const AnswerSource& source, RespWriter& writer);
// The row's number.
void encode_number(const Answer& answer, const AnswerSource& source, RespWriter& writer);

// The relative or absolute time in argument i as an absolute one in milliseconds, as SET, GETEX and
// SETEX take it: positive. Otherwise answers with the error.
struct TimeForm {
  bool seconds;
  bool relative;
};
bool parse_expiry(Call& call, size_t i, TimeForm form, int64_t* expiry);

// The number of a database in argument i; otherwise answers with the error and returns false.
bool parse_database(Call& call, size_t i, uint32_t* database);

// A name for a client, or for its library, as CLIENT LIST can show it; otherwise answers with the
// error.
bool check_client_name(Call& call, std::string_view name);
void rename_client(Call& call, std::string_view name);

// The milliseconds in argument i as a time to wait, as blocking commands read it. Otherwise answers
// with the error.
bool parse_wait_ms(Call& call, size_t i, int64_t* wait_ms);

// The text of INFO for the sections asked for (none: the default ones).
std::string info_text(ServerState& server, Arguments sections);

}  // namespace isotherm::net
