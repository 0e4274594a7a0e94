// Commands over a whole database: those that flush are rows, the others run alone, those that look
// at many items in steps.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "net/resp/glob.h"
#include "net/resp/handlers.h"
#include "net/resp/refusals.h"
#include "net/server_state.h"
#include "net/text.h"
#include "net/walk.h"
#include "tree/tree.h"

namespace isotherm::net {
namespace {

// Many clients keep a cursor in a double or a signed integer. So clients see it turned: its upper
// bits come first, and the few lowest, which it may have besides, behind them (engine/walk.h).
constexpr int upper_bits_of_cursor = 48;

uint64_t cursor_of(uint64_t shown) { return std::rotr(shown, upper_bits_of_cursor); }
uint64_t show_cursor(uint64_t cursor) { return std::rotl(cursor, upper_bits_of_cursor); }

struct ScanOptions {
  uint64_t cursor = 0;  // as it is shown
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

// Whose answer is the keys that were shown, behind a head.
class KeyWalk : public Walk {
 protected:
  KeyWalk(int version, uint64_t cursor) : Walk(cursor), version_(version) {}

  void failed(Output& output, bool lacks_memory) override {
    RespWriter(output, version_).error(lacks_memory ? over_maxmemory : unreadable);
  }
  void add(std::string_view key) { keys_.emplace_back(key); }
  // Turns the keys of the last step into text.
  void write_step(Output& output) {
    RespWriter writer(found(output), version_);
    for (const std::string& key : keys_) writer.bulk(key);
    written_ += keys_.size();
    keys_.clear();
  }
  // All of them, as an array.
  void write_all(RespWriter& writer, Output& output) {
    writer.array(written_);
    let_go_of_found(output);
  }
  void forget_all() {
    forget_found();
    keys_.clear();
    written_ = 0;
  }

  const int version_;
  std::vector<std::string> keys_;  // of the last step, whose thread is another

 private:
  size_t written_ = 0;
};

class ScanWalk final : public KeyWalk {
 public:
  ScanWalk(Arguments arguments, int version) : KeyWalk(version, 0) {
    ScanOptions options;
    parse_scan(arguments, &options);
    cursor_ = cursor_of(options.cursor);
    left_ = static_cast<uint64_t>(options.count);
    steps_left_ = most_steps + left_ / most_a_step;
    if (options.match) match_ = *options.match;
    if (options.type) type_ = *options.type;
  }
  void visit(const ScanItem& item) override {
    ++visited_;
    if (match_ && !glob_matches(*match_, item.key)) return;
    if (type_ && !equals_ignoring_case(*type_, type_name(item.type))) return;
    add(item.key);
  }

 protected:
  uint64_t wanted() const override { return std::min(left_, most_a_step); }
  bool took_step(bool /*anew*/, Output& output) override {
    left_ -= std::min(left_, std::exchange(visited_, 0));
    write_step(output);
    if (cursor_ != 0 && left_ != 0 && --steps_left_ != 0) return false;
    RespWriter writer(output, version_);
    writer.array(2);
    writer.bulk(std::to_string(show_cursor(cursor_)));
    write_all(writer, output);
    return true;
  }

 private:
  // A step ends early where the index is sparse; an almost empty database should still be walked in
  // one call.
  static constexpr uint64_t most_steps = 64;

  std::optional<std::string> match_;
  std::optional<std::string> type_;
  uint64_t left_;
  uint64_t steps_left_;
  uint64_t visited_ = 0;
};

class KeysWalk final : public KeyWalk {
 public:
  KeysWalk(Arguments arguments, int version) : KeyWalk(version, 0), pattern_(arguments[1]) {}
  void visit(const ScanItem& item) override {
    if (glob_matches(pattern_, item.key)) add(item.key);
  }

 protected:
  bool took_step(bool anew, Output& output) override {
    if (anew) {
      forget_all();
      cursor_ = 0;
      return false;
    }
    write_step(output);
    if (cursor_ != 0) return false;
    RespWriter writer(output, version_);
    write_all(writer, output);
    return true;
  }

 private:
  const std::string pattern_;
};

// The cursor is a bound on the hash, so a random one leads to a random key. Those of an index on a
// device are odd, all others even; a walk with one of the other kind begins anew, at the first key.
// `of_tree`: of a store with a tree; `on_device`: the index was on one when the walk began.
template <bool of_tree, bool on_device>
class RandomKeyWalk final : public KeyWalk {
 public:
  RandomKeyWalk(Arguments /*arguments*/, int version)
      : KeyWalk(version, random_cursor(on_device)) {}
  void visit(const ScanItem& item) override { add(item.key); }
  bool only_memory() const override { return !everywhere_; }

