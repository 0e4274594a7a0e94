// RespWriter: writes replies in RESP2 or RESP3.
//
// One value a call; aggregates announce their count and are followed by their values (a map by
// twice as many). What RESP2 lacks is written as what Redis gives to RESP2 clients: a map as a flat
// array, a set or push as an array, a double and a verbatim text as a bulk, null as a null bulk or
// a null array, a boolean as 1 or 0.
//
// Threads. A view over one connection's output for the time of a reply.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "net/output.h"

namespace isotherm::net {

class RespWriter {
 public:
  RespWriter(Output& output, int version) : output_(output), resp3_(version >= 3) {}

  Output& output() { return output_; }

  // Bytes that are a whole reply already.
  void raw(std::string_view bytes) { output_.append(bytes); }

  void simple(std::string_view text) { line('+', text); }
  void ok() { raw("+OK\r\n"); }
  // `text` starts with the code ("ERR …"); what would break the line is written as spaces.
  void error(std::string_view text);
  // The code of the last error written; empty: there was none.
  std::string_view error_code() const { return {error_code_.data(), error_code_bytes_}; }
  void integer(int64_t value) {
    // Counts and flags are most integers.
    if (value == 0) return raw(":0\r\n");
    if (value == 1) return raw(":1\r\n");
    number(':', value);
  }

  void bulk(std::string_view value) {
    if (value.size() <= short_value) return short_bulk(value);
    number('$', static_cast<int64_t>(value.size()));
    output_.append(value);
    output_.append("\r\n");
  }
  // The value of a reply whose batch is not cleared yet; a large one is not copied.
  ISOTHERM_INLINE void bulk(const Reply& reply) {
    // Those that `copy_bytes` copies without a call are written without any.
    constexpr size_t copied_inline = 64;
    const bool simple = reply.size <= copied_inline && output_.room() >= short_bulk_room;
    simple ? short_bulk(reply.value()) : any_bulk(reply);
  }
  // A part of such a value.
  void bulk(const Reply& reply, std::string_view part) {
    if (part.size() <= short_value) return short_bulk(part);
    number('$', static_cast<int64_t>(part.size()));
    output_.append_value(reply, part);
    output_.append("\r\n");
  }
  // The values of such replies, one behind the other; null where one has none.
  void bulks(std::span<const Reply> replies);
  // Begins a bulk in pieces: `size` bytes and the line's end follow as raw.
  void bulk_head(size_t size) { number('$', static_cast<int64_t>(size)); }
  void bulk_integer(int64_t value);
  void null() { raw(resp3_ ? "_\r\n" : "$-1\r\n"); }
  void null_array() { raw(resp3_ ? "_\r\n" : "*-1\r\n"); }
  void real(double value);
  // `format` is three letters: "txt" or "mkd".
  void verbatim(std::string_view format, std::string_view text);

  void array(size_t count) { number('*', static_cast<int64_t>(count)); }
  void map(size_t pairs) { resp3_ ? number('%', static_cast<int64_t>(pairs)) : array(pairs * 2); }
  void set(size_t count) { number(resp3_ ? '~' : '*', static_cast<int64_t>(count)); }
  void push(size_t count) { number(resp3_ ? '>' : '*', static_cast<int64_t>(count)); }

 private:
  // A value of at most so many bytes lies in one piece with its head.
  static constexpr size_t short_value = 256;

  // The heads of such values, "$<size>\r\n" from the lowest byte on, and their lengths in the
  // highest.
  static constexpr std::array<uint64_t, short_value + 1> heads = [] {
    std::array<uint64_t, short_value + 1> all{};
    for (uint64_t size = 0; size <= short_value; ++size) {
      uint64_t head = '\r' | uint64_t{'\n'} << 8;
      uint64_t length = 3;
      uint64_t rest = size;
      do {
        head = head << 8 | ('0' + rest % 10);
        rest /= 10;
        ++length;
      } while (rest != 0);
      all[size] = head << 8 | '$' | length << 56;
    }
    return all;
  }();

  // Room for any of them.
  static constexpr size_t short_bulk_room = short_value + 16;

  ISOTHERM_INLINE void short_bulk(std::string_view value) {
    char* const begin = output_.reserve(short_bulk_room);
    output_.commit(static_cast<size_t>(write_short_bulk(begin, value) - begin));
  }
  // Returns where it ends.
  static ISOTHERM_INLINE char* write_short_bulk(char* at, std::string_view value) {
    const uint64_t head = heads[value.size()];
    std::memcpy(at, &head, sizeof head);
    at += head >> 56;
    copy_bytes(at, value.data(), value.size());
    return end_line(at + value.size());
  }
  void any_bulk(const Reply& reply);
  static char* end_line(char* at) {
    *at++ = '\r';
    *at++ = '\n';
    return at;
  }
  void line(char type, std::string_view text);
  void number(char type, int64_t value);

  Output& output_;
  const bool resp3_;
  std::array<char, 16> error_code_;
  size_t error_code_bytes_ = 0;
};

}  // namespace isotherm::net
