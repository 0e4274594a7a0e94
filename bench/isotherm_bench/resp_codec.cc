#include "isotherm_bench/resp_codec.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

namespace isotherm::bench {
namespace {

using State = ParsedReply::State;

void append_number(uint64_t number, std::string& out) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

// Walks over one reply, without owning its bytes.
class Reader {
 public:
  explicit Reader(std::string_view input) : input_(input) {}

  bool starts_with(char type) const { return at_ < input_.size() && input_[at_] == type; }
  bool at_end() const { return at_ >= input_.size(); }
  size_t position() const { return at_; }
  std::string_view rest() const { return input_.substr(at_); }

  // The line at the front, without type and line end; `incomplete` where it has not all arrived.
  std::optional<std::string_view> line() {
    const char* begin = input_.data() + at_;
    const void* end = std::memchr(begin, '\n', input_.size() - at_);
    if (end == nullptr) return std::nullopt;
    const auto length = static_cast<size_t>(static_cast<const char*>(end) - begin);
    at_ += length + 1;
    return std::string_view(begin + 1, length < 2 ? 0 : length - 2);
  }

  std::optional<std::string_view> bytes(uint64_t count) {
    if (input_.size() - at_ < count + 2) return std::nullopt;
    const std::string_view bytes = input_.substr(at_, count);
    at_ += count + 2;
    return bytes;
  }

 private:
  std::string_view input_;
  size_t at_ = 0;
};

// A length line as "$12" or "*3".
struct Length {
  State state = State::incomplete;
  int64_t value = 0;
};

Length read_length(Reader& reader, char type) {
  if (reader.at_end()) return {};
  if (!reader.starts_with(type)) return {.state = State::failed};
  const auto line = reader.line();
  if (!line) return {};
  Length length{.state = State::complete};
  const char* end = line->data() + line->size();
  const auto [stop, error] = std::from_chars(line->data(), end, length.value);
  constexpr int64_t most = int64_t{1} << 32;
  if (error != std::errc() || stop != end || length.value < -1 || length.value > most) {
    length.state = State::failed;
  }
  return length;
}

// A bulk string; data is null for the null bulk string.
struct Bulk {
  State state = State::incomplete;
  std::string_view data = {};
  bool null = false;
};

Bulk read_bulk(Reader& reader) {
  const Length length = read_length(reader, '$');
  if (length.state != State::complete) return {.state = length.state};
  if (length.value < 0) return {.state = State::complete, .null = true};
  const auto bytes = reader.bytes(static_cast<uint64_t>(length.value));
  if (!bytes) return {};
  return {.state = State::complete, .data = *bytes};
}

}  // namespace

RespCodec::RespCodec(const Workload& workload, bool verify) : Codec(workload, verify) {
  key_header_ = "$" + std::to_string(workload.key_size) + "\r\n";
}

void RespCodec::append_key_argument(uint64_t key, std::string& out) const {
  out += key_header_;
  append_key(key, out);
  out += "\r\n";
}

void RespCodec::append_number_argument(uint64_t number, std::string& out) {
  const std::string text = std::to_string(number);
  out.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
}

void RespCodec::get(std::span<const uint64_t> keys, std::string& out) {
  if (keys.size() == 1) {
    out += "*2\r\n$3\r\nGET\r\n";
  } else {
    out += '*';
    append_number(keys.size() + 1, out);
    out += "\r\n$4\r\nMGET\r\n";
  }
  for (uint64_t key : keys) append_key_argument(key, out);
}

void RespCodec::set(uint64_t key, uint64_t value_size, std::string& out) {
  out += "*3\r\n$3\r\nSET\r\n";
  append_key_argument(key, out);
  out += '$';
  append_number(value_size, out);
  out += "\r\n";
  append_value(key, value_size, out);
  out += "\r\n";
}

void RespCodec::erase(uint64_t key, std::string& out) {
  out += "*2\r\n$3\r\nDEL\r\n";
  append_key_argument(key, out);
}

void RespCodec::scan(uint64_t cursor, uint32_t count, std::string& out) {
  out += "*4\r\n$4\r\nSCAN\r\n";
  append_number_argument(cursor, out);
  out += "$5\r\nCOUNT\r\n";
  append_number_argument(count, out);
}

ParsedReply RespCodec::parse(std::string_view input, const Expected& expected) {
  ParsedReply reply;
  if (input.empty()) return reply;
  if (input.front() == '-') {
    if (input.find('\n') == std::string_view::npos) return reply;
    return failed("error reply", input);
  }
  Reader reader(input);
  const auto take = [&](State state, const char* what) {
    if (state == State::failed) {
      reply = failed(what, input);
      return false;
    }
    return state == State::complete;
  };
  // One value of a get: counts it, and checks it against its key.
  const auto value = [&](uint64_t key) {
    const Bulk bulk = read_bulk(reader);
    if (!take(bulk.state, "unexpected reply to a read")) return false;
    ++(bulk.null ? reply.misses : reply.hits);
    return bulk.null || value_fits(key, bulk.data) ||
           take(State::failed, "a value that was never stored under its key");
  };
  switch (expected.command) {
    case Command::get: {
      if (expected.keys.size() > 1) {
        const Length count = read_length(reader, '*');
        if (!take(count.state, "unexpected reply to MGET")) return reply;
        if (count.value != static_cast<int64_t>(expected.keys.size())) {
          return failed("MGET answered another number of values", input);
        }
      }
      for (uint64_t key : expected.keys) {
        if (!value(key)) return reply;
      }
      break;
    }
    case Command::set: {
      const auto line = reader.line();
      if (!line) return reply;
      if (input.front() != '+' || *line != "OK") return failed("unexpected reply to SET", input);
      break;
    }
    case Command::erase: {
      const Length count = read_length(reader, ':');
      if (!take(count.state, "unexpected reply to DEL")) return reply;
      ++(count.value == 0 ? reply.misses : reply.hits);
      break;
    }
    case Command::scan: {
      const Length parts = read_length(reader, '*');
      if (!take(parts.state, "unexpected reply to SCAN")) return reply;
      if (!take(read_bulk(reader).state, "unexpected cursor from SCAN")) return reply;
      const Length count = read_length(reader, '*');
      if (!take(count.state, "unexpected keys from SCAN")) return reply;
      for (int64_t i = 0; i < count.value; ++i) {
        if (!take(read_bulk(reader).state, "unexpected key from SCAN")) return reply;
      }
      reply.scanned = static_cast<uint32_t>(count.value);
      break;
    }
  }
  reply.state = State::complete;
  reply.bytes = reader.position();
  return reply;
}

}  // namespace isotherm::bench
