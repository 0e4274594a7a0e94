// RespParser: finds the requests in a stream of RESP bytes.
//
//   *<count>\r\n ( $<length>\r\n <bytes>\r\n ) × count      a request
//   <words>\r\n                                            an inline request
//
// `next` looks at the input from the front of a request on. When the request is not complete yet,
// the parser keeps its place: called again with the same bytes and more behind them, it goes on
// where it stopped, so a large value that arrives in many pieces is never looked at twice. Of the
// words that are there it keeps only the number, so a request of very many tiny words takes no more
// than its bytes; where they lie is read once more when the request is complete.
//
// Most requests are complete and plain; `parse_quickly` parses those in one pass. It leaves all
// others (incomplete, wrong, unusual) to the careful way, which starts from the front of the
// request again. Clients repeat a command many times, and their keys or values often have one
// length: the quick way keeps the head of the last such request, up to the end of its first word,
// and compares lengths with the one before as they are written, before it reads digits.
//
// The limits and the words of the errors are those of Redis: a line without its end may take 64
// KiB, lengths are 64-bit decimals that are checked before anything is allocated for them, and an
// error means that framing is lost. Like Redis, a line ends at its first CR (inline: LF), its next
// byte is skipped unseen, and a NUL before it hides it.
//
// Threads. Belongs to its connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace isotherm::net {

class RespParser {
 public:
  static constexpr size_t max_line_bytes = 64 << 10;

  enum class Outcome : uint8_t {
    incomplete,  // nothing consumed
    request,     // `arguments` hold it; they may be none (an empty line)
    error,       // `error` says what is wrong; nothing more can be parsed, there are no words
  };

  // Of a request before the password was given.
  static constexpr size_t most_words_before = 10;
  static constexpr size_t most_bulk_bytes_before = 16 << 10;

  explicit RespParser(uint64_t max_bulk_bytes) : max_bulk_bytes_(max_bulk_bytes) {}

  // For lengths read from now on; `before_password`: of a client that has yet to give it.
  void limit(uint64_t max_bulk_bytes, bool before_password) {
    if (max_bulk_bytes == max_bulk_bytes_ && before_password == before_password_) return;
    max_bulk_bytes_ = max_bulk_bytes;
    before_password_ = before_password;
    head_.bytes = 0;
    lengths_ = {};
  }

  Outcome next(std::string_view input) {
    if (input.empty()) return Outcome::incomplete;
    const bool fresh = bulks_left_ < 0 && (scanned_ | diverted_index_) == 0;
    if (fresh && parse_quickly(input)) [[likely]]
      return Outcome::request;
    return parse_carefully(input);
  }

  // How many bytes the last request took, and its words. What they point at, the input or (inline)
  // the parser, is valid until `release`; the list itself is valid until the next call of `next`.
  size_t consumed() const { return consumed_; }
  // Whether the last request begins as the one before it, with the same first word.
  bool repeats() const { return repeats_; }
  std::span<const std::string_view> arguments() const { return arguments_; }
  std::string_view error() const { return error_; }

  // The word that is only partly there, when the last outcome was `incomplete`; without bytes where
  // that is none. `begin` is where its bytes begin in the input.
  struct Partial {
    size_t index = 0;
    size_t begin = 0;
    uint64_t bytes = 0;
  };
  Partial partial() const {
    if (bulks_left_ <= 0 || bulk_bytes_ <= 0) return {};
    return {words_, position_, static_cast<uint64_t>(bulk_bytes_)};
  }
  // A word of an incomplete request, before the partial one.
  std::string_view word(std::string_view input, size_t i) const {
    size_t at = first_word_;
    for (size_t before = 0; before < i; ++before) take_word(input, before, at);
    return take_word(input, i, at);
  }
  // The partial word's bytes come by another way, and will be `word`; the input goes on behind
  // them. So it is until `forget_diverted`, also where the request is parsed again.
  void divert(std::string_view word) {
    diverted_ = word;
    diverted_index_ = words_;
    bulk_bytes_ = 0;
    wanted_ = position_ + 2;
  }

  void forget_diverted() { diverted_index_ = 0; }

