#include "isotherm_bench/memcached_codec.h"

#include <charconv>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace isotherm::bench {
namespace {

using State = ParsedReply::State;

// The line at `at` without its end, and where the next one starts.
std::optional<std::string_view> read_line(std::string_view input, size_t& at) {
  const size_t end = input.find('\n', at);
  if (end == std::string_view::npos) return std::nullopt;
  const size_t length = end > at && input[end - 1] == '\r' ? end - 1 - at : end - at;
  const std::string_view line = input.substr(at, length);
  at = end + 1;
  return line;
}

struct ValueHeader {
  std::string_view key;
  uint64_t size = 0;
};

// "VALUE key flags size"
std::optional<ValueHeader> parse_header(std::string_view line) {
  constexpr std::string_view word = "VALUE ";
  if (!line.starts_with(word)) return std::nullopt;
  line.remove_prefix(word.size());
  const size_t key_end = line.find(' ');
  const size_t flags_end = key_end == line.npos ? line.npos : line.find(' ', key_end + 1);
  if (flags_end == line.npos) return std::nullopt;
  ValueHeader header{.key = line.substr(0, key_end)};
  const std::string_view size = line.substr(flags_end + 1);
  const char* end = size.data() + size.size();
  const auto [stop, error] = std::from_chars(size.data(), end, header.size);
  constexpr uint64_t most = uint64_t{1} << 32;
  if (error != std::errc() || stop != end || header.size > most) return std::nullopt;
  return header;
}

}  // namespace

void MemcachedCodec::get(std::span<const uint64_t> keys, std::string& out) {
  out += "get";
  for (uint64_t key : keys) {
    out += ' ';
    append_key(key, out);
  }
  out += "\r\n";
}

void MemcachedCodec::set(uint64_t key, uint64_t value_size, std::string& out) {
  out += "set ";
  append_key(key, out);
  char text[32];
  out += " 0 0 ";
  out.append(text, std::to_chars(text, text + sizeof text, value_size).ptr);
  out += "\r\n";
  append_value(key, value_size, out);
  out += "\r\n";
}

void MemcachedCodec::erase(uint64_t key, std::string& out) {
  out += "delete ";
  append_key(key, out);
  out += "\r\n";
}

void MemcachedCodec::scan(uint64_t, uint32_t, std::string&) {
  throw std::logic_error("memcached has no scan");
}

bool MemcachedCodec::find_key(std::string_view name, std::span<const uint64_t>& keys) {
  while (!keys.empty()) {
    key_.clear();
    append_key(keys.front(), key_);
    if (key_ == name) return true;
    keys = keys.subspan(1);
  }
  return false;
}

ParsedReply MemcachedCodec::parse_values(std::string_view input, std::span<const uint64_t> keys) {
  ParsedReply reply;
  const size_t asked = keys.size();
  size_t at = 0;
  for (;;) {
    const auto line = read_line(input, at);
    if (!line) return reply;
    if (*line == "END") break;
    const auto header = parse_header(*line);
    if (!header) return failed("unexpected reply to get", *line);
    if (input.size() - at < header->size + 2) return reply;
    const std::string_view value = input.substr(at, header->size);
    at += header->size + 2;
    if (++reply.hits > asked) return failed("more values than keys", *line);
    if (!verify_) continue;
    if (!find_key(header->key, keys)) return failed("a value for a key not asked for", *line);
    if (!value_fits(keys.front(), value)) {
      return failed("a value that was never stored under its key", *line);
    }
    keys = keys.subspan(1);
  }
  reply.misses = static_cast<uint32_t>(asked) - reply.hits;
  reply.state = State::complete;
  reply.bytes = at;
  return reply;
}

ParsedReply MemcachedCodec::parse(std::string_view input, const Expected& expected) {
  if (expected.command == Command::get) return parse_values(input, expected.keys);
  ParsedReply reply;
  size_t at = 0;
  const auto line = read_line(input, at);
  if (!line) return reply;
  if (expected.command == Command::set) {
    if (*line != "STORED") return failed("unexpected reply to set", *line);
  } else if (*line == "DELETED") {
    reply.hits = 1;
  } else if (*line == "NOT_FOUND") {
    reply.misses = 1;
  } else {
    return failed("unexpected reply to delete", *line);
  }
  reply.state = State::complete;
  reply.bytes = at;
  return reply;
}

}  // namespace isotherm::bench
