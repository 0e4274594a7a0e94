// Command: one row of the command table, and what its handler sees.
//
// A handler runs while the connection's input is parsed. It checks the arguments, appends rows to
// the turn's batch and says through its Call how the answer is made of them:
//
//   parse:  GET k → batch row 7 → Answer{bulk, row 7}      several commands, in order
//   submit: the batch runs
//   reply:  Answer{bulk, row 7}.encode → "$1\r\nv\r\n"
//
// An answer without rows is a text that is known when the command is parsed. A command over a whole
// database asks to run alone instead (protocol.h); its function is called when everything before it
// is answered.
//
// Threads. Sessions and calls belong to the connection's loop; the table is constant.
// Bytes. Arguments point into the input and stay there until the answer is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/macros.h"
#include "isotherm/batch.h"
#include "net/client.h"
#include "net/protocol.h"
#include "net/resp/writer.h"
#include "net/walk.h"

namespace isotherm::net {

using Arguments = std::span<const std::string_view>;

struct Answer;
struct Command;
class Call;
class Transaction;

// Which answers a client gets: CLIENT REPLY.
enum class Replies : uint8_t {
  on,
  off,
  skip,    // the next command's is left out
  silent,  // that of the EXEC under way is, until one of its commands says otherwise
};

// What one RESP connection knows of its client, besides what others may see of it (client.h).
struct Session {
  Session(Client& its_client, bool is_authenticated)
      : client(its_client), authenticated(is_authenticated) {}

  void use_version(int wanted) { client.version = version = wanted; }
  void use_database(uint32_t wanted) { client.database = database = wanted; }

  Client& client;
  bool authenticated;  // or came while there was no password
  int version = 2;     // of RESP
  uint32_t database = 0;
  Replies replies = Replies::on;
  bool no_touch = false;  // reads are no use, for eviction
  // What MULTI and WATCH keep (transaction.h); null: neither was called.
  std::shared_ptr<Transaction> transaction;
  // Commands need more than to be run (protocol.cc).
  bool unusual = false;
  bool ends = false;  // the connection, when all is answered
  // The snapshot, or the end of the server, that a command waits for; 0: none.
  uint64_t awaited = 0;
};

// What an answer is made from.
struct AnswerSource {
  const Batch& batch;
  int64_t now_ms;
  Output* output;  // of the connection, also where the answer is left out
};
using Encode = void (*)(const Answer& answer, const AnswerSource& source, RespWriter& writer);

// Whose answer it is, and what becomes of it.
struct Origin {
  uint16_t command = 0;   // its number; 0: none
  bool muted = false;     // made, to know whether it is an error, but not sent
  bool rejected = false;  // an error before the command ran
};

struct Answer {
  Encode encode;
  std::string_view text;  // for answers known at parse time
  Batch::Row first_row;
  uint32_t rows;
  int64_t number;  // whatever the encoder needs
  int version;     // of RESP when the command was parsed
  uint32_t begin;  // of the command, in the input of the turn
  Origin origin;
};

// A command that runs alone.
struct Alone {
  Arguments arguments;
  Turn& turn;
  Session& session;
  RespWriter& writer;
};
using RunAlone = void (*)(Alone& alone);
// One that walks, and writes its answer in this version of RESP.
using BeginWalk = std::unique_ptr<Walk> (*)(Arguments arguments, int version);

// The answers a connection owes, in order, and the texts they borrow.
struct AnswerQueue {
  std::vector<Answer> answers;
  std::deque<std::string> texts;  // a deque: its strings stay where they are
  std::vector<std::shared_ptr<void>> kept;
  RunAlone alone = nullptr;
  BeginWalk walk = nullptr;
  bool pausing = false;    // until the next turn
  bool closing = false;    // after these answers
  bool grouped = false;    // its rows are those of a transaction
  uint32_t begin = 0;      // of the command that is being parsed
  Origin origin;           // of the same, or of the one that runs alone
  size_t fixed = 0;        // answers before this one must be given: their commands did something
  size_t text_bytes = 0;   // of answers that are texts
  std::string_view input;  // of the turn, as far as it was parsed
  bool runs_alone() const { return alone != nullptr; }
  Batch::Row reads = 0;  // rows that may show values; commands that only read asked for these
};

class Call {
 public:
  Call(const Command& of, Arguments words, Turn& in, Session& from, AnswerQueue& queue)
      : command(of), arguments(words), turn(in), session(from), queue_(queue) {}

