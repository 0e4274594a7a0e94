// RocksDB by any library of it, under the loads of db_bench. A process has place for one library of
// RocksDB, so those that a Db is not linked with are measured here, in turns with db_bench.
//
//   rocksdb_bench --rocksdb FILE [the flags of db_bench that are not of the Db alone]
//
// Such as that of the Java package org.rocksdb:rocksdbjni, in whose archive a shared library lies,
// which was compiled without assertions and with the C interface.
#include "db_loads.h"
#include "rocksdb_system.h"

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  return main_of({"rocksdb_bench", "RocksDB by any library of it, under the loads of db_bench.",
                  [](const DbBenchOptions& options, const std::string& folder,
                     std::vector<std::unique_ptr<DbSystem>>& systems) {
                    demand(options.rocksdb != "linked", "--rocksdb names the file of a library");
                    systems.push_back(std::make_unique<RocksdbSystem>(
                        options.rocksdb, folder + "/rocksdb", options.memory_bytes(),
                        options.has_transactions()));
                  }},
                 argc, argv);
}
