// ProgramFlags: the flags of a small benchmark program. --help shows them with what they are where
// they are not given; what is unknown, or cannot be meant, ends the program.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <vector>

namespace isotherm::bench {

class ProgramFlags : public CLI::App {
 public:
  explicit ProgramFlags(const std::string& what) : CLI::App(what) {
    option_defaults()->always_capture_default();
  }

  // With commas between them.
  template <class T>
  CLI::Option* add_list(const std::string& name, std::vector<T>& to, const std::string& what) {
    return add_option(name, to, what)->delimiter(',');
  }

  void take(int argc, char** argv) {
    try {
      parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::exit(exit(error));
    }
  }
};

// Of a program that takes a number alone.
template <class T>
T take_number(int argc, char** argv, const std::string& what, const std::string& name,
              T if_not_given) {
  ProgramFlags flags(what);
  flags.add_option(name, if_not_given)->check(CLI::PositiveNumber);
  flags.take(argc, argv);
  return if_not_given;
}

}  // namespace isotherm::bench
