#include "server/stored_snapshot.h"

#include <filesystem>
#include <system_error>

#include "base/worker_pool.h"
#include "db/store_filler.h"
#include "durability/rdb_file.h"
#include "net/log.h"
#include "tree/tree.h"

namespace isotherm {
LoadedSnapshot load_snapshot(const net::ServerOptions& options, Engine& engine) {
  LoadedSnapshot loaded;
  const std::string path = options.dir + "/" + options.dbfilename;
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return loaded;
  Tree* const tree = engine.tree();
  if (tree != nullptr && !tree->wants_snapshot()) {
    net::log(net::LogLevel::notice, "the tree is read, and not the snapshot " + path);
    return loaded;
  }
  const RdbFile file(path);
  if (file.databases() > engine.options().databases) {
    throw RdbError("snapshot: " + path + " has keys in database " +
                   std::to_string(file.databases() - 1) + ": more databases are needed");
  }
  engine.begin_versions(file.versions_end());
  if (tree != nullptr && tree->begin_filling()) Worker(engine).flush_all();
  engine.expect_keys(file.items_by_database());  // behind a flush, which takes indexes away
  FillTotals totals;
  WorkerPool(options.threads).run(file.parts(), [&](uint32_t part, uint32_t) {
    StoreFiller filler(engine, totals);
    file.read(part, [&](const RdbItem& item) {
      filler.put({item.database, item.key, item.value, item.expiry, item.flags, item.state},
                 !file.has(item.key) || !file.has(item.value));
    });
    filler.finish();
  });
  if (const std::string problem = totals.problem(engine); !problem.empty()) {
    throw RdbError("snapshot: " + path + ": " + problem);
  }
  if (tree != nullptr) tree->end_filling();
  loaded = {true, file.items() - totals.expired, totals.expired};
  net::log(net::LogLevel::notice, "the snapshot was read: " + std::to_string(loaded.loaded) +
                                      " keys, " + std::to_string(loaded.expired) + " had expired");
  return loaded;
}

}  // namespace isotherm
