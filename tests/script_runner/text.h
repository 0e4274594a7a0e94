// The notation of the scripts, in three steps from a line of a file to bytes on a socket.
//
//   expand      ${name} and ${text*count}, still text
//   unescape    \r \n \t \\ \" \xHH, now bytes
//   encode      a RESP request (an array of bulk strings), a memcached line, an expected reply
//
// Expansion comes last in time (variables are set while a script runs) but first in order, so that
// ${\x00*1000} is a thousand zero bytes. What a variable holds is escaped when it is set.
//
// All functions throw ScriptError on a malformed line: a script is a program of the project, and a
// wrong one must fail loudly with its place.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm::scripts {

class ScriptError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Dialect { resp, memcached };

using Variables = std::map<std::string, std::string, std::less<>>;

// Replaces ${name} by its value and ${text*count} by `count` copies of `text`.
std::string expand(std::string_view text, const Variables& variables);

std::string unescape(std::string_view text);
// The inverse, printable; long strings are cut in the middle, for messages.
std::string printable(std::string_view bytes, size_t limit = 400);

// Words separated by blanks; a word in double quotes may be empty or hold blanks. Unescaped.
std::vector<std::string> split_words(std::string_view text);

// The bytes that a line `> text` sends, `text` being expanded.
std::string encode_request(Dialect dialect, std::string_view text);
// Words as an array of bulk strings.
std::string encode_command(const std::vector<std::string>& words);
// The bytes that a line `< text` expects, `text` being expanded.
std::string encode_reply(Dialect dialect, std::string_view text);

}  // namespace isotherm::scripts
