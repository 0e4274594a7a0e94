#include "net/resp/command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "net/command_counts.h"
#include "net/text.h"

namespace isotherm::net::resp_command_test {
namespace {

TEST(CommandTableTest, IsSortedAndFound) {
  const auto table = command_table();
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(),
                             [](const Command& a, const Command& b) { return a.name < b.name; }));
  for (const Command& command : table) {
    EXPECT_EQ(find_command(command.name), &command);
    std::string upper(command.name);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    EXPECT_EQ(find_command(upper), &command);
    for (const Command& subcommand : command.subcommands) {
      EXPECT_EQ(find_subcommand(command, subcommand.own_name()), &subcommand);
    }
  }
}

TEST(CommandTableTest, KnowsNothingElse) {
  for (const char* name : {"", "ge", "gett", "client|id", "nosuchcommand", "\n"}) {
    EXPECT_EQ(find_command(name), nullptr) << name;
  }
  EXPECT_EQ(find_command(std::string(1000, 'g')), nullptr);
}

TEST(CommandTableTest, EveryCommandHasANumberOfItsOwn) {
  uint16_t next = 1;
  for (const Command& command : command_table()) {
    const NumberedCommand found = find_numbered(command.name);
    EXPECT_EQ(found.command, &command);
    EXPECT_EQ(found.number, next++) << command.name;
    for (const Command& subcommand : command.subcommands) {
      const NumberedCommand below = find_numbered(found, subcommand.own_name());
      EXPECT_EQ(below.command, &subcommand);
      EXPECT_EQ(below.number, next++) << subcommand.name;
    }
  }
  EXPECT_LE(next, CommandCounts::most_commands);
}

// Names are recognised by those that came before: other cases, lengths and beginnings of the same
// name must not be taken for it.
TEST(CommandTableTest, FindsNamesInAnyOrder) {
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {"get", "GET", "gEt", "set", "SeT", "getset", "GETSET"}) {
      std::string lower(name);
      std::transform(lower.begin(), lower.end(), lower.begin(), to_lower);
      ASSERT_NE(find_command(name), nullptr) << name;
      EXPECT_EQ(find_command(name)->name, lower);
    }
    for (const char* name : {"ge", "geu", "getse", "gett", "sett", "g"}) {
      EXPECT_EQ(find_command(name), nullptr) << name;
    }
  }
}

TEST(CommandTableTest, RowsAreSound) {
  for (const Command& command : command_table()) {
    EXPECT_NE(command.arity, 0) << command.name;
    EXPECT_TRUE(command.handler != nullptr || !command.subcommands.empty()) << command.name;
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_EQ(command.first_key == 0, command.key_step == 0) << command.name;
    // A command whose keys are at certain positions takes at least so many words.
    const int least = command.arity < 0 ? -command.arity : command.arity;
    EXPECT_GT(least, command.first_key) << command.name;
    for (const Command& subcommand : command.subcommands) {
      EXPECT_NE(subcommand.handler, nullptr) << subcommand.name;
      EXPECT_TRUE(subcommand.name.starts_with(std::string(command.name) + "|")) << command.name;
    }
  }
}

TEST(CommandTableTest, ArityCountsTheName) {
  EXPECT_TRUE(find_command("get")->takes(2));
  EXPECT_FALSE(find_command("get")->takes(1));
  EXPECT_FALSE(find_command("get")->takes(3));
  EXPECT_TRUE(find_command("set")->takes(3));
  EXPECT_TRUE(find_command("set")->takes(9));
  EXPECT_FALSE(find_command("set")->takes(2));
}

}  // namespace
}  // namespace isotherm::net::resp_command_test
