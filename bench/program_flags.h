// ProgramFlags: the flags of a small benchmark program. --help shows them with what they are where
// they are not given; what is unknown, or cannot be meant, ends the program.
//
// CLI11, which takes seconds to compile, is behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace isotherm::bench {

class ProgramFlags {
 public:
  // What one may be.
  class Flag {
   public:
    explicit Flag(CLI::Option& option) : option_(option) {}

    Flag between(uint64_t low, uint64_t high) const;
    Flag one_of(const std::vector<std::string>& values) const;
    Flag required() const;
    Flag excludes(const Flag& other) const;

   private:
    CLI::Option& option_;
  };

  explicit ProgramFlags(const std::string& what);
  ~ProgramFlags();

  // A name without "--" is that of an argument. T: numbers, std::string, and bool, given as 0 or 1.
  template <class T>
  Flag add(const std::string& name, T& to, const std::string& what = "");
  // True where it is there.
  Flag add_switch(const std::string& name, bool& to, const std::string& what);
  // With commas between them.
  template <class T>
  Flag add_list(const std::string& name, std::vector<T>& to, const std::string& what = "");
  // As many arguments as there are.
  Flag add_rest(const std::string& name, std::vector<std::string>& to, const std::string& what);

  void take(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

// Of a program that takes a number alone.
template <class T>
T take_number(int argc, char** argv, const std::string& what, const std::string& name,
              T if_not_given) {
  ProgramFlags flags(what);
  flags.add(name, if_not_given).between(1, T{0} - T{1});
  flags.take(argc, argv);
  return if_not_given;
}

}  // namespace isotherm::bench
