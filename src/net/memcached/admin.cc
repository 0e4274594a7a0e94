#include "net/memcached/admin.h"

#include <algorithm>
#include <map>
#include <string>

#include "items/size_classes.h"
#include "net/log.h"
#include "net/memcached/limits.h"
#include "net/server_state.h"
#include "net/unsaved.h"

namespace isotherm::net {
namespace {

constexpr std::string_view unknown_line = "ERROR\r\n";
constexpr std::string_view malformed_line = "CLIENT_ERROR bad command line format\r\n";

constexpr uint64_t large_slab = size_classes::count + 1;
constexpr uint64_t last_slab = 63;  // that memcached takes for a number of one
static_assert(large_slab <= last_slab);
constexpr std::string_view no_memory_line = "SERVER_ERROR out of memory\r\n";

bool parse_small(std::string_view word, int64_t& number) {
  return parse_signed(word, number) && number >= INT32_MIN && number <= INT32_MAX;
}

class Cachedump final : public Walk {
 public:
  Cachedump(uint64_t slab, uint64_t limit) : slab_(slab), limit_(limit) {}

  void visit(const ScanItem& item) override {
    ++looked_;
    if (item.size_class + 1 != slab_ || item.type != ValueType::string || full()) return;
    text_.append("ITEM ").append(item.key).append(" [");
    text_.append(std::to_string(item.value_bytes)).append(" b; ");
    text_.append(std::to_string(item.expiry / 1000)).append(" s]\r\n");
    ++shown_;
  }

 protected:
  bool took_step(bool /*anew*/, Output& output) override {
    found(output).append(text_);
    written_ += text_.size();
    text_.clear();
    if (cursor_ != 0 && looked_ < dump_items && !full()) return false;
    let_go_of_found(output);
    output.append("END\r\n");
    return true;
  }
  void failed(Output& output, bool lacks_memory) override {
    output.append(lacks_memory ? no_memory_line : unreadable_line);
  }

 private:
  static constexpr size_t most_bytes = 2 << 20;
  bool full() const {
    return (limit_ != 0 && shown_ == limit_) || written_ + text_.size() > most_bytes;
  }

  const uint64_t slab_;
  const uint64_t limit_;
  std::string text_;  // of the last step, whose thread is another
  uint64_t shown_ = 0, looked_ = 0, written_ = 0;
};

// How many items have which size, as memcached would store them, in steps of 32 bytes.
class Sizes final : public Walk {
 public:
  void visit(const ScanItem& item) override {
    if (item.type != ValueType::string) return;
    const uint64_t bytes = memcached_item_bytes(item.key.size(), item.value_bytes, item.flags);
    ++counts_[(bytes + step - 1) / step];
  }

 protected:
  bool took_step(bool anew, Output& output) override {
    if (anew) before_.clear();
    for (const auto& [steps, count] : counts_) before_[steps] += count;
    counts_.clear();
    if (cursor_ != 0) return false;
    for (const auto& [steps, count] : before_) {
      output.append("STAT " + std::to_string(steps * step) + " " + std::to_string(count) + "\r\n");
    }
    output.append("END\r\n");
    return true;
  }
  void failed(Output& output, bool lacks_memory) override {
    output.append(lacks_memory ? no_memory_line : unreadable_line);
  }

 private:
  static constexpr uint64_t step = 32;

  std::map<uint64_t, uint64_t> counts_;  // by steps, of the last step of the walk
  std::map<uint64_t, uint64_t> before_;
};

std::string_view reassign_answer(const Words& words) {
  int64_t source = 0, target = 0;
  if (words.count != 4) return unknown_line;
  if (!parse_small(words[2], source) || !parse_small(words[3], target)) return malformed_line;
  const auto is_slab = [](int64_t id) { return id >= 0 && id <= int64_t{large_slab}; };
  if (source == target) return "SAME src and dst class are identical\r\n";
  if (!is_slab(source) || !is_slab(target)) return "BADCLASS invalid src or dst class id\r\n";
  return "NOSPARE source class has no spare pages\r\n";
}

std::unique_ptr<Walk> begin_cachedump(std::string_view arguments, Output& output) {
  uint64_t slab = 0, limit = 0;
  const std::string_view slab_word = take_word(arguments);
  const std::string_view limit_word = take_word(arguments);
  std::string_view problem;
  if (limit_word.empty()) {
    problem = "CLIENT_ERROR bad command line\r\n";
  } else if (!parse_unsigned(slab_word, slab) || !parse_unsigned(limit_word, limit)) {
    problem = malformed_line;
  } else if (slab > last_slab) {
    problem = "CLIENT_ERROR Illegal slab id\r\n";
  }
  if (problem.empty()) return std::make_unique<Cachedump>(slab, limit);
  output.append(problem);
  return nullptr;
}

}  // namespace

std::string_view slabs_answer(const Words& words) {
  if (words.count > 1 && words[1] == "reassign") return reassign_answer(words);
  if (words.count < 3 || words[1] != "automove") return unknown_line;
  uint64_t level = 0;
  if (!parse_unsigned(words[2], level)) return malformed_line;
  return level <= 2 ? "OK\r\n" : unknown_line;
}

std::string_view set_memory_limit(std::string_view word, ServerState& server) {
  constexpr uint64_t least = 8, most = 1'000'000'000;
  uint64_t megabytes = 0;
  if (!parse_unsigned(word, megabytes)) return unknown_line;
  if (megabytes < least) {
    return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
  }
  if (megabytes > most) {
    return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
  }
  server.engine.set_maxmemory(megabytes << 20);
  return "OK\r\n";
}

std::unique_ptr<Walk> begin_walk(std::string_view arguments, Output& output) {
  if (take_word(arguments) == "sizes") return std::make_unique<Sizes>();
  return begin_cachedump(arguments, output);
}

std::string_view set_verbosity(std::string_view word, ServerState& server) {
  uint64_t level = 0;
  if (!parse_unsigned(word, level)) return malformed_line;
  const LogLevel now = server.live.loglevel;
  const LogLevel quiet = now == LogLevel::warning ? now : LogLevel::notice;
  const LogLevel wanted = level == 0 ? quiet : level == 1 ? LogLevel::verbose : LogLevel::debug;
  server.live.loglevel = wanted;
  use_log_level(wanted);
  return "OK\r\n";
}

uint64_t verbosity_of(const ServerState& server) {
  const LogLevel level = server.live.loglevel;
  return level == LogLevel::debug ? 2 : level == LogLevel::verbose ? 1 : 0;
}

}  // namespace isotherm::net
