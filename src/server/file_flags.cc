#include "server/file_flags.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "server/flag_values.h"

namespace isotherm {
namespace {

std::optional<bool> parse_yes(std::string_view text) {
  if (text != "yes" && text != "no") return {};
  return text == "yes";
}

void take_file_name(const std::string& text, std::string& field) {
  constexpr size_t longest = 200;  // files of the journal have a number behind it
  if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos) {
    throw CLI::ValidationError("'" + text + "' is not the name of a file; give one without '/'");
  }
  if (text.size() > longest) {
    throw CLI::ValidationError("the name is too long; give one of at most " +
                               std::to_string(longest) + " characters");
  }
  field = text;
}

// Else the first snapshot would tell of it, when there is something to lose.
void take_folder(const std::string& text, std::string& field) {
  std::error_code error;
  if (!std::filesystem::is_directory(text, error)) {
    throw CLI::ValidationError("there is no folder '" + text + "'; make it, or give another");
  }
  field = text;
}

// No name is a script's variable that was not set: without a tree nothing of the store would last.
void take_tree(const std::string& text, std::string& field) {
  if (text.empty()) {
    throw CLI::ValidationError("'' is not the name of a folder; give one, or leave the flag out");
  }
  field = text;
}

void take_save_points(const std::string& text, SavePoints& field) {
  const auto points = parse_save_points(text);
  if (!points) {
    throw CLI::ValidationError("'" + text +
                               "' is not a list of seconds and changes; give pairs, e.g. 3600 1");
  }
  field = *points;
}

void add_name_option(CLI::App& app, const std::string& flag, const std::string& help,
                     std::string& field) {
  add_text_option(app, flag, help,
                  [&field](const std::string& text) { take_file_name(text, field); });
}

void add_journal_options(CLI::App& app, net::ServerOptions& options) {
  add_choice(app, "--appendonly",
             "Whether every change is written to a journal on disk, yes or no [no]", "yes, no",
             parse_yes, options.appendonly);
  add_choice(app, "--appendfsync",
             "When the journal is synced to the disk: always (before each reply), everysec or "
             "no [everysec]",
             "always, everysec, no", parse_sync_policy, options.appendfsync);
  add_name_option(app, "--appendfilename",
                  "Name that the files of the journal begin with, within --dir [appendonly.aof]",
                  options.appendfilename);
  app.add_option("--auto-aof-rewrite-percentage", options.auto_aof_rewrite_percentage,
                 "Growth of the journal, in percent, after which it is rewritten; 0: never [100]")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  add_memory_option(app, "--auto-aof-rewrite-min-size",
                    "Size of the journal below which it is not rewritten by itself [64mb]",
                    options.auto_aof_rewrite_min_size);
}

void add_snapshot_options(CLI::App& app, net::ServerOptions& options) {
  add_text_option(
      app, "--save",
      "When the server writes a snapshot by itself, in pairs of seconds and changes: so many "
      "seconds after the last one, if there were so many changes, e.g. \"3600 1 300 100\"; \"\": "
      "never [\"\"]",
      [&](const std::string& text) { take_save_points(text, options.save); });
  add_name_option(app, "--dbfilename",
                  "Name of the file of snapshots, within --dir; the server reads it when it starts "
                  "without a journal [dump.rdb]",
                  options.dbfilename);
  add_text_option(app, "--dir", "Folder of the journal and of snapshots [.]",
                  [&](const std::string& text) { take_folder(text, options.dir); });
}

void add_tree_options(CLI::App& app, Options& store) {
  add_text_option(app, "--tree",
                  "Folder of a tree (RocksDB) for more items than maxmemory holds: memory is then "
                  "a cache of it [none]",
                  [&](const std::string& text) { take_tree(text, store.tree); });
  app.add_option("--tree-options", store.tree_options,
                 "RocksDB's options for the tree, e.g. \"max_background_jobs=4\" [none]");
  add_memory_option(app, "--gpu-sorted",
                    "Memory of the first GPU for a copy of the tree's files, at least 16mb: what "
                    "maxmemory does not hold is read there and not from the disk, as long as the "
                    "copy has room for all; 0: none [0]",
                    store.gpu_sorted);
}

}  // namespace

void add_file_options(CLI::App& app, net::ServerOptions& options) {
  add_journal_options(app, options);
  add_snapshot_options(app, options);
  add_tree_options(app, options.store);
}

}  // namespace isotherm
