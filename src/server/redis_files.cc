#include "server/redis_files.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "durability/segment_writer.h"

namespace isotherm {
namespace {

namespace fs = std::filesystem;

// Since Redis 7 it is a folder with a manifest.
std::string manifest_in(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".manifest") return it->path().string();
  }
  return {};
}

// Before, it was a file of commands, which may begin with a snapshot. Journals have no file of that
// name.
bool is_append_only_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::string head(5, '\0');
  std::ifstream(path, std::ios::binary)
      .read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.starts_with('*') || head == "REDIS";
}

// Empty: there is none.
std::string append_only_file(const fs::path& folder, const std::string& name) {
  if (is_append_only_file(folder / name)) return (folder / name).string();
  return manifest_in(folder / "appendonlydir");
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::string look_for_redis_files(const net::ServerOptions& options) {
  const fs::path folder = options.dir;
  if (options.appendonly && is_there(manifest_path((folder / options.appendfilename).string()))) {
    return {};
  }
  const std::string theirs = append_only_file(folder, options.appendfilename);
  const std::string snapshot = (folder / options.dbfilename).string();
  if (options.appendonly && !theirs.empty()) {
    throw std::runtime_error(
        theirs +
        " is an append-only file of Redis, which this server does not read: have Redis write a "
        "snapshot (redis-cli SAVE) and move this file elsewhere; the journal then begins with what "
        "the snapshot has, and with no keys where there is none");
  }
  if (theirs.empty()) return {};
  return theirs +
         " is an append-only file of Redis and is not read: what it has beside the snapshot " +
         snapshot + " is not there";
}

std::string look_for_unread_journal(const net::ServerOptions& options) {
  const std::string manifest =
      manifest_path((fs::path(options.dir) / options.appendfilename).string());
  if (options.appendonly || !options.store.tree.empty() || !is_there(manifest)) return {};
  return "there is a journal, " + manifest +
         ", which is not read: with --appendonly yes the store would be what the journal says";
}

}  // namespace isotherm
