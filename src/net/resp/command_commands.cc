// COMMAND and the HELP of commands with subcommands: the table, told to clients.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/words.h"
#include "net/resp/glob.h"
#include "net/resp/handlers.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

using namespace command_flag;

struct Name {
  uint32_t flag;
  std::string_view text;
};

constexpr std::array<Name, 13> flag_names = {{{write, "write"},
                                              {readonly, "readonly"},
                                              {denyoom, "denyoom"},
                                              {admin, "admin"},
                                              {noscript, "noscript"},
                                              {loading, "loading"},
                                              {stale, "stale"},
                                              {fast, "fast"},
                                              {no_auth, "no_auth"},
                                              {no_async_loading, "no_async_loading"},
                                              {waits, "no_multi"},
                                              {allow_busy, "allow_busy"},
                                              {skip_slowlog, "skip_slowlog"}}};

// Categories follow from flags where they can; in the order in which Redis lists them.
std::vector<std::string_view> categories(const Command& command) {
  std::vector<std::string_view> names;
  const auto add = [&](bool member, std::string_view name) {
    if (member) names.push_back(name);
  };
  const uint32_t flags = command.flags;
  add(flags & in_keyspace, "@keyspace");
  add(flags & readonly, "@read");
  add(flags & write, "@write");
  add(flags & in_string, "@string");
  add(flags & in_bitmap, "@bitmap");
  add(flags & (admin | in_admin), "@admin");
  add(flags & fast, "@fast");
  add(!(flags & fast), "@slow");
  add(flags & (admin | in_dangerous), "@dangerous");
  add(flags & in_connection, "@connection");
  add(flags & in_transaction, "@transaction");
  return names;
}

void write_words(const std::vector<std::string_view>& words, bool as_set, RespWriter& writer) {
  as_set ? writer.set(words.size()) : writer.array(words.size());
  for (const std::string_view word : words) writer.simple(word);
}

void write_bulk_pair(std::string_view name, std::string_view value, RespWriter& writer) {
  writer.bulk(name);
  writer.bulk(value);
}

// A range of positions of keys, of the kind that every command here has; `last` as in the table.
void write_key_range(std::string_view key_flags, int first, int last, int step,
                     RespWriter& writer) {
  writer.map(3);
  writer.bulk("flags");
  write_words(words_of(key_flags), true, writer);
  writer.bulk("begin_search");
  writer.map(2);
  write_bulk_pair("type", "index", writer);
  writer.bulk("spec");
  writer.map(1);
  writer.bulk("index");
  writer.integer(first);
  writer.bulk("find_keys");
  writer.map(2);
  write_bulk_pair("type", "range", writer);
  writer.bulk("spec");
  writer.map(3);
  writer.bulk("lastkey");
  writer.integer(last < 0 ? last : last - first);
  writer.bulk("keystep");
  writer.integer(step);
  writer.bulk("limit");
  writer.integer(0);
}

void write_key_specifications(const Command& command, RespWriter& writer) {
  const int first = command.first_key;
  const size_t bar = command.key_flags.find('|');
  if (first == 0) return writer.set(0);
  if (bar == command.key_flags.npos) {
    writer.set(1);
    return write_key_range(command.key_flags, first, command.last_key, command.key_step, writer);
  }
  writer.set(2);
  write_key_range(command.key_flags.substr(0, bar), first, first, 1, writer);
  write_key_range(command.key_flags.substr(bar + 1), first + 1, command.last_key, command.key_step,
                  writer);
}

void write_command(const Command& command, RespWriter& writer) {
  std::vector<std::string_view> flags;
  for (const Name& name : flag_names) {
    if (command.flags & name.flag) flags.push_back(name.text);
  }
  writer.array(10);
  writer.bulk(command.name);
  writer.integer(command.arity);
  write_words(flags, true, writer);
  writer.integer(command.first_key);
  writer.integer(command.last_key);
  writer.integer(command.key_step);
  write_words(categories(command), true, writer);
  const auto tips = words_of(command.tips);
  writer.set(tips.size());
  for (const std::string_view tip : tips) writer.bulk(tip);
  write_key_specifications(command, writer);
  writer.set(command.subcommands.size());
  for (const Command& subcommand : command.subcommands) write_command(subcommand, writer);
}