  // Forgets what it knows of an incomplete request: the next input begins with another.
  void restart();

  // Bytes from the front of an incomplete request that it needs at least; 0: unknown.
  size_t wanted() const { return wanted_; }

  // Forgets the words of the last request and of inline ones, once no batch borrows them.
  void release() {
    if (!inline_words_.empty() || arguments_.capacity() > kept_arguments) release_lists();
  }
  // The words of inline requests, for who borrows them for longer.
  std::vector<std::vector<std::string>> take_inline_words() {
    return std::exchange(inline_words_, {});
  }
  void give_inline_words(std::vector<std::vector<std::string>> words) {
    inline_words_ = std::move(words);
  }

 private:
  enum class Line : uint8_t { complete, incomplete, too_long };

  // Beyond this many, the lists of arguments are given back after the request.
  static constexpr size_t kept_arguments = 256;

  // The front of a request up to the end of its first word, as it was written.
  struct Head {
    static constexpr size_t longest = 32;
    size_t words = 0;
    size_t first_word = 0;  // its bytes
    size_t bytes = 0;       // 0: there is none
    std::array<char, longest> text;
  };

  // The line before a word, "$<bytes>\r\n", of less than 8 bytes, as it was written, where line
  // and word take 8 bytes or more.
  struct Length {
    uint64_t line = 0;
    uint64_t mask = 0;  // of the bytes that count
    size_t line_bytes = 0;
    size_t bytes = 0;
    size_t all = SIZE_MAX;  // with the word and its end; SIZE_MAX: there is none

    // Whether such a line is next, with all of a word behind it.
    ISOTHERM_INLINE bool repeats_at(const char* at, const char* end) const {
      if (static_cast<size_t>(end - at) < all) [[unlikely]]
        return false;
      uint64_t next = 0;
      std::memcpy(&next, at, sizeof next);
      return (next & mask) == line;
    }
    // Then: the word; moves behind it.
    ISOTHERM_INLINE std::string_view take(const char*& at) const {
      const std::string_view word{at + line_bytes, bytes};
      at += all;
      return word;
    }
  };

  bool parse_quickly(std::string_view input);
  bool parse_anew(std::string_view input);
  bool parse_words(std::string_view input, const char* at, size_t first);
  bool read_head(const char*& at, const char* end);
  bool read_word(const char*& at, const char* end, Length& length, std::string_view& word) const;
  Outcome parse_carefully(std::string_view input);
  Outcome parse_inline(std::string_view input);
  Outcome parse_count(std::string_view input);
  Outcome parse_bulks(std::string_view input);
  bool is_diverted(size_t i) const { return diverted_index_ != 0 && i == diverted_index_; }
  Outcome finish(std::string_view input);
  std::string_view take_word(std::string_view input, size_t i, size_t& at) const;
  Outcome fail(std::string error);
  void clear_arguments();
  void release_lists();
  // Finds the end of the line that starts at position_.
  Line find_line(std::string_view input, char terminator, size_t* end);

  bool takes_bulk(uint64_t bytes) const {
    return bytes <= max_bulk_bytes_ && (!before_password_ || bytes <= most_bulk_bytes_before);
  }

  uint64_t max_bulk_bytes_;
  bool before_password_ = false;
  size_t position_ = 0;      // parsed up to here, from the front of the request
  size_t first_word_ = 0;    // where its line begins, of a request with a count
  size_t words_ = 0;         // of an incomplete request, that are there
  size_t scanned_ = 0;       // the line at position_ has no end before this
  int64_t bulks_left_ = -1;  // -1: the count is not known yet
  int64_t bulk_bytes_ = -1;  // -1: the length is not known yet
  size_t wanted_ = 0;
  size_t consumed_ = 0;
  bool repeats_ = false;
  Head head_;                      // of the last request, if that was parsed quickly
  std::array<Length, 2> lengths_;  // of every second word, so that keys and values have one each
  size_t diverted_index_ = 0;      // 0: there is none
  std::string_view diverted_;
  std::vector<std::string_view> arguments_;
  std::vector<std::vector<std::string>> inline_words_;
  std::string error_;
};

}  // namespace isotherm::net
