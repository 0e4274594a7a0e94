// ConfigFile: a file in the format of redis.conf, as the flags of a command line.
//
//   # a comment                  nothing
//   maxmemory 100mb              --maxmemory=100mb
//   save 900 1 300 10            "--save=900 1 300 10"
//   dir "/data/of the store"     quotes and escapes are those of inline commands (inline.h)
//   include more.conf            the lines of another file, here
//
// Names may have any case. Relative paths are those of the program's folder, as in Redis. What the
// values may be is up to the flags: a wrong one is refused with its line, also where a later line,
// or the command line, has another. Unknown names are refused, all together, with their lines, and
// so are lines that lack a value, or have one that their flag does not take. No word has a NUL
// byte.
//
// Threads. Any.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace isotherm {

// Throws CLI::ParseError where --name, or --name=value, has a value that is wrong by itself.
using CheckFlag = std::function<void(const std::string& flag)>;

// The options of `app` are those that a file may have, but for --help and --version. Throws
// CLI::ValidationError with the file, the line and what is wrong.
std::vector<std::string> flags_of_file(const std::string& path, const CLI::App& app,
                                       const CheckFlag& check);

}  // namespace isotherm