void write_docs(const Command& command, RespWriter& writer) {
  writer.bulk(command.name);
  writer.map(command.subcommands.empty() ? 3 : 4);
  write_bulk_pair("summary", command.summary, writer);
  write_bulk_pair("since", command.since, writer);
  write_bulk_pair("group", command.group, writer);
  if (command.subcommands.empty()) return;
  writer.bulk("subcommands");
  writer.map(command.subcommands.size());
  for (const Command& subcommand : command.subcommands) write_docs(subcommand, writer);
}

// "get", or "client|id" for a subcommand.
const Command* find_by_full_name(std::string_view name) {
  const size_t bar = name.find('|');
  const auto [command, number] = find_numbered(name.substr(0, bar));
  if (number == 0) return nullptr;
  if (bar == name.npos) return command;
  return find_subcommand(*command, name.substr(bar + 1));
}

// These answers do not depend on the batch, so the text is made while parsing: the arguments, which
// choose what it holds, need not be remembered.
template <typename Write>
void answer_written(Call& call, Write write) {
  Output output;
  RespWriter writer(output, call.session.version);
  write(writer);
  call.answer_owned(encode_raw, output.text());
}

void answer_all(Call& call) {
  answer_written(call, [](RespWriter& writer) {
    writer.array(command_table().size());
    for (const Command& command : command_table()) write_command(command, writer);
  });
}

bool in_category(const Command& command, std::string_view category) {
  for (const std::string_view name : categories(command)) {
    if (equals_ignoring_case(name.substr(1), category)) return true;
  }
  return false;
}

// Names of all commands and subcommands that `wanted` takes.
template <typename Wanted>
void collect_names(std::span<const Command> commands, Wanted wanted,
                   std::vector<std::string_view>& names) {
  for (const Command& command : commands) {
    if (wanted(command)) names.push_back(command.name);
    collect_names(command.subcommands, wanted, names);
  }
}

// Of GETKEYS and its kin; null: it was answered with an error.
const Command* command_with_keys(Call& call) {
  const Arguments words = call.arguments.subspan(2);
  const Command* found = find_command(words[0]);
  if (found != nullptr && !found->subcommands.empty() && words.size() > 1) {
    found = find_subcommand(*found, words[1]);
  }
  if (found == nullptr) return call.error("ERR Invalid command specified"), nullptr;
  if (found->first_key == 0) return call.error("ERR The command has no key arguments"), nullptr;
  if (found->takes(words.size())) return found;
  return call.error("ERR Invalid number of arguments specified for command"), nullptr;
}

// Calls write(key, place among the words, writer) for each key.
template <typename Write>
void answer_keys(Call& call, const Command& command, Write write) {
  const Arguments words = call.arguments.subspan(2);
  const size_t last = command.last_key < 0 ? words.size() - static_cast<size_t>(-command.last_key)
                                           : static_cast<size_t>(command.last_key);
  const auto first = static_cast<size_t>(command.first_key);
  const auto step = static_cast<size_t>(command.key_step);
  answer_written(call, [&](RespWriter& writer) {
    writer.array((last - first) / step + 1);
    for (size_t i = first; i <= last; i += step) write(words[i], i, writer);
  });
}

// Words of BITFIELD that are no fields are taken for writes, as in Redis.
bool only_gets(Arguments words) {
  for (size_t i = 2; i < words.size();) {
    const bool gets = equals_ignoring_case(words[i], "get") && i + 2 < words.size();
    const bool tells = equals_ignoring_case(words[i], "overflow") && i + 1 < words.size();
    if (!gets && !tells) return false;
    i += gets ? 3 : 2;
  }
  return true;
}

