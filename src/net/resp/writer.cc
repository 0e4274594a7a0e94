#include "net/resp/writer.h"

#include <charconv>
#include <cmath>
#include <string>

namespace isotherm::net {
namespace {

// The shortest digits that read back as the same number; without an exponent where Redis has none.
std::string_view format_real(double value, char (&buffer)[64]) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return {buffer,
          static_cast<size_t>(std::to_chars(buffer, buffer + sizeof buffer, value).ptr - buffer)};
}

}  // namespace

[[gnu::noinline]] void RespWriter::any_bulk(const Reply& reply) {
  if (reply.size <= short_value) return short_bulk(reply.value());
  number('$', static_cast<int64_t>(reply.size));
  output_.append_value(reply);
  output_.append("\r\n");
}

// Short ones are written as long as there is room for any, without asking for each.
void RespWriter::bulks(std::span<const Reply> replies) {
  const Reply* reply = replies.data();
  const Reply* const end = reply + replies.size();
  while (reply != end) {
    char* const begin = output_.reserve(short_bulk_room);
    const char* const last = begin + (output_.room() - short_bulk_room);
    char* at = begin;
    while (reply != end && reply->data != nullptr && reply->size <= short_value && at <= last) {
      at = write_short_bulk(at, reply->value());
      ++reply;
    }
    output_.commit(static_cast<size_t>(at - begin));
    if (reply == end || at > last) continue;
    reply->data == nullptr ? null() : any_bulk(*reply);
    ++reply;
  }
}

void RespWriter::number(char type, int64_t value) {
  char* const begin = output_.reserve(32);
  *begin = type;
  char* const end = end_line(std::to_chars(begin + 1, begin + 25, value).ptr);
  output_.commit(static_cast<size_t>(end - begin));
}

void RespWriter::line(char type, std::string_view text) {
  output_.append(type);
  output_.append(text);
  output_.append("\r\n");
}

void RespWriter::error(std::string_view text) {
  error_code_bytes_ = text.substr(0, text.find(' ')).copy(error_code_.data(), error_code_.size());
  while (text.ends_with('\r') || text.ends_with('\n')) text.remove_suffix(1);
  if (text.find_first_of("\r\n") == text.npos) return line('-', text);
  std::string safe(text);
  for (char& c : safe) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  line('-', safe);
}

void RespWriter::bulk_integer(int64_t value) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  bulk({digits, static_cast<size_t>(end - digits)});
}

void RespWriter::real(double value) {
  char buffer[64];
  const std::string_view digits = format_real(value, buffer);
  if (resp3_) {
    line(',', digits);
  } else {
    bulk(digits);
  }
}

void RespWriter::verbatim(std::string_view format, std::string_view text) {
  if (!resp3_) return bulk(text);
  number('=', static_cast<int64_t>(text.size() + 4));
  output_.append(format);
  output_.append(':');
  output_.append(text);
  output_.append("\r\n");
}

}  // namespace isotherm::net
