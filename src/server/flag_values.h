// Flag values: what stands behind a flag of the command line, as a text, into its field.
//
// A text that does not fit throws CLI::ValidationError, when the words are read: with the flag's
// name, what is wrong, and what would be right.
//
// Threads. One.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace isotherm {

inline constexpr uint64_t most_memory = std::numeric_limits<int64_t>::max();

void take_memory(const std::string& text, uint64_t least, uint64_t most, uint64_t& field);

// `take` throws CLI::ValidationError without the flag's name.
void add_text_option(CLI::App& app, const std::string& flag, const std::string& help,
                     const std::function<void(const std::string&)>& take);

// An amount of memory, from `least` to `most` bytes.
void add_memory_option(CLI::App& app, const std::string& flag, const std::string& help,
                       uint64_t& field, uint64_t least = 0, uint64_t most = most_memory);

// Has all numbers of the flags so far be written in decimal: CLI11 takes also hexadecimal and octal
// ones, so 010 for 8, and spaces before them.
void take_only_decimal(CLI::App& app);

// One of some words, of which `choices` is a list; `parse` gives none for another word.
template <class Parse, class Field>
void add_choice(CLI::App& app, const std::string& flag, const std::string& help,
                const char* choices, Parse parse, Field& field) {
  add_text_option(app, flag, help, [choices, parse, &field](const std::string& text) {
    const auto choice = parse(text);
    if (!choice) throw CLI::ValidationError("'" + text + "' is not one of: " + choices);
    field = *choice;
  });
}

}  // namespace isotherm
