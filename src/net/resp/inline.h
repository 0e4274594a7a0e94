// Inline commands: a line of words instead of RESP, for people with telnet.
//
// Words are separated by white space. "double quotes" understand \n \r \t \b \a \\ \" and \xHH,
// 'single quotes' understand \' only; a closing quote must end its word. A NUL byte ends the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isotherm::net {

// Splits `line` into words, appended to `words`; false: quotes are not balanced.
bool split_inline(std::string_view line, std::vector<std::string>& words);

}  // namespace isotherm::net
