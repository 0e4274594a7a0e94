// A script: a text file parsed into steps. tests/scripts/README.md describes the notation.
//
// Parsing looks at a line's first word only and unrolls `repeat` blocks; what stands behind it is
// kept as text, because variables are known only while the script runs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "script_runner/text.h"

namespace isotherm::scripts {

enum class Action {
  send,            // > request
  send_raw,        // >> bytes
  expect,          // < reply
  expect_any,      // <* reply, one of a run of lines in any order
  expect_pattern,  // <~ regular expression for one line, ${name=pattern} sets a variable
  expect_bulk,     // <$ regular expression found in one bulk or verbatim string
  expect_raw,      // << bytes
  expect_closed,   // < (closed)
  pipeline_begin,  // pipeline {
  pipeline_end,    // }
  clock,           // clock +1500ms
  let,             // let name seconds|milliseconds +10
  iterate,         // iterate 100 MATCH k* COUNT 10
  disconnect,      // close
};

struct Step {
  Action action;
  std::string connection;
  std::string text;
  int line;
};

struct Script {
  std::string name;  // resp/strings
  Dialect dialect;   // of connections whose name does not say it
  // Flags of the server under test, from the lines `server --name value`.
  std::vector<std::string> server_flags;
  // False for what a peer cannot be asked: `peer no`.
  bool peer = true;
  std::vector<Step> steps;

  Dialect dialect_of(std::string_view connection) const;
};

Script parse_script(std::string name, std::string_view text);
Script load_script(const std::filesystem::path& root, const std::filesystem::path& file);
// Every *.txt under `root`, sorted.
std::vector<std::filesystem::path> find_scripts(const std::filesystem::path& root);

}  // namespace isotherm::scripts
