#include "program_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/flag_words.h"

namespace isotherm::bench {

ProgramFlags::Flag ProgramFlags::Flag::between(uint64_t low, uint64_t high) const {
  option_.check(CLI::Range(low, high));
  return *this;
}
ProgramFlags::Flag ProgramFlags::Flag::one_of(const std::vector<std::string>& values) const {
  option_.check(CLI::IsMember(values));
  return *this;
}
ProgramFlags::Flag ProgramFlags::Flag::required() const {
  option_.required();
  return *this;
}
ProgramFlags::Flag ProgramFlags::Flag::excludes(const Flag& other) const {
  option_.excludes(&other.option_);
  return *this;
}

ProgramFlags::ProgramFlags(const std::string& what) : app_(std::make_unique<CLI::App>(what)) {
  app_->option_defaults()->always_capture_default();
}
ProgramFlags::~ProgramFlags() = default;

template <class T>
ProgramFlags::Flag ProgramFlags::add(const std::string& name, T& to, const std::string& what) {
  return Flag(*app_->add_option(name, to, what));
}
ProgramFlags::Flag ProgramFlags::add_switch(const std::string& name, bool& to,
                                            const std::string& what) {
  return Flag(*app_->add_flag(name, to, what));
}
template <class T>
ProgramFlags::Flag ProgramFlags::add_list(const std::string& name, std::vector<T>& to,
                                          const std::string& what) {
  return Flag(*app_->add_option(name, to, what)->delimiter(','));
}
ProgramFlags::Flag ProgramFlags::add_rest(const std::string& name, std::vector<std::string>& to,
                                          const std::string& what) {
  return Flag(*app_->add_option(name, to, what));
}

void ProgramFlags::take(int argc, char** argv) {
  try {
    parse_command_line(*app_, argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app_->exit(error));
  }
}

template ProgramFlags::Flag ProgramFlags::add(const std::string&, bool&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add(const std::string&, int&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add(const std::string&, uint32_t&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add(const std::string&, uint64_t&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add(const std::string&, double&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add(const std::string&, std::string&, const std::string&);
template ProgramFlags::Flag ProgramFlags::add_list(const std::string&, std::vector<uint64_t>&,
                                                   const std::string&);
template ProgramFlags::Flag ProgramFlags::add_list(const std::string&, std::vector<double>&,
                                                   const std::string&);
template ProgramFlags::Flag ProgramFlags::add_list(const std::string&, std::vector<std::string>&,
                                                   const std::string&);

}  // namespace isotherm::bench