// What the command does to the key at that place; of SET and BITFIELD their words decide.
std::string_view flags_of_key(const Command& command, Arguments words, size_t place) {
  constexpr std::string_view changes = "RW access update";
  const std::string_view flags = command.key_flags;
  if (command.handler == handlers::set) {
    const bool reads = std::any_of(words.begin() + 3, words.end(), [](std::string_view word) {
      return equals_ignoring_case(word, "get");
    });
    return reads ? changes : "OW update";
  }
  if (command.handler == handlers::bitfield) return only_gets(words) ? "RO access" : changes;
  const size_t bar = flags.find('|');
  if (bar == flags.npos) return flags;
  return place == static_cast<size_t>(command.first_key) ? flags.substr(0, bar)
                                                         : flags.substr(bar + 1);
}

void write_key_and_flags(std::string_view key, std::string_view flags, RespWriter& writer) {
  writer.array(2);
  writer.bulk(key);
  write_words(words_of(flags), true, writer);
}

}  // namespace

namespace handlers {

void command(Call& call) { answer_all(call); }

void command_count(Call& call) {
  call.answer(encode_integer, 0, 0, static_cast<int64_t>(command_table().size()));
}

void command_info(Call& call) {
  if (call.size() == 2) return answer_all(call);
  answer_written(call, [&](RespWriter& writer) {
    writer.array(call.size() - 2);
    for (const std::string_view name : call.arguments.subspan(2)) {
      const Command* found = find_by_full_name(name);
      found == nullptr ? writer.null() : write_command(*found, writer);
    }
  });
}

void command_docs(Call& call) {
  std::vector<const Command*> found;
  if (call.size() == 2) {
    for (const Command& command : command_table()) found.push_back(&command);
  }
  for (const std::string_view name : call.arguments.subspan(2)) {
    if (const Command* command = find_by_full_name(name)) found.push_back(command);
  }
  answer_written(call, [&](RespWriter& writer) {
    writer.map(found.size());
    for (const Command* command : found) write_docs(*command, writer);
  });
}

void command_list(Call& call) {
  const bool filtered = call.size() == 5 && equals_ignoring_case(call[2], "filterby");
  if (call.size() != 2 && !filtered) return call.syntax_error();
  std::vector<std::string_view> names;
  if (!filtered) {
    for (const Command& command : command_table()) names.push_back(command.name);
  } else if (equals_ignoring_case(call[3], "aclcat")) {
    collect_names(
        command_table(), [&](const Command& c) { return in_category(c, call[4]); }, names);
  } else if (equals_ignoring_case(call[3], "pattern")) {
    collect_names(
        command_table(), [&](const Command& c) { return glob_matches(call[4], c.name, true); },
        names);
  } else if (!equals_ignoring_case(call[3], "module")) {
    return call.syntax_error();
  }
  answer_written(call, [&](RespWriter& writer) {
    writer.array(names.size());
    for (const std::string_view name : names) writer.bulk(name);
  });
}

void command_getkeys(Call& call) {
  if (const Command* const found = command_with_keys(call); found != nullptr) {
    answer_keys(call, *found,
                [](std::string_view key, size_t, RespWriter& writer) { writer.bulk(key); });
  }
}

void command_getkeysandflags(Call& call) {
  if (const Command* const found = command_with_keys(call); found != nullptr) {
    answer_keys(call, *found, [&](std::string_view key, size_t place, RespWriter& writer) {
      write_key_and_flags(key, flags_of_key(*found, call.arguments.subspan(2), place), writer);
    });
  }
}

// `call.command` is "client|help": the list of its siblings.
void help(Call& call) {
  const Command* container = find_command(call[0]);
  answer_written(call, [&](RespWriter& writer) {
    writer.array(1 + 2 * container->subcommands.size());
    writer.simple(std::string(container->name) +
                  " <subcommand> [argument ...], where it is one of:");
    for (const Command& subcommand : container->subcommands) {
      writer.simple(subcommand.own_name());
      writer.simple("    " + std::string(subcommand.summary));
    }
  });
}

}  // namespace handlers
}  // namespace isotherm::net
