#include "net/memcached/admin.h"

#include <algorithm>
#include <string>

#include "items/size_classes.h"
#include "net/server_state.h"

namespace isotherm::net {
namespace {

constexpr std::string_view unknown_line = "ERROR\r\n";
constexpr std::string_view malformed_line = "CLIENT_ERROR bad command line format\r\n";

constexpr uint64_t large_slab = size_classes::count + 1;
constexpr uint64_t last_slab = 63;  // that memcached takes for a number of one
static_assert(large_slab <= last_slab);

bool parse_small(std::string_view word, int64_t& number) {
  return parse_signed(word, number) && number >= INT32_MIN && number <= INT32_MAX;
}

void stat(uint64_t slab, std::string_view before, std::string_view name, uint64_t value,
          Output& output) {
  output.append("STAT ");
  output.append(before);
  output.append_unsigned(slab);
  output.append(':');
  output.append(name);
  output.append(' ');
  output.append_unsigned(value);
  output.append("\r\n");
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
  void failed(Output& output) override {
    output.append("SERVER_ERROR the files of the tree cannot be read\r\n");
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

std::string_view reassign_answer(const Words& words) {
  int64_t source = 0, target = 0;
  if (words.count != 4) return unknown_line;
  if (!parse_small(words[2], source) || !parse_small(words[3], target)) return malformed_line;
  const auto is_slab = [](int64_t id) { return id >= 0 && id <= int64_t{large_slab}; };
  if (source == target) return "SAME src and dst class are identical\r\n";
  if (!is_slab(source) || !is_slab(target)) return "BADCLASS invalid src or dst class id\r\n";
  return "NOSPARE source class has no spare pages\r\n";
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

std::unique_ptr<Walk> begin_cachedump(std::string_view arguments, Output& output) {
  take_word(arguments);
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

void write_items(const Engine& engine, Output& output) {
  uint64_t slab = 0;
  for (const ItemClassStats& size_class : engine.item_classes()) {
    ++slab;
    if (size_class.items != 0) stat(slab, "items:", "number", size_class.items, output);
  }
}

void write_slabs(const Engine& engine, Output& output) {
  uint64_t slab = 0, active = 0, bytes = 0;
  for (const ItemClassStats& size_class : engine.item_classes()) {
    ++slab;
    if (size_class.chunks == 0) continue;
    const uint64_t places = size_class.chunks * size_class.per_chunk;
    ++active;
    bytes += size_class.chunks * size_classes::chunk_bytes;
    stat(slab, "", "chunk_size", size_class.bytes, output);
    stat(slab, "", "chunks_per_page", size_class.per_chunk, output);
    stat(slab, "", "total_pages", size_class.chunks, output);
    stat(slab, "", "total_chunks", places, output);
    stat(slab, "", "used_chunks", size_class.items, output);
    stat(slab, "", "free_chunks", places - std::min(places, size_class.items), output);
    stat(slab, "", "free_chunks_end", 0, output);
  }
  output.append("STAT active_slabs " + std::to_string(active) + "\r\n");
  output.append("STAT total_malloced " + std::to_string(bytes + engine.large_item_bytes()) +
                "\r\n");
}

}  // namespace isotherm::net