  std::string_view operator[](size_t i) const { return arguments[i]; }
  size_t size() const { return arguments.size(); }
  Batch& batch() const { return turn.batch; }

  // The answer is made by `encode` from `rows` rows from `first_row` on.
  ISOTHERM_INLINE void answer(Encode encode, Batch::Row first_row, uint32_t rows = 1,
                              int64_t number = 0) {
    answer_with(encode, {}, first_row, rows, number);
  }
  // The same from rows and a text, which must stay until then.
  ISOTHERM_INLINE void answer_with(Encode encode, std::string_view text, Batch::Row first_row,
                                   uint32_t rows = 1, int64_t number = 0) {
    // Written where it stays: a copy of fields that were just written waits for all of them.
    Answer& answer = queue_.answers.emplace_back();
    answer.encode = encode;
    answer.text = text;
    answer.first_row = first_row;
    answer.rows = rows;
    answer.number = number;
    answer.version = session.version;
    answer.begin = queue_.begin;
    answer.origin = queue_.origin;
  }
  // The answer is made by `encode` from `text`, which must stay until then.
  void answer_text(Encode encode, std::string_view text, int64_t number = 0) {
    queue_.text_bytes += text.size();
    answer_with(encode, text, 0, 0, number);
  }
  // The same of a text that the answer keeps.
  void answer_owned(Encode encode, std::string text, int64_t number = 0);
  // The answer is these very bytes, which live for ever.
  void answer_raw(std::string_view reply);
  void ok() { answer_raw("+OK\r\n"); }
  // `text` starts with its code: "ERR …".
  void error(std::string text);
  // The answer is one of two whole replies: `found` where the row finds its key.
  void answer_by_presence(Batch::Row row, std::string_view found, std::string_view missing);
  // Keeps what an answer or a guard needs at one address until the answer is written.
  template <typename Kept>
  Kept& keep(Kept kept) {
    auto owner = std::make_shared<Kept>(std::move(kept));
    Kept& place = *owner;
    queue_.kept.push_back(std::move(owner));
    return place;
  }
  // Its requests store a copy of what is there, however long that is.
  void copies() {
    if (!turn.copies.take()) queue_.pausing = true;
  }
  // So many of its rows may show values.
  void shows(Batch::Row rows) { queue_.reads += rows; }
  // Nothing more of the connection is parsed in this turn.
  void pause() { queue_.pausing = true; }
  // Whether its rows are in a transaction's group.
  bool grouped() const { return queue_.grouped; }
  void run_alone(RunAlone run) { queue_.alone = run; }
  void walk(BeginWalk begin) {
    queue_.walk = begin;
    queue_.alone = [](Alone&) {};  // it runs so, too
  }
  // This command's answer is sent, or not, whatever CLIENT REPLY said before.
  void mute(bool muted) { queue_.origin.muted = muted; }
  // The answer before is an error of a command that did not run.
  void reject() { queue_.answers.back().origin.rejected = true; }
  // Ends the connection after the answers so far.
  void close() { queue_.closing = true; }
  // Ends it without them.
  void drop() {
    queue_.answers.clear();
    close();
  }

  // Errors that many commands share.
  void syntax_error() { error("ERR syntax error"); }
  void not_an_integer() { error("ERR value is not an integer or out of range"); }
  void wrong_arity();

  // The integer in argument i; otherwise answers with the error and returns false.
  bool integer(size_t i, int64_t* value);

  const Command& command;
  const Arguments arguments;
  Turn& turn;
  Session& session;

