// A shared library that has the store in it, compiled as strictly as its users may: every struct
// of options is filled in by name, some of its fields alone.
#include <isotherm/db.h>
#include <isotherm/db_batch.h>
#include <isotherm/db_transaction.h>
#include <isotherm/fixed_table.h>
#include <isotherm/object.h>
#include <isotherm/row_table.h>
#include <isotherm/store.h>

#include <memory>
#include <string>

[[gnu::visibility("default")]] bool plugin_works(const std::string& folder);

bool plugin_works(const std::string& folder) {
  isotherm::Store store({.maxmemory = 64 << 20, .router = {.bins = 64}, .rounds = {.rows = 0}});
  isotherm::Handle handle(store);
  isotherm::FixedTable fixed({.expected_entries = 1});
  isotherm::RowTable rows({.row_bytes = 8});
  isotherm::RowHandle(rows).run({.op = isotherm::TableOp::erase});
  const isotherm::SchedulingOptions scheduling{.greedy = {.budget = 2}};
  std::unique_ptr<isotherm::Db> db;
  const isotherm::DbStatus opened =
      isotherm::Db::open({.sync = isotherm::DbSync::no}, folder, db);
  std::unique_ptr<isotherm::DbIterator> iterator;
  std::unique_ptr<isotherm::DbTransaction> transaction;
  if (opened.ok() && (!db->iterate({.prefix = "p"}, iterator).ok() ||
                      !db->begin({.locks = true}, transaction).ok())) {
    return false;
  }
  return handle.put("key", "value", {.flags = 1}) == isotherm::Status::ok &&
         scheduling.periodic.write_cycles == 2;
}