 protected:
  // Many where keys are rare.
  uint64_t wanted() const override { return vain_ ? most_a_step : 1; }
  bool took_step(bool anew, Output& output) override {
    if (anew && !std::exchange(moved_, true)) {
      keys_.clear();
      cursor_ = random_cursor(!on_device);
      return false;
    }
    vain_ = keys_.empty();
    if (keys_.empty() && (cursor_ != 0 || !std::exchange(all_, true))) return false;
    // With a tree: if memory has no key, one of the first keys of the tree.
    if (keys_.empty() && !std::exchange(everywhere_, true)) return false;
    RespWriter writer(output, version_);
    keys_.empty() ? writer.null() : writer.bulk(keys_[random() % keys_.size()]);
    return true;
  }

 private:
  static uint64_t random() {
    static thread_local std::mt19937_64 generator{std::random_device{}()};
    return generator();
  }
  static uint64_t random_cursor(bool of_device) {
    constexpr uint64_t odd = 1;
    return (random() & ~odd) | (of_device ? odd : 0);
  }

  bool moved_ = false;  // the index, from the device or to it
  bool vain_ = false;   // the last step
  bool all_ = false;    // from the first on
  bool everywhere_ = !of_tree;
};

// Where only a walk knows how many keys there are, or may have to wait for whoever knows.
class CountWalk final : public KeyWalk {
 public:
  CountWalk(Arguments /*arguments*/, int version) : KeyWalk(version, 0) {}
  void visit(const ScanItem& /*item*/) override { ++keys_seen_; }
  bool only_counts() const override { return true; }
  void count(uint64_t items) override { keys_seen_ = static_cast<int64_t>(items); }

 protected:
  bool took_step(bool anew, Output& output) override {
    if (anew) keys_seen_ = cursor_ = 0;
    if (anew || cursor_ != 0) return false;
    RespWriter(output, version_).integer(keys_seen_);
    return true;
  }

 private:
  int64_t keys_seen_ = 0;
};

template <class Kind>
std::unique_ptr<Walk> begin_walk(Arguments arguments, int version) {
  return std::make_unique<Kind>(arguments, version);
}

void run_dbsize(Alone& alone) {
  write_key_count(alone.turn.worker.count(alone.session.database), alone.writer);
}

// ASYNC and SYNC both empty the database at once and free its items later.
void flush(Call& call, uint32_t first, uint32_t end) {
  const bool plain = call.size() == 1;
  if (!plain && (call.size() > 2 || !(equals_ignoring_case(call[1], "async") ||
                                      equals_ignoring_case(call[1], "sync")))) {
    return call.syntax_error();
  }
  call.answer(encode_ok, call.batch().flush(first, end));
  if (call.turn.server.flush_ends_turn()) call.pause();
}

}  // namespace

void write_key_count(const std::optional<uint64_t>& keys, RespWriter& writer) {
  keys ? writer.integer(static_cast<int64_t>(*keys)) : writer.error(unreadable);
}

namespace handlers {

void scan(Call& call) {
  ScanOptions options;
  if (const char* error = parse_scan(call.arguments, &options)) return call.error(error);
  call.walk(begin_walk<ScanWalk>);
}

void keys(Call& call) { call.walk(begin_walk<KeysWalk>); }
void randomkey(Call& call) {
  const Engine& engine = call.turn.server.engine;
  if (engine.tree() != nullptr) return call.walk(begin_walk<RandomKeyWalk<true, false>>);
  call.walk(engine.stats().on_device ? begin_walk<RandomKeyWalk<false, true>>
                                     : begin_walk<RandomKeyWalk<false, false>>);
}
void dbsize(Call& call) {
  if (call.grouped()) return count_between_rows(call);
  if (call.turn.server.engine.tree() != nullptr) return call.walk(begin_walk<CountWalk>);
  call.run_alone(run_dbsize);
}
void flushall(Call& call) { flush(call, 0, call.turn.server.options.store.databases); }
void flushdb(Call& call) { flush(call, call.session.database, call.session.database + 1); }

}  // namespace handlers
}  // namespace isotherm::net