 private:
  AnswerQueue& queue_;
};

using Handler = void (*)(Call& call);

// Whether a row of the answer could not be made safe.
bool is_unsaved(const Answer& answer, const Batch& batch);
// Whether the rows from `first` on change something and show what was there; they are of a kind.
bool shows_value(const Batch& batch, Batch::Row first);

// Flags and categories of a command, as COMMAND shows them.
namespace command_flag {
inline constexpr uint32_t write = 1 << 0;
inline constexpr uint32_t readonly = 1 << 1;
inline constexpr uint32_t denyoom = 1 << 2;
inline constexpr uint32_t admin = 1 << 3;
inline constexpr uint32_t noscript = 1 << 4;
inline constexpr uint32_t loading = 1 << 5;
inline constexpr uint32_t stale = 1 << 6;
inline constexpr uint32_t fast = 1 << 7;
inline constexpr uint32_t no_auth = 1 << 8;
inline constexpr uint32_t allow_busy = 1 << 9;
inline constexpr uint32_t skip_slowlog = 1 << 10;
inline constexpr uint32_t no_async_loading = 1 << 11;
inline constexpr uint32_t solo = 1 << 13;         // it runs alone, and is about no keys; not shown
inline constexpr uint32_t waits = 1 << 14;        // for what the session says (Session::awaited)
inline constexpr uint32_t walks = 1 << 15;        // over a database; not shown
inline constexpr uint32_t in_keyspace = 1 << 16;  // categories from here on
inline constexpr uint32_t in_string = 1 << 17;
inline constexpr uint32_t in_connection = 1 << 18;
inline constexpr uint32_t in_dangerous = 1 << 19;
inline constexpr uint32_t in_bitmap = 1 << 20;
inline constexpr uint32_t in_transaction = 1 << 21;
inline constexpr uint32_t in_admin = 1 << 22;  // without the flag `admin`
}  // namespace command_flag

struct Command {
  std::string_view name;  // in lower case; of a subcommand "client|id"
  int arity;              // words, its name included; negative: at least so many
  uint32_t flags;
  int first_key, last_key, key_step;  // positions; 0: no keys; last -1: the last word
  Handler handler;                    // null: only its subcommands can be called
  std::string_view key_flags;         // words, for COMMAND; behind a bar: of all but the first key
  std::string_view tips;              // words, for COMMAND
  std::string_view since;             // the Redis version that brought it
  std::string_view group;
  std::string_view summary;
  std::span<const Command> subcommands = {};

  bool waits() const { return (flags & command_flag::waits) != 0; }
  bool takes(size_t words) const {
    return arity >= 0 ? words == static_cast<size_t>(arity) : words >= static_cast<size_t>(-arity);
  }
  // Which word becomes the value of the key, the second word; 0: none does.
  size_t stored_word() const;
  // Of a subcommand, the part behind the bar.
  std::string_view own_name() const { return name.substr(name.find('|') + 1); }
};

// The whole table, sorted as it is shown.
std::span<const Command> command_table();
// Words that are run as commands, but are not shown and not counted: those of web browsers, and of
// clients that take the server for a part of a cluster.
std::span<const Command> unlisted_commands();
// Finds a command, its name in any case; null: there is none.
const Command* find_command(std::string_view name);
const Command* find_subcommand(const Command& container, std::string_view name);

// The same with the command's number: from 1 on in the order of the table, subcommands behind the
// command they belong to; 0: there is none.
struct NumberedCommand {
  const Command* command = nullptr;
  uint16_t number = 0;
};
NumberedCommand find_numbered(std::string_view name);
NumberedCommand find_numbered(const NumberedCommand& container, std::string_view name);

// The command of a request, and what is so of all that have as many words and the same first one.
struct FoundCommand : NumberedCommand {
  bool only_reads = false;
  bool plain = false;  // it can be run at once, unless the session is unusual
};
FoundCommand find_command_of(Arguments words);

}  // namespace isotherm::net
