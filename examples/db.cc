// A durable, ordered store: groups, merges, a range, a snapshot, a transaction, many requests in
// one call, and the next start.
#include <isotherm/db.h>
#include <isotherm/db_batch.h>
#include <isotherm/db_transaction.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace {

using isotherm::Db;
using isotherm::DbStatus;

bool worked(const DbStatus& status) {
  if (!status.ok()) std::cerr << to_string(status.code()) << ": " << status.text() << "\n";
  return status.ok();
}

// Moves money from one account to another, or does nothing.
DbStatus transfer(Db& db, const std::string& from, const std::string& to, int amount) {
  std::unique_ptr<isotherm::DbTransaction> transaction;
  DbStatus status = db.begin({.locks = true}, transaction);
  std::string has;
  std::string had;
  if (status.ok()) status = transaction->get_for_update(from, has);
  if (status.ok()) status = transaction->get_for_update(to, had);
  if (status.ok()) status = transaction->put(from, std::to_string(std::stoi(has) - amount));
  if (status.ok()) status = transaction->put(to, std::to_string(std::stoi(had) + amount));
  return status.ok() ? transaction->commit() : status;
}

bool use(Db& db) {
  isotherm::WriteGroup accounts;
  accounts.put("account:ada", "100");
  accounts.put("account:grace", "20");
  accounts.merge("log", isotherm::merge_by::append, "opened;");
  if (!worked(db.write(accounts))) return false;

  std::unique_ptr<const isotherm::DbSnapshot> before;
  if (!worked(db.snapshot(before))) return false;
  if (!worked(transfer(db, "account:ada", "account:grace", 30))) return false;
  if (!worked(db.merge("log", isotherm::merge_by::append, "transferred;"))) return false;

  std::string value;
  if (!worked(db.get("account:ada", value, {.snapshot = before.get()}))) return false;
  std::cout << "Ada had " << value << "\n";
  return value == "100";
}

// Many requests in one call; a range shows the writes before it.
bool use_batch(Db& db) {
  isotherm::DbBatch batch(db);
  batch.put("visit:1", "Ada");
  batch.put("visit:2", "Grace");
  const auto visits = batch.range("visit:", "visit;", 10);
  batch.erase("visit:1");
  if (!worked(batch.run())) return false;
  std::string all;
  for (const auto& [key, value] : batch.pairs(visits)) all.append(value).append(" ");
  std::cout << "visits: " << all << "\n";
  return all == "Ada Grace ";
}

bool show(Db& db) {
  std::unique_ptr<isotherm::DbIterator> at;
  if (!worked(db.iterate({.prefix = "account:"}, at))) return false;
  std::string all;
  for (at->seek_to_last(); at->valid(); at->prev()) {
    std::cout << at->key() << " = " << at->value() << "\n";
    all.append(at->value()).append(" ");
  }
  std::string log;
  return worked(at->status()) && worked(db.get("log", log)) && all == "50 70 " &&
         log == "opened;transferred;";
}

}  // namespace

int main() {
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-db-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 1;
  std::unique_ptr<Db> db;
  const DbStatus opened = Db::open({.memory = 64 << 20}, folder, db);
  bool right = opened.ok();
  // A library that was built without RocksDB says so.
  const bool without_files = opened.text().find("without RocksDB") != std::string::npos;
  if (!opened.ok()) std::cout << opened.text() << "\n";
  if (right) right = use(*db) && use_batch(*db) && show(*db);
  db.reset();
  if (right) right = worked(Db::open({}, folder, db)) && show(*db);
  db.reset();
  std::filesystem::remove_all(folder);
  return right || without_files ? 0 : 1;
}
